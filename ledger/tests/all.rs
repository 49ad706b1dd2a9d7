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
mod failovers;
mod fleet_servers;
mod kinds;
mod load;
mod model;
mod outages;
mod redis_server;
mod scenarios;
mod world;
