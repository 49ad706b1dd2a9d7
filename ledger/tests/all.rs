//! The ledger's tests from outside: scenarios and a model on both ledgers, and what only a real Redis can show.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at its first surprise"
)]
mod cooldowns;
mod counters;
mod durability;
mod exactness;
mod failovers;
mod fleet;
mod fleet_servers;
mod in_flight;
mod kinds;
mod load;
mod model;
mod money_model;
mod money_outages;
mod outages;
mod policies;
mod proofs;
mod redis_server;
mod samples;
mod scenarios;
mod slots;
mod spending;
mod world;
