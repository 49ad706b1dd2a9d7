//! Plays a text scenario on any ledger: a command a line, `->` and the answer it must give, `#` for remarks.
//! A command without an answer must give `ok`. What one ledger answers, every ledger must.
//!
//! ```text
//! reserve [anyway] dep-a rpm=2 tpm=100 hold=10 [fit], dep-b rpm=1 [as LABEL]
//!     -> granted dep-b rpm=1 tpm=0 [past dep-a rpm 2/2, dep-c tpm 100/100, dep-d cooling, dep-e share, dep-f probing]
//!     -> granted dep-b rpm=1 tpm=0 probe=2   (it is on probation after two trips, and this one tries it)
//!     -> refused dep-a rpm 2/2, dep-b cooling
//! unreserved dep-a as LABEL        (a call that no limit binds)
//! settle LABEL tokens=50 success|failure|neutral [latency=900/50000] [sizes=10/12/40]
//! answered LABEL
//! void LABEL
//! cool dep-a 5s 429
//! trip dep-a 5s 500 [by LABEL]    (a cooldown that ends in probation; LABEL's try has failed)
//! view [dep-a dep-b]      (all that were named so far, unless some are named here)
//!     -> dep-a rpm=1 tpm=50 calls=1 fails=0 cooling=no, dep-b rpm=0 tpm=0 calls=0 fails=0 cooling=429
//!        and after it ` trips=N`, ` probing` where on probation, ` inflight=N` where calls run
//! samples dep-a
//!     -> latency 1200 900/50000 timeout, sizes 10/12/40
//! advance 60s
//! flush
//! ```
//!
//! The commands of money and slots stand in `scenario/spend.rs`.
mod spend;

use crate::ledger::{
    Cooldown, Denial, Group, Hold, Ledger, Member, Outcome, Passed, Reading, Reserve, Reserved, Settle, Want,
};
use crate::samples::{Kind, Sample};
use spend::Purse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A scenario that did not play as written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The line is no command.
    #[error("line {line}: `{text}` is not understood: {why}")]
    NotUnderstood {
        /// Counted from 1.
        line: usize,
        /// The line itself.
        text: String,
        /// What was expected.
        why: String,
    },
    /// The ledger answered something else.
    #[error("line {line}: `{command}`\n  want: {want}\n  got:  {got}")]
    Differs {
        /// Counted from 1.
        line: usize,
        /// The command.
        command: String,
        /// The answer written there.
        want: String,
        /// The ledger's answer.
        got: String,
    },
}

/// Plays all lines in order and answers how many commands there were. `advance` moves the ledger's time.
///
/// # Errors
/// At the first line that is not understood or whose answer differs.
pub async fn play(
    text: &str,
    ledger: &dyn Ledger,
    advance: impl AsyncFn(Duration),
) -> Result<usize, ScenarioError> {
    let mut player =
        Player { ledger, advance, holds: HashMap::new(), named: Vec::new(), purse: Purse::new(ledger) };
    let mut played = 0;
    for (index, whole) in text.lines().enumerate() {
        let line = index + 1;
        let said = whole.split('#').next().unwrap_or_default().trim();
        if said.is_empty() {
            continue;
        }
        let (command, want) = said.split_once("->").unwrap_or((said, "ok"));
        let (command, want) = (command.trim(), want.split_whitespace().collect::<Vec<_>>().join(" "));
        let got = player.command(command).await.map_err(|why| ScenarioError::NotUnderstood {
            line,
            text: whole.to_owned(),
            why,
        })?;
        if got != want {
            return Err(ScenarioError::Differs { line, command: command.to_owned(), want, got });
        }
        played += 1;
    }
    Ok(played)
}

struct Player<'a, A> {
    ledger: &'a dyn Ledger,
    advance: A,
    holds: HashMap<String, Hold>,
    named: Vec<Member>,
    purse: Purse<'a>,
}

impl<A: AsyncFn(Duration)> Player<'_, A> {
    async fn command(&mut self, command: &str) -> Result<String, String> {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        match verb {
            "reserve" => self.reserve(rest.trim()).await,
            "view" => self.view(rest).await,
            "samples" => self.samples(rest.trim()).await,
            "advance" => {
                (self.advance)(duration(rest.trim())?).await;
                Ok("ok".to_owned())
            }
            "flush" => {
                self.ledger.drain().await;
                Ok("ok".to_owned())
            }
            "unreserved" | "settle" | "answered" | "void" | "cool" | "trip" => {
                self.report(verb, rest).map(|()| "ok".to_owned())
            }
            _ => match self.purse.command(verb, rest.trim()).await {
                Some(answer) => answer,
                None => Err(format!("`{verb}` is no command")),
            },
        }
    }

    async fn reserve(&mut self, text: &str) -> Result<String, String> {
        let (text, label) = text.split_once(" as ").map_or((text, None), |(text, label)| (text, Some(label)));
        let (ignore_cooldown, text) = text.strip_prefix("anyway ").map_or((false, text), |text| (true, text));
        let wants: Vec<Want> = text.split(',').map(|want| self.want(want)).collect::<Result<_, _>>()?;
        let members: Vec<Member> = wants.iter().map(|want| want.member.clone()).collect();
        match self.ledger.reserve(Reserve { wants, ignore_cooldown }).await {
            Reserved::Granted { hold, rpm, tpm, passed, .. } => {
                let mut answer = format!("granted {} rpm={rpm} tpm={tpm}", hold.member.id);
                if let Some(probe) = &hold.probe {
                    answer.push_str(&format!(" probe={}", probe.trips));
                }
                if !passed.is_empty() {
                    answer.push_str(" past ");
                    answer.push_str(&reasons(&passed, &members));
                }
                if let Some(label) = label {
                    self.holds.insert(label.trim().to_owned(), hold);
                }
                Ok(answer)
            }
            Reserved::Refused { passed } => Ok(format!("refused {}", reasons(&passed, &members))),
        }
    }

    async fn view(&mut self, text: &str) -> Result<String, String> {
        let asked: Vec<Member> = text.split_whitespace().map(|id| self.member(id)).collect();
        let members = if asked.is_empty() { self.named.clone() } else { asked };
        let view = self.ledger.view(&Group { name: Arc::from("scenario"), members: members.clone() }).await;
        if view.readings.len() != members.len() {
            return Err(format!("{} readings for {} members", view.readings.len(), members.len()));
        }
        let shown = members.iter().zip(&view.readings).map(|(member, reading)| show(member, reading));
        Ok(shown.collect::<Vec<_>>().join(", "))
    }

    async fn samples(&mut self, id: &str) -> Result<String, String> {
        let group = Group { name: Arc::from("scenario of samples"), members: vec![self.member(id)] };
        let view = self.ledger.view(&group).await;
        let reading = view.readings.first().ok_or("no reading")?;
        Ok(format!("latency {}, sizes {}", listed(&reading.latency), listed(&reading.sizes)))
    }

    fn report(&mut self, verb: &str, rest: &str) -> Result<(), String> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (verb, words.as_slice()) {
            ("unreserved", [id, "as", label]) => {
                let member = self.member(id);
                let hold = self.ledger.begin(&member);
                self.holds.insert((*label).to_owned(), hold);
            }
            ("settle", [label, tokens, outcome, told @ ..]) => {
                let sample = sample(told)?;
                let tokens = number(tokens.strip_prefix("tokens=").ok_or("want tokens=N")?)?;
                let outcome = match *outcome {
                    "success" => Outcome::Success,
                    "failure" => Outcome::Failure,
                    "neutral" => Outcome::Neutral,
                    other => return Err(format!("`{other}` is none of success, failure, neutral")),
                };
                let hold = self.hold(label)?;
                self.ledger.settle(Settle { hold, tokens, outcome, sample });
            }
            ("void", [label]) => {
                let hold = self.hold(label)?;
                self.ledger.void(hold);
            }
            ("answered", [label]) => {
                let hold = self.holds.get(*label).ok_or_else(|| not_open(label))?;
                self.ledger.answered(hold);
            }
            ("cool" | "trip", [id, length, status, by @ ..]) => {
                let length_ms = u64::try_from(duration(length)?.as_millis()).map_err(|e| e.to_string())?;
                let status = status.parse().map_err(|_| format!("`{status}` is no status"))?;
                let probe = match by {
                    [] => None,
                    ["by", label] => self.holds.get(*label).ok_or_else(|| not_open(label))?.probe.clone(),
                    _ => return Err("want `by LABEL`, or nothing more".to_owned()),
                };
                let (member, reason, probation) = (self.member(id), "scenario".to_owned(), verb == "trip");
                self.ledger.cool(Cooldown { member, length_ms, status, reason, probation, probe });
            }
            _ => return Err(format!("`{verb}` does not go like that")),
        }
        Ok(())
    }

    fn want(&mut self, text: &str) -> Result<Want, String> {
        let mut words = text.split_whitespace();
        let id = words.next().ok_or("want a deployment")?;
        let mut want =
            Want { member: self.member(id), rpm_limit: None, tpm_limit: None, tpm_hold: 0, must_fit: false };
        for word in words {
            match word.split_once('=') {
                None if word == "fit" => want.must_fit = true,
                Some(("rpm", limit)) => want.rpm_limit = Some(number(limit)?),
                Some(("tpm", limit)) => want.tpm_limit = Some(number(limit)?),
                Some(("hold", tokens)) => want.tpm_hold = number(tokens)?,
                _ => return Err(format!("`{word}` is none of rpm=, tpm=, hold=, fit")),
            }
        }
        Ok(want)
    }

    fn member(&mut self, id: &str) -> Member {
        let member = Member { id: Arc::from(id), model: Arc::from(format!("openai/{id}")) };
        if !self.named.contains(&member) {
            self.named.push(member.clone());
        }
        member
    }

    /// A hold ends once, so its label does too.
    fn hold(&mut self, label: &str) -> Result<Hold, String> {
        self.holds.remove(label).ok_or_else(|| not_open(label))
    }
}

fn not_open(label: &str) -> String {
    format!("no open hold is labelled `{label}`")
}

fn sample(told: &[&str]) -> Result<Sample, String> {
    let mut sample = Sample::default();
    for word in told {
        let unknown = |_| format!("`{word}` is no sample");
        match word.split_once('=') {
            Some(("latency", text)) => sample.latency = Some(text.parse().map_err(unknown)?),
            Some(("sizes", text)) => sample.sizes = Some(text.parse().map_err(unknown)?),
            _ => return Err(format!("`{word}` is none of latency=, sizes=")),
        }
    }
    Ok(sample)
}

fn listed<T: Kind>(samples: &[T]) -> String {
    if samples.is_empty() {
        return "none".to_owned();
    }
    samples.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
}

/// The waits are left out: they shrink while a scenario plays on a real server.
fn reasons(passed: &[Passed], members: &[Member]) -> String {
    let reason = |&(index, denial): &Passed| {
        let id = members.get(index).map_or("?", |member| &*member.id);
        match denial {
            Denial::Cooling { .. } => format!("{id} cooling"),
            Denial::Probing { .. } => format!("{id} probing"),
            Denial::Rpm { used, limit, .. } => format!("{id} rpm {used}/{limit}"),
            Denial::Tpm { used, limit, .. } => format!("{id} tpm {used}/{limit}"),
            Denial::Share { .. } => format!("{id} share"),
            Denial::Away { .. } => format!("{id} away"),
        }
    };
    passed.iter().map(reason).collect::<Vec<_>>().join(", ")
}

fn show(member: &Member, reading: &Reading) -> String {
    let Reading { rpm, tpm, calls, fails, in_flight, cooldown, trips, probing, .. } = reading;
    let cooling = cooldown.as_ref().map_or("no".to_owned(), |cooling| cooling.status.to_string());
    let trips = if *trips > 0 { format!(" trips={trips}") } else { String::new() };
    let probing = if *probing { " probing" } else { "" };
    let running = if *in_flight > 0 { format!(" inflight={in_flight}") } else { String::new() };
    let tail = format!("{trips}{probing}{running}");
    format!("{} rpm={rpm} tpm={tpm} calls={calls} fails={fails} cooling={cooling}{tail}", member.id)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no whole number"))
}

fn duration(text: &str) -> Result<Duration, String> {
    match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(ms), _) => number(ms).map(Duration::from_millis),
        (None, Some(s)) => number(s).map(Duration::from_secs),
        (None, None) => Err(format!("`{text}` is no duration: want 5s or 500ms")),
    }
}
