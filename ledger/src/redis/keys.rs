//! Every key name, once. Counters and cooldowns bear LiteLLM's names, so that both can share one Redis. In a cluster
//! braces put all keys of a deployment, and all of an account, into one slot.
use crate::budget::{Account, Scope, SpendHold};
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

    /// Whether they are a cluster's, whose masters have parts of the ledger with names.
    pub(super) fn has_parts(&self) -> bool {
        self.braces
    }

    /// What decides on the slot, as key names have it: an id or a scope.
    fn tag<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match self.braces {
            false => name.into(),
            // Nothing in braces would mean that nothing keeps the keys together.
            true if name.is_empty() || name.starts_with('}') => ["{_", name, "}"].concat().into(),
            true => ["{", name, "}"].concat().into(),
        }
    }

    /// `<id>:<model>:<counter>:<HH-MM>`, an integer that lives 60 s.
    pub(super) fn counter(&self, counter: Counter, member: &Member, minute: Minute) -> String {
        let Member { id, model } = member;
        // Joined, not formatted: nine of these are made for a reservation, and formatting costs three times as much.
        [&*self.lead, &*self.tag(id), ":", model, ":", counter.name(), ":", &minute.hh_mm()].concat()
    }

    /// `deployment:<id>:cooldown`, there while the deployment is out.
    pub(super) fn cooldown(&self, id: &str) -> String {
        self.of_deployment(id, "cooldown")
    }

    /// `deployment:<id>:trips`, how often it failed in a row: there while it is out or on probation.
    pub(super) fn trips(&self, id: &str) -> String {
        self.of_deployment(id, "trips")
    }

    /// `deployment:<id>:probe`, the token of who tries it.
    pub(super) fn probe(&self, id: &str) -> String {
        self.of_deployment(id, "probe")
    }

    /// `deployment:<id>:latency`, how fast its last calls were.
    pub(super) fn latency(&self, id: &str) -> String {
        self.of_deployment(id, "latency")
    }

    /// `deployment:<id>:sizes`, how large its last calls were.
    pub(super) fn sizes(&self, id: &str) -> String {
        self.of_deployment(id, "sizes")
    }

    fn of_deployment(&self, id: &str, name: &str) -> String {
        [&*self.lead, "deployment:", &*self.tag(id), ":", name].concat()
    }

    /// `onegate:replicas`, who lives. Each master of a cluster has its own: `{<part>}:replicas`.
    pub(super) fn replicas(&self, part: &str) -> String {
        self.of_part(part, "replicas")
    }

    /// `onegate:inflight:<replica>`, what runs there. Each replica's may lie in a slot of its own.
    pub(super) fn in_flight(&self, replica: &str) -> String {
        format!("{}onegate:inflight:{replica}", self.lead)
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

/// The keys of one account.
#[derive(Debug)]
pub(super) struct AccountKeys {
    /// `onegate:spend:<scope>:<window>`, micro-dollars.
    pub(super) spent: String,
    /// `onegate:holds:<scope>:<window>:held`, micro-dollars: the sum of the holds.
    pub(super) held: String,
    /// `onegate:holds:<scope>:<window>:estimated`, micro-dollars: the part of what is spent that nobody settled.
    pub(super) estimated: String,
    /// `onegate:holds:<scope>:<window>`, a hash: the holds by their ids.
    pub(super) holds: String,
    /// `onegate:holds:<scope>:<window>:due`, a sorted set: the ids by the ends of their leases.
    pub(super) due: String,
}

impl Keys {
    /// All keys of an account. They live until a day after its window, or 400 days without one.
    pub(super) fn account(&self, account: &Account) -> AccountKeys {
        let holds = self.holds(account);
        AccountKeys {
            spent: self.of_scope("spend", &account.scope, account.window_name()),
            held: format!("{holds}:held"),
            estimated: format!("{holds}:estimated"),
            due: format!("{holds}:due"),
            holds,
        }
    }

    /// `onegate:holds:<scope>:<window>:ended:<HH-MM>`, a hash: ids of holds that were taken in this minute and have
    /// ended; lives 10 min after the last one. `first` is the first account that the call is about.
    pub(super) fn ended(&self, first: &Account, hold: &SpendHold) -> String {
        format!("{}:ended:{}", self.holds(first), Minute::of(hold.taken_at_ms).hh_mm())
    }

    /// `onegate:slots:<scope>`, a sorted set: leases by their ends; lives 10 s.
    pub(super) fn slots(&self, scope: &Scope) -> String {
        format!("{}onegate:slots:{}", self.lead, self.tag(scope.as_str()))
    }

    fn holds(&self, account: &Account) -> String {
        self.of_scope("holds", &account.scope, account.window_name())
    }

    fn of_scope(&self, name: &str, scope: &Scope, window: &str) -> String {
        format!("{}onegate:{name}:{}:{window}", self.lead, self.tag(scope.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::BudgetWindow;

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
        assert_eq!(keys.latency("abc"), "prod:deployment:abc:latency");
        assert_eq!(keys.sizes("abc"), "prod:deployment:abc:sizes");
        assert_eq!(keys.in_flight("r1"), "prod:onegate:inflight:r1");
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
        assert_eq!(keys.trips("abc"), "prod:deployment:{abc}:trips");
        assert_eq!(keys.probe("abc"), "prod:deployment:{abc}:probe");
        assert_eq!(keys.latency("abc"), "prod:deployment:{abc}:latency");
        assert_eq!(keys.sizes("abc"), "prod:deployment:{abc}:sizes");
        assert_eq!(keys.in_flight("r1"), "prod:onegate:inflight:r1");
        assert_eq!(keys.replicas("onegate:7"), "prod:{onegate:7}:replicas");
        assert_eq!(keys.epoch("onegate:7"), "prod:{onegate:7}:epoch");
    }

    #[test]
    fn in_a_cluster_the_keys_of_an_account_share_its_scope_in_braces() {
        let keys = Keys::new("prod".to_owned(), true);
        let account = Account { scope: "team:a".into(), window: None };
        let AccountKeys { spent, held, estimated, holds, due } = keys.account(&account);
        assert_eq!(spent, "prod:onegate:spend:{team:a}:total");
        assert_eq!(holds, "prod:onegate:holds:{team:a}:total");
        for (key, part) in [(held, "held"), (estimated, "estimated"), (due, "due")] {
            assert_eq!(key, format!("{holds}:{part}"));
        }
        let hold = SpendHold { id: "a".into(), taken_at_ms: 1_796_075_431_000, claims: [].into() };
        assert_eq!(keys.ended(&account, &hold), "prod:onegate:holds:{team:a}:total:ended:21-50");
        assert_eq!(keys.slots(&account.scope), "prod:onegate:slots:{team:a}");
    }

    #[test]
    fn an_account_is_named_by_its_scope_and_window() {
        let keys = Keys::new("prod".to_owned(), false);
        let window = BudgetWindow { name: "day-1".into(), ends_at_ms: 0 };
        let dated = Account { scope: "team:a".into(), window: Some(window) };
        let AccountKeys { spent, held, estimated, holds, due } = keys.account(&dated);
        assert_eq!(spent, "prod:onegate:spend:team:a:day-1");
        assert_eq!(holds, "prod:onegate:holds:team:a:day-1");
        for (key, part) in [(held, "held"), (estimated, "estimated"), (due, "due")] {
            assert_eq!(key, format!("{holds}:{part}"));
        }
        let forever = Account { window: None, ..dated };
        assert_eq!(keys.account(&forever).spent, "prod:onegate:spend:team:a:total");
        assert_eq!(keys.slots(&forever.scope), "prod:onegate:slots:team:a");
        let hold = SpendHold { id: "a".into(), taken_at_ms: 1_796_075_431_000, claims: [].into() };
        assert_eq!(keys.ended(&forever, &hold), "prod:onegate:holds:team:a:total:ended:21-50");
    }
}
