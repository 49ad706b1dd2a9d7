//! The inner ring: reserve, call, settle. One try at one deployment.
use super::Miss;
use super::aftermath::Aftermath;
use super::lease::Lease;
use super::measured::Answered;
use super::relay::{Began, Relay};
use super::wants;
use crate::app::App;
use crate::catalog::{Catalog, Deployment, Group, Target};
use crate::prompt::Prompt;
use crate::providers::{self, CallLimits, Plain, Reply, Usage};
use crate::refusal::Busy;
use ledger::{Denial, Outcome, Passed, Reserve, Reserved, View};
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
    pub async fn attempt(&self, decision: &Decision, view: &View) -> Result<Served, Miss> {
        let (place, mut lease) = self.reserve(decision, view).await?;
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
        let input = wants::input(prompt.input_tokens_estimate(), wants::recent(view, place));
        lease.sent(input);
        let started = app.clock.instant();
        let reply =
            providers::call(&app.transport, prompt, &deployment, &model, limits, app.clock.unix_ms()).await;
        let provider_took = started.elapsed();
        match reply {
            Ok(Reply::Plain(plain)) => {
                let text_bytes = plain.body.len() as u64;
                let answered = Answered {
                    took: provider_took,
                    first_content: None,
                    estimated: prompt.input_tokens_estimate(),
                    usage: plain.usage,
                    text_bytes,
                };
                lease.tells(answered.sample());
                let tokens = tokens_of(plain.usage, input, text_bytes);
                lease.settle(tokens, Outcome::Success);
                app.metrics.attempt(&deployment.member.id, "success", tokens);
                Ok(Served { answer: Answer::Plain(plain), deployment, provider_took })
            }
            Ok(Reply::Stream(stream)) => {
                let aftermath = self.aftermath(place);
                let estimated = prompt.input_tokens_estimate();
                lease.answered();
                let began = Began { started, first_content: provider_took, estimated, input };
                let relay = Relay::new(stream, lease, aftermath, began);
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

    /// Takes a slot. No round trip where the first in the ranking has no limit and is not on probation, unless
    /// something already failed: then its peers' cooldowns may be newer than the view.
    async fn reserve(&self, decision: &Decision, view: &View) -> Result<(usize, Lease), Miss> {
        if let Some(nothing) = decision.nothing_left() {
            return Err(self.nobody(decision, nothing));
        }
        let wants = wants::of(decision, self.group(), view, self.prompt, &self.catalog.settings);
        let ledger = &self.app.ledger;
        let limited = wants.first().is_none_or(|want| want.rpm_limit.or(want.tpm_limit).is_some());
        if !self.again && !limited && !decision.ranked[0].probation {
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
        let (mut limited, mut unreserved) = (Vec::new(), Vec::new());
        for (index, denial) in passed {
            let id = decision.ranked[*index].id.clone();
            match denial {
                Denial::Cooling { wait_ms } => cooling.push((id, *wait_ms)),
                Denial::Probing { .. } => {
                    limited.push((id, "on probation, another request tries it".to_owned()));
                }
                Denial::Rpm { used, limit, .. } => limited.push((id, format!("rpm {used}/{limit}"))),
                Denial::Tpm { used, limit, .. } => limited.push((id, format!("tpm {used}/{limit}"))),
                Denial::Share { .. } => limited.push((id, "share of this replica alone".to_owned())),
                Denial::Away { .. } => unreserved.push(id),
            }
        }
        let waits = cooling.iter().map(|(_, left_ms)| *left_ms);
        let wait_ms = waits.chain(passed.iter().map(|(_, denial)| denial.wait_ms())).min().unwrap_or(0);
        let pre_call_checks = self.catalog.settings.pre_call_checks;
        Busy { group: decision.group.clone(), wait_ms, cooling, limited, unreserved, pre_call_checks }
    }
}

/// Tokens of a call: as reported, else the input's estimate and the text seen, four bytes a token.
pub(super) fn tokens_of(usage: Option<Usage>, input: u64, text_bytes: u64) -> u64 {
    usage.map_or_else(|| input + text_bytes / 4, |usage| usage.input + usage.output)
}
