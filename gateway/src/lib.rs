//! The gateway: one request in, the best deployment's answer out, and a reason for every decision.
pub mod catalog;
pub mod chat;
pub mod config;
pub mod providers;
pub mod secret;
