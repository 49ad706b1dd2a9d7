//! The one test binary of the product: what it does from outside, and what a machine can hold of our rules.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and says where"
)]
mod it;
mod peer;
mod sdk;
mod tidy;
