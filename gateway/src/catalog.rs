//! The compiled config: immutable, shared by all requests, swapped whole.
use crate::secret::Secret;
use ledger::OnOutage;
use routing::{Names, Strategy};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// All that requests need from the config.
#[derive(Debug)]
pub struct Catalog {
    /// Every name that a request may use.
    pub names: Names,
    /// The model groups; `Names` counts in them.
    pub groups: Vec<Group>,
    /// How the router behaves.
    pub settings: Settings,
    /// `general_settings.master_key`, if set.
    pub master_key: Option<Secret>,
}

/// The deployments that share a `model_name`. The three lists have the same order.
#[derive(Debug)]
pub struct Group {
    /// The `model_name`.
    pub name: Arc<str>,
    /// What routing knows of them.
    pub routing: routing::Group,
    /// How the ledger names them.
    pub ledger: ledger::Group,
    /// How they are called.
    pub deployments: Vec<Arc<Deployment>>,
}

/// One way to reach a model.
#[derive(Debug)]
pub struct Deployment {
    /// What routing knows of it: id, limits, weight, order, price.
    pub facts: Arc<routing::Deployment>,
    /// How the ledger names it.
    pub member: ledger::Member,
    /// Who answers.
    pub target: Target,
    /// Bounds a whole plain call.
    pub timeout: Duration,
    /// Bounds the wait for a stream's first content, and the silence between two of its events.
    pub stream_timeout: Duration,
    /// `litellm_params.num_retries`: beats the router's.
    pub num_retries: Option<u32>,
    /// `cooldown_time` of this deployment: beats `Retry-After` and the router's. Zero: never cools.
    pub cooldown: Option<Duration>,
    /// `model_info.allowed_fails`: beats the router's.
    pub allowed_fails: Option<u64>,
}

/// Who answers a call.
#[derive(Debug)]
pub enum Target {
    /// `mock_response`: this text, without any call.
    Mock {
        /// The answer.
        text: String,
        /// The model it claims.
        model: String,
    },
    /// A server.
    Upstream(Upstream),
}

/// A server that speaks OpenAI's protocol.
#[derive(Debug)]
pub struct Upstream {
    /// `api_base` without a trailing slash (`https://api.openai.com/v1`).
    pub base: String,
    /// `api_key`, if any.
    pub key: Option<Secret>,
    /// The provider's model, without our prefix.
    pub model: String,
    /// Body fields sent unless the client gives them.
    pub defaults: Vec<(String, Box<RawValue>)>,
}

/// How the router behaves.
#[derive(Debug)]
pub struct Settings {
    /// `routing_strategy`.
    pub strategy: Strategy,
    /// Whether rpm and tpm are limits: by the strategy, `enable_pre_call_checks` or `enforce_model_rate_limits`.
    pub limits_bind: bool,
    /// `onegate_settings.ledger.tpm_hold`.
    pub tpm_hold: TpmHold,
    /// `onegate_settings.ledger.on_outage`.
    pub outage: Outage,
    /// `enable_pre_call_checks`, which refusals mention.
    pub pre_call_checks: bool,
    /// `num_retries` (2).
    pub num_retries: u32,
    /// `retry_after`: the least wait before a retry that has no peer to go to.
    pub retry_after: Duration,
    /// `cooldown_time` (5 s).
    pub cooldown: Duration,
    /// `onegate_settings.breaker.backoff` (1): each try that fails multiplies the cooldown by this.
    pub backoff: f64,
    /// `disable_cooldowns`.
    pub cooldowns_disabled: bool,
    /// `allowed_fails` a minute; `None`: by share of failures.
    pub allowed_fails: Option<u64>,
    /// `fallbacks`: group -> names to try after it; `*` for groups without their own.
    pub fallbacks: BTreeMap<String, Vec<String>>,
    /// `default_fallbacks`: for groups that neither their own entry nor `*` covers, and for unknown names.
    pub default_fallbacks: Vec<String>,
    /// `max_fallbacks` (5): groups visited after the first.
    pub max_fallbacks: usize,
}

/// How many tokens are held for a call before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TpmHold {
    /// Its input: the request that crosses the limit completes, the next is refused.
    #[default]
    Input,
    /// Its input and the output to be expected: admitted only if all of it fits, or the window is empty.
    Expected,
}

/// What is done while the shared ledger is away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outage {
    /// About the limits of deployments.
    pub limits: OnOutage,
    /// About budgets.
    pub budgets: OnOutage,
}
