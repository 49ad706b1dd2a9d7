//! The gateway: one request in, the best deployment's answer out, and a reason for every decision.
//!
//! The modules in the order in which a request meets them.
pub mod cli;
pub mod config;

pub mod catalog;
pub mod secret;

pub mod app;
pub mod http;
pub mod refusal;
pub mod running;

pub mod admit;
pub mod handle;
pub mod prompt;
pub mod rings;

pub mod providers;
pub mod telemetry;
