//! The ledger's tests from outside: scenarios and a model on both ledgers, and what only a real Redis can show.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at its first surprise"
)]
mod cooldowns;
mod counters;
mod exactness;
mod fleet;
mod model;
mod outages;
mod proofs;
mod redis_server;
mod scenarios;
mod world;
