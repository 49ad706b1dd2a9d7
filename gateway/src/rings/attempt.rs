//! The inner ring: reserve, call, settle. One try at one deployment.
use super::Miss;
use super::aftermath::Aftermath;
use super::lease::Lease;
use super::relay::Relay;
use crate::app::App;
use crate::catalog::{Catalog, Deployment, Group, Target};
use crate::prompt::Prompt;
use crate::providers::{self, CallLimits, Plain, Reply, Usage};
use crate::refusal::Busy;
use ledger::{Denial, Outcome, Passed, Reserve, Reserved, Want};
use routing::{Decision, Nothing, Resolved};
use std::sync::Arc;
use std::time::Duration;

/// What an attempt needs to know of its request.
pub struct Call<'a> {
    /// The program.
    pub app: &'a Arc<App>,
    /// The config that this request began with.
    pub catalog: &'a Arc<Catalog>,
    /// The client's request.
    pub prompt: &'a Prompt,
    /// The group being asked.
    pub resolved: &'a Resolved,
    /// Not the request's first attempt.
    pub again: bool,
}

/// An answer, and who gave it.
pub struct Served {
    /// The answer.
    pub answer: Answer,
    /// Who gave it.
    pub deployment: Arc<Deployment>,
    /// How long the provider took to answer, or to begin its stream.
    pub provider_took: Duration,
}

/// What goes to the client.
pub enum Answer {
    /// All at once.
    Plain(Plain),
    /// Event by event.
    Stream(Box<Relay>),
}

impl Call<'_> {
    fn group(&self) -> &Group {
        &self.catalog.groups[self.resolved.group]
    }

    /// Asks the first of the ranking that the ledger grants.
    ///
    /// # Errors
    /// Nobody could be asked, or the one that was failed.
    pub async fn attempt(&self, decision: &Decision) -> Result<Served, Miss> {
        let (place, mut lease) = self.reserve(decision).await?;
        let deployment = self.group().deployments[place].clone();
        let (app, prompt) = (self.app, self.prompt);
        let model = match &deployment.target {
            Target::Mock { model, .. } => self.resolved.model_for(model),
            Target::Upstream(upstream) => self.resolved.model_for(&upstream.model),
        };
        let limits = CallLimits {
            total: prompt.timeout.unwrap_or(deployment.timeout),
            silence: prompt.timeout.unwrap_or(deployment.stream_timeout).min(deployment.stream_timeout),
        };
        lease.sent(prompt.input_tokens_estimate());
        let started = app.clock.instant();
        let reply =
            providers::call(&app.transport, prompt, &deployment, &model, limits, app.clock.unix_ms()).await;
        let provider_took = started.elapsed();
        match reply {
            Ok(Reply::Plain(plain)) => {
                let tokens = tokens_of(plain.usage, prompt, plain.body.len());
                lease.settle(tokens, Outcome::Success);
                app.metrics.attempt(&deployment.member.id, "success", tokens);
                Ok(Served { answer: Answer::Plain(plain), deployment, provider_took })
            }
            Ok(Reply::Stream(stream)) => {
                let aftermath = self.aftermath(place);
                let estimate = prompt.input_tokens_estimate();
                let relay = Relay::new(stream, lease, aftermath, estimate);
                Ok(Served { answer: Answer::Stream(Box::new(relay)), deployment, provider_took })
            }
            Err(failure) => {
                self.aftermath(place).of(&failure, lease).await;
                let (id, num_retries) = (deployment.member.id.clone(), deployment.num_retries);
                Err(Miss::Failed { id, failure, num_retries })
            }
        }
    }

    fn aftermath(&self, place: usize) -> Aftermath {
        let deployment = &self.group().deployments[place];
        let own = if self.prompt.stream { deployment.stream_timeout } else { deployment.timeout };
        Aftermath {
            app: self.app.clone(),
            catalog: self.catalog.clone(),
            group: self.resolved.group,
            place,
            callers_timeout: self.prompt.timeout.is_some_and(|asked| asked < own),
        }
    }

    /// Takes a slot. No round trip where the first in the ranking has no limit, unless something already
    /// failed: then its peers' cooldowns may be newer than the view.
    async fn reserve(&self, decision: &Decision) -> Result<(usize, Lease), Miss> {
        if let Some(nothing) = decision.nothing_left() {
            return Err(self.nobody(decision, nothing));
        }
        let settings = &self.catalog.settings;
        let tpm_hold = self.prompt.input_tokens_estimate();
        let wants: Vec<Want> = decision
            .ranked
            .iter()
            .map(|ranked| {
                let deployment = &self.group().deployments[ranked.index];
                let (rpm, tpm) = (deployment.facts.rpm, deployment.facts.tpm);
                let bound = |limit: Option<u64>| limit.filter(|_| settings.limits_bind);
                Want {
                    member: deployment.member.clone(),
                    rpm_limit: bound(rpm),
                    tpm_limit: bound(tpm),
                    tpm_hold,
                }
            })
            .collect();
        let ledger = &self.app.ledger;
        if !self.again && wants.first().is_some_and(|want| want.rpm_limit.or(want.tpm_limit).is_none()) {
            let place = decision.ranked[0].index;
            let hold = ledger.begin(&self.group().deployments[place].member);
            return Ok((place, Lease::new(ledger.clone(), hold)));
        }
        let ignore_cooldown = self.resolved.only.is_some();
        match ledger.reserve(Reserve { wants, ignore_cooldown }).await {
            Reserved::Granted { index, hold, passed, .. } => {
                self.app.metrics.reserved(&passed);
                Ok((decision.ranked[index].index, Lease::new(ledger.clone(), hold)))
            }
            Reserved::Refused { passed } => {
                self.app.metrics.reserved(&passed);
                Err(Miss::Busy(self.busy(decision, &passed)))
            }
        }
    }

    fn nobody(&self, decision: &Decision, nothing: Nothing) -> Miss {
        match nothing {
            Nothing::Passing { wait_ms } => Miss::Busy(Busy { wait_ms, ..self.busy(decision, &[]) }),
            Nothing::Lasting(reason) => {
                Miss::NoCandidate { group: decision.group.clone(), why: reason.to_string() }
            }
            Nothing::Empty => Miss::NoCandidate { group: decision.group.clone(), why: "it has none".into() },
        }
    }

    /// The 429 in full: what cools down by the view, and what the reservation said of the rest.
    fn busy(&self, decision: &Decision, passed: &[Passed]) -> Busy {
        let mut cooling: Vec<_> = decision.cooling().map(|(id, left_ms)| (id.clone(), left_ms)).collect();
        let mut limited = Vec::new();
        for (index, denial) in passed {
            let id = decision.ranked[*index].id.clone();
            match denial {
                Denial::Cooling { wait_ms } => cooling.push((id, *wait_ms)),
                Denial::Rpm { used, limit, .. } => limited.push((id, format!("rpm {used}/{limit}"))),
                Denial::Tpm { used, limit, .. } => limited.push((id, format!("tpm {used}/{limit}"))),
                Denial::Share { .. } => limited.push((id, "share of this replica alone".to_owned())),
            }
        }
        let waits = cooling.iter().map(|(_, left_ms)| *left_ms);
        let wait_ms = waits.chain(passed.iter().map(|(_, denial)| denial.wait_ms())).min().unwrap_or(0);
        let pre_call_checks = self.catalog.settings.pre_call_checks;
        Busy { group: decision.group.clone(), wait_ms, cooling, limited, pre_call_checks }
    }
}

/// Tokens of a call: as reported, else the input's estimate and the text seen, four bytes a token.
fn tokens_of(usage: Option<Usage>, prompt: &Prompt, text_bytes: usize) -> u64 {
    let estimate = || prompt.input_tokens_estimate() + text_bytes as u64 / 4;
    usage.map_or_else(estimate, |usage| usage.input + usage.output)
}
