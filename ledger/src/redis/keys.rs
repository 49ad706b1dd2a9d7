//! Every key name, once. Counters and cooldowns bear LiteLLM's names, so that both can share one Redis.
use crate::clock::Minute;
use crate::ledger::Member;

/// What is counted per member and minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    Rpm,
    Tpm,
    Calls,
    Fails,
}

impl Counter {
    pub(super) const ALL: [Self; 4] = [Self::Rpm, Self::Tpm, Self::Calls, Self::Fails];

    fn name(self) -> &'static str {
        match self {
            Self::Rpm => "rpm",
            Self::Tpm => "tpm",
            Self::Calls => "calls",
            Self::Fails => "fails",
        }
    }
}

/// Makes the key names; all begin with the namespace, if there is one.
#[derive(Debug)]
pub(super) struct Keys {
    lead: String,
}

impl Keys {
    pub(super) fn new(namespace: String) -> Self {
        let lead = if namespace.is_empty() { namespace } else { namespace + ":" };
        Self { lead }
    }

    /// `<id>:<model>:<counter>:<HH-MM>`, an integer that lives 60 s.
    pub(super) fn counter(&self, counter: Counter, member: &Member, minute: Minute) -> String {
        let Member { id, model } = member;
        // Joined, not formatted: nine of these are made for a reservation, and formatting costs three times as much.
        [&*self.lead, id, ":", model, ":", counter.name(), ":", &minute.hh_mm()].concat()
    }

    /// `deployment:<id>:cooldown`, there while the deployment is out.
    pub(super) fn cooldown(&self, id: &str) -> String {
        [&*self.lead, "deployment:", id, ":cooldown"].concat()
    }

    /// `onegate:replicas`, who lives.
    pub(super) fn replicas(&self) -> String {
        format!("{}onegate:replicas", self.lead)
    }

    /// `onegate:epoch`, which another value replaces when the server has lost its memory.
    pub(super) fn epoch(&self) -> String {
        format!("{}onegate:epoch", self.lead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_litellm_uses() {
        let member = Member { id: "abc".into(), model: "openai/gpt-4o".into() };
        let minute = Minute::of(1_796_075_431_000);
        let keys = Keys::new(String::new());
        assert_eq!(keys.counter(Counter::Rpm, &member, minute), "abc:openai/gpt-4o:rpm:21-50");
        assert_eq!(keys.counter(Counter::Tpm, &member, minute), "abc:openai/gpt-4o:tpm:21-50");
        assert_eq!(keys.cooldown("abc"), "deployment:abc:cooldown");
    }

    #[test]
    fn a_namespace_leads_every_key() {
        let member = Member { id: "abc".into(), model: "m".into() };
        let keys = Keys::new("prod".to_owned());
        assert_eq!(keys.counter(Counter::Calls, &member, Minute::of(0)), "prod:abc:m:calls:00-00");
        assert_eq!(keys.counter(Counter::Fails, &member, Minute::of(0)), "prod:abc:m:fails:00-00");
        assert_eq!(keys.cooldown("abc"), "prod:deployment:abc:cooldown");
        assert_eq!(keys.replicas(), "prod:onegate:replicas");
        assert_eq!(keys.epoch(), "prod:onegate:epoch");
    }
}
