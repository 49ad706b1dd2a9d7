//! The router's decision, pure: equal facts give equal decisions.
//!
//! `resolve` turns a name into a group, `gates` remove candidates with a reason each, a `strategy` orders
//! what is left, and the `Decision` tells all of it.
mod candidate;
mod decision;
mod deployment;
mod facts;
mod gates;
mod resolve;
mod strategy;
#[cfg(test)]
mod world;

pub use candidate::{Candidate, Candidates, Removed};
pub use decision::{Decision, Nothing, Ranked, Reason, decide};
pub use deployment::{Deployment, Group, Price};
pub use facts::Facts;
pub use gates::{GATES, Gate};
pub use resolve::{Names, Resolved};
pub use strategy::{Strategy, UnknownStrategy};
