//! Groups and facts for tests, from words: a request (`only=a excluded=a,b failed=c strategy=... limits`)
//! and a deployment a line (`a order=1 weight=9 rpm=10 tpm=100 price=1+2 blocked used-rpm=3 used-tpm=7
//! in-flight=2 size=10+20 cooling=5000 trips=1 probing`: sizes are input+output of its calls, cooling is in
//! milliseconds left).
use crate::{Candidates, Deployment, Facts, Gate, Group, Price, Strategy, decide};
use ledger::{Cooling, Minute, Reading, Recent, Sizes, View};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

pub(crate) const NOW_MS: u64 = 1_796_075_431_000;

/// Owns all that [`Facts`] borrow.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) group: Group,
    pub(crate) view: View,
    pub(crate) dice: u64,
    strategy: Strategy,
    limits_bind: bool,
    only: Option<usize>,
    excluded: Vec<Arc<str>>,
    failed: Vec<Arc<str>>,
}

impl World {
    pub(crate) fn of(request: &str, group: &str) -> Self {
        let (deployments, readings): (Vec<_>, Vec<_>) = group.lines().map(deployment).unzip();
        let mut world = Self {
            group: Group { name: "chat".into(), deployments },
            view: View { minute: Minute::of(NOW_MS), read_at_ms: NOW_MS, readings },
            dice: 7,
            strategy: Strategy::CostBased,
            limits_bind: false,
            only: None,
            excluded: Vec::new(),
            failed: Vec::new(),
        };
        let ids = |list: &str| list.split(',').map(Arc::from).collect();
        for word in request.split_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("only", id) => world.only = world.group.deployments.iter().position(|one| &*one.id == id),
                ("excluded", list) => world.excluded = ids(list),
                ("failed", list) => world.failed = ids(list),
                ("strategy", name) => world.strategy = name.parse().unwrap(),
                ("limits", "") => world.limits_bind = true,
                _ => panic!("`{word}` is nothing a request has"),
            }
        }
        world
    }

    /// Up to six deployments and a request with a bit of everything.
    pub(crate) fn random(seed: u64) -> Self {
        let mut dice = SmallRng::seed_from_u64(seed);
        let size = dice.random_range(0..=6);
        let group: Vec<String> = (0..size)
            .map(|index| {
                let mut line = format!("d{index}");
                for (word, chance, most) in [
                    ("order", 0.2, 2),
                    ("weight", 0.4, 3),
                    ("rpm", 0.4, 3),
                    ("tpm", 0.4, 3),
                    ("used-rpm", 0.4, 4),
                    ("used-tpm", 0.3, 4),
                    ("cooling", 0.3, 3),
                    ("trips", 0.3, 2),
                    ("in-flight", 0.3, 3),
                ] {
                    if dice.random_bool(chance) {
                        line += &format!(" {word}={}", dice.random_range(0..=most));
                    }
                }
                for word in [" blocked", " probing"] {
                    if dice.random_bool(0.2) {
                        line += word;
                    }
                }
                if dice.random_bool(0.5) {
                    line += &format!(" price={}+{}", dice.random_range(0..3), dice.random_range(0..3));
                }
                line
            })
            .collect();
        let mut request = format!("strategy={}", Strategy::ALL[dice.random_range(0..3)].name());
        for (word, chance) in [("only=d", 0.1), ("excluded=d", 0.3), ("failed=d", 0.3)] {
            if size > 0 && dice.random_bool(chance) {
                request += &format!(" {word}{}", dice.random_range(0..size));
            }
        }
        if dice.random_bool(0.5) {
            request += " limits";
        }
        let mut world = Self::of(&request, &group.join("\n"));
        world.dice = dice.random();
        world
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            now_ms: NOW_MS,
            dice: self.dice,
            view: &self.view,
            strategy: self.strategy,
            limits_bind: self.limits_bind,
            only: self.only,
            excluded: &self.excluded,
            failed: &self.failed,
        }
    }

    /// The ids in the order of asking.
    pub(crate) fn order(&self) -> Vec<String> {
        decide(&self.group, &self.facts()).ranked.iter().map(|ranked| ranked.id.to_string()).collect()
    }

    /// The scores in the order of asking.
    pub(crate) fn scores(&self) -> Vec<f64> {
        decide(&self.group, &self.facts()).ranked.iter().map(|ranked| ranked.score).collect()
    }
}

/// What one gate does, as text: `keep ID` lines in the group's order, then `drop ID by GATE: reason`.
pub(crate) fn through(gate: Gate, request: &str, group: &str) -> Vec<String> {
    let world = World::of(request, group);
    let mut candidates = Candidates::of(&world.group, &world.view);
    gate(&world.facts(), &mut candidates);
    let (kept, removed) = candidates.into_parts();
    let kept = kept.iter().map(|candidate| format!("keep {}", candidate.deployment.id));
    let removed = removed.iter().map(|one| format!("drop {} by {}: {}", one.id, one.gate, one.reason));
    kept.chain(removed).collect()
}

fn deployment(line: &str) -> (Arc<Deployment>, Reading) {
    let mut words = line.split_whitespace();
    let mut deployment = Deployment {
        id: words.next().unwrap().into(),
        order: None,
        weight: None,
        rpm: None,
        tpm: None,
        blocked: false,
        price: None,
    };
    let mut reading = Reading::default();
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("order", order) => deployment.order = Some(order.parse().unwrap()),
            ("weight", weight) => deployment.weight = Some(weight.parse().unwrap()),
            ("rpm", rpm) => deployment.rpm = Some(rpm.parse().unwrap()),
            ("tpm", tpm) => deployment.tpm = Some(tpm.parse().unwrap()),
            ("blocked", "") => deployment.blocked = true,
            ("price", both) => {
                let (input, output) = both.split_once('+').unwrap();
                deployment.price =
                    Some(Price { input: input.parse().unwrap(), output: output.parse().unwrap() });
            }
            ("used-rpm", used) => reading.rpm = used.parse().unwrap(),
            ("used-tpm", used) => reading.tpm = used.parse().unwrap(),
            ("trips", trips) => reading.trips = trips.parse().unwrap(),
            ("probing", "") => reading.probing = true,
            ("in-flight", calls) => reading.in_flight = calls.parse().unwrap(),
            ("size", both) => {
                let (input, output) = both.split_once('+').unwrap();
                let (input, output) = (input.parse().unwrap(), output.parse().unwrap());
                reading.sizes = Recent::of(&[Sizes { estimated: input, input, output }]);
            }
            ("cooling", left_ms) => {
                let until_ms = NOW_MS + left_ms.parse::<u64>().unwrap();
                reading.cooldown = Some(Cooling { until_ms, status: 429 });
            }
            _ => panic!("`{word}` is nothing a deployment has"),
        }
    }
    (Arc::new(deployment), reading)
}
