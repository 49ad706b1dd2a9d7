//! Every key name, once. Counters and cooldowns bear LiteLLM's names, so that both can share one Redis. In a cluster
//! braces round the id put all keys of a deployment into one slot.
use crate::clock::Minute;
use crate::ledger::Member;
use std::borrow::Cow;

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
#[derive(Debug, Clone)]
pub(super) struct Keys {
    lead: String,
    braces: bool,
}

impl Keys {
    /// `braces`: for a cluster.
    pub(super) fn new(namespace: String, braces: bool) -> Self {
        let lead = if namespace.is_empty() { namespace } else { namespace + ":" };
        Self { lead, braces }
    }

    /// An id as key names have it.
    fn id<'a>(&self, id: &'a str) -> Cow<'a, str> {
        match self.braces {
            false => id.into(),
            // Nothing in braces would mean that nothing keeps the keys together.
            true if id.starts_with('}') => format!("{{_{id}}}").into(),
            true => format!("{{{id}}}").into(),
        }
    }

    /// `<id>:<model>:<counter>:<HH-MM>`, an integer that lives 60 s.
    pub(super) fn counter(&self, counter: Counter, member: &Member, minute: Minute) -> String {
        let Member { id, model } = member;
        let id = self.id(id);
        format!("{}{id}:{model}:{}:{}", self.lead, counter.name(), minute.hh_mm())
    }

    /// `deployment:<id>:cooldown`, there while the deployment is out.
    pub(super) fn cooldown(&self, id: &str) -> String {
        format!("{}deployment:{}:cooldown", self.lead, self.id(id))
    }

    /// `onegate:replicas`, who lives. Each master of a cluster has its own: `{<part>}:replicas`.
    pub(super) fn replicas(&self, part: &str) -> String {
        self.of_part(part, "replicas")
    }

    /// `onegate:epoch`, which another value replaces when the server has lost its memory. In a cluster as above.
    pub(super) fn epoch(&self, part: &str) -> String {
        self.of_part(part, "epoch")
    }

    fn of_part(&self, part: &str, name: &str) -> String {
        if part.is_empty() {
            format!("{}onegate:{name}", self.lead)
        } else {
            format!("{}{{{part}}}:{name}", self.lead)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_litellm_uses() {
        let member = Member { id: "abc".into(), model: "openai/gpt-4o".into() };
        let minute = Minute::of(1_796_075_431_000);
        let keys = Keys::new(String::new(), false);
        assert_eq!(keys.counter(Counter::Rpm, &member, minute), "abc:openai/gpt-4o:rpm:21-50");
        assert_eq!(keys.counter(Counter::Tpm, &member, minute), "abc:openai/gpt-4o:tpm:21-50");
        assert_eq!(keys.cooldown("abc"), "deployment:abc:cooldown");
    }

    #[test]
    fn a_namespace_leads_every_key() {
        let member = Member { id: "abc".into(), model: "m".into() };
        let keys = Keys::new("prod".to_owned(), false);
        assert_eq!(keys.counter(Counter::Calls, &member, Minute::of(0)), "prod:abc:m:calls:00-00");
        assert_eq!(keys.counter(Counter::Fails, &member, Minute::of(0)), "prod:abc:m:fails:00-00");
        assert_eq!(keys.cooldown("abc"), "prod:deployment:abc:cooldown");
        assert_eq!(keys.replicas(""), "prod:onegate:replicas");
        assert_eq!(keys.epoch(""), "prod:onegate:epoch");
    }

    #[test]
    fn in_a_cluster_the_id_stands_in_braces() {
        let member = Member { id: "abc".into(), model: "openai/gpt-4o".into() };
        let keys = Keys::new("prod".to_owned(), true);
        assert_eq!(keys.counter(Counter::Rpm, &member, Minute::of(0)), "prod:{abc}:openai/gpt-4o:rpm:00-00");
        assert_eq!(keys.cooldown("abc"), "prod:deployment:{abc}:cooldown");
        assert_eq!(keys.cooldown("}x"), "prod:deployment:{_}x}:cooldown");
        assert_eq!(keys.replicas("onegate:7"), "prod:{onegate:7}:replicas");
        assert_eq!(keys.epoch("onegate:7"), "prod:{onegate:7}:epoch");
    }
}
