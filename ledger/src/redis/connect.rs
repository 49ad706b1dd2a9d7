//! The connections, whatever kind of Redis it is: two multiplexed lines, and one of its own for each check of
//! health. Sets what the client library leaves off: Nagle off, few retries, short time-outs.
mod address;
mod client;
mod cluster;
mod heart;
mod home;
mod lines;
mod sentinel;
mod slots;

pub use address::{RedisAddress, RedisEndpoint, RedisLogin, RedisPlace, RedisSettings, RedisTls, RedisTrust};
pub(super) use heart::{Beat, Heart, SILENT_MAX_MS};
pub(super) use home::{Home, Terms};
pub(super) use lines::{Lines, Link, missed, within};
