//! What a decision may know of a deployment.
use std::sync::Arc;

/// Price in USD per token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Per input token.
    pub input: f64,
    /// Per output token.
    pub output: f64,
}

/// One way to reach a model, as far as routing is concerned: no endpoint, no credentials.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// `model_info.id`.
    pub id: Arc<str>,
    /// Tier: the smallest order left gets all traffic.
    pub order: Option<i64>,
    /// Share of traffic under simple-shuffle.
    pub weight: Option<f64>,
    /// Requests a minute.
    pub rpm: Option<u64>,
    /// Tokens a minute.
    pub tpm: Option<u64>,
    /// `model_info.blocked`: paused by an operator.
    pub blocked: bool,
    /// `None` where the config names no price.
    pub price: Option<Price>,
}

/// The deployments that share a `model_name`.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The `model_name`.
    pub name: Arc<str>,
    /// In the config's order; a candidate's index counts in it.
    pub deployments: Vec<Arc<Deployment>>,
}
