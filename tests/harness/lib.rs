//! What the tests stand on: real replicas, a real Redis, scripted providers and a plain HTTP client.
//!
//! A replica is always the built program in a process of its own, so that a test sees what an operator sees.
//! Nothing here knows the gateway's code, and everything ends with the value that started it.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and says why"
)]
mod behaviour;
mod client;
mod machine;
mod provider;
mod redis;
mod replica;
mod sentinel;

pub use behaviour::Behaviour;
pub use client::{Call, Client, Open, Reply};
pub use machine::{Scratch, alone, fresh_minute, many_open_files, now, signal, until, workspace};
pub use provider::{ScriptedProvider, Seen};
pub use redis::{RedisServer, Watched};
pub use replica::{Finished, Launch, Replica, once};
pub use sentinel::BehindSentinels;
