//! Both errors of both settings of `tpm_hold`, simulated by seed on the real ledger: tokens admitted over the limit,
//! and requests refused while capacity was there. Prints the table of ARCHITECTURE.md.
use super::{TpmHold, hold};
use ledger::{
    Group, Latency, Ledger, ManualClock, Member, MemoryLedger, Outcome, Reserve, Reserved, Sample, Settle,
    Sizes, Want,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

const LIMIT: u64 = 100_000;
/// A minute's begin.
const START_MS: u64 = 1_796_075_400_000;
const TICK_MS: u64 = 20;
const MINUTES: u64 = 40;
/// The first ones teach the ledger what to expect.
const WARM_UP_MINUTES: u64 = 2;
const SEEDS: u64 = 5;

/// A call as it will turn out.
#[derive(Debug, Clone, Copy)]
struct Call {
    input: u64,
    output: u64,
    /// A quarter of its body's bytes.
    estimated: u64,
    output_max: Option<u64>,
    takes_ms: u64,
}

/// Sizes spread over powers of two: most are small, few are large, as prompts and answers are.
fn spread(dice: &mut StdRng, powers: std::ops::Range<u32>) -> u64 {
    let low = 1_u64 << dice.random_range(powers);
    dice.random_range(low..2 * low)
}

fn call(dice: &mut StdRng, ms_per_token: u64) -> Call {
    let input = spread(dice, 5..12);
    // 3.4 to 6.2 bytes a token, and what a body has besides its text.
    let bytes = input * dice.random_range(34..=62) / 10 + 120;
    let output_max = dice.random_bool(0.5).then(|| 1 << (2 * dice.random_range(4..=6)));
    let output = spread(dice, 4..11).min(output_max.unwrap_or(u64::MAX));
    Call { input, output, estimated: bytes / 4, output_max, takes_ms: 200 + output * ms_per_token }
}

fn mean_tokens() -> u64 {
    let mut dice = StdRng::seed_from_u64(0);
    (0..20_000).map(|_| call(&mut dice, 0)).map(|call| call.input + call.output).sum::<u64>() / 20_000
}

#[derive(Debug, Default)]
struct Found {
    requests: u64,
    refused: u64,
    /// Refused although it would have fitted, by what was really used in the end.
    wrongly_refused: u64,
    minutes: u64,
    used: u64,
    over: u64,
    worst_over: u64,
}

struct Simulation {
    ledger: MemoryLedger,
    clock: Arc<ManualClock>,
    group: Group,
    how: TpmHold,
    /// What the provider counts: the input when a call begins, the output when it ends.
    used: BTreeMap<u64, u64>,
    refused: Vec<(u64, u64)>,
    running: BinaryHeap<Reverse<(u64, usize)>>,
    calls: Vec<(Call, ledger::Hold)>,
}

impl Simulation {
    fn new(how: TpmHold) -> Self {
        let clock = Arc::new(ManualClock::at(START_MS));
        let member = Member { id: "dep-a".into(), model: "openai/m".into() };
        Self {
            ledger: MemoryLedger::new(clock.clone()),
            clock,
            group: Group { name: "chat".into(), members: vec![member] },
            how,
            used: BTreeMap::new(),
            refused: Vec::new(),
            running: BinaryHeap::new(),
            calls: Vec::new(),
        }
    }

    async fn begin(&mut self, call: Call, now_ms: u64) {
        let view = self.ledger.view(&self.group).await;
        let sizes = &view.readings[0].sizes;
        let (tpm_hold, must_fit) = hold(self.how, call.estimated, call.output_max, sizes, Some(LIMIT));
        let member = self.group.members[0].clone();
        let want = Want { member, rpm_limit: None, tpm_limit: Some(LIMIT), tpm_hold, must_fit };
        let ends_ms = now_ms + call.takes_ms;
        match self.ledger.reserve(Reserve { wants: vec![want], ignore_cooldown: false }).await {
            Reserved::Granted { hold, .. } => {
                *self.used.entry(now_ms / 60_000).or_default() += call.input;
                self.running.push(Reverse((ends_ms, self.calls.len())));
                self.calls.push((call, hold));
            }
            Reserved::Refused { .. } => {
                let ends_within = ends_ms / 60_000 == now_ms / 60_000;
                let output = if ends_within { call.output } else { 0 };
                self.refused.push((now_ms / 60_000, call.input + output));
            }
        }
    }

    fn end_due(&mut self, now_ms: u64) {
        while let Some(&Reverse((ends_ms, place))) = self.running.peek()
            && ends_ms <= now_ms
        {
            self.running.pop();
            let (call, hold) = self.calls[place].clone();
            *self.used.entry(now_ms / 60_000).or_default() += call.output;
            let sizes = Sizes { estimated: call.estimated, input: call.input, output: call.output };
            let sample = Sample { latency: None::<Latency>, sizes: Some(sizes) };
            let tokens = call.input + call.output;
            self.ledger.settle(Settle { hold, tokens, outcome: Outcome::Success, sample });
        }
    }

    /// Sums up the minutes from `first_ms` to `end_ms`.
    fn found(&self, first_ms: u64, end_ms: u64, requests: u64) -> Found {
        let mut found = Found { requests, ..Found::default() };
        for minute in first_ms / 60_000..end_ms / 60_000 {
            let used = self.used.get(&minute).copied().unwrap_or(0);
            let over = used.saturating_sub(LIMIT);
            found.minutes += 1;
            found.used += used.min(LIMIT);
            found.over += over;
            found.worst_over = found.worst_over.max(over);
            let mut room = LIMIT.saturating_sub(used);
            for &(_, tokens) in self.refused.iter().filter(|(refused_in, _)| *refused_in == minute) {
                found.refused += 1;
                if tokens <= room {
                    room -= tokens;
                    found.wrongly_refused += 1;
                }
            }
        }
        found
    }
}

async fn simulate(seed: u64, load_percent: u64, ms_per_token: u64, how: TpmHold) -> Found {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut simulation = Simulation::new(how);
    // One call in so many ticks.
    let ticks = 60_000 * 100 * mean_tokens() / (LIMIT * load_percent * TICK_MS);
    let (first_ms, end_ms) = (START_MS + WARM_UP_MINUTES * 60_000, START_MS + MINUTES * 60_000);
    let mut requests = 0;
    let mut now_ms = START_MS;
    while now_ms < end_ms {
        simulation.end_due(now_ms);
        if dice.random_range(0..ticks) == 0 {
            let call = call(&mut dice, ms_per_token);
            requests += u64::from(now_ms >= first_ms);
            simulation.begin(call, now_ms).await;
        }
        simulation.clock.advance(Duration::from_millis(TICK_MS));
        now_ms += TICK_MS;
    }
    simulation.found(first_ms, end_ms, requests)
}

async fn all_seeds(load_percent: u64, ms_per_token: u64, how: TpmHold) -> Found {
    let mut sum = Found::default();
    for seed in 1..=SEEDS {
        let found = simulate(seed, load_percent, ms_per_token, how).await;
        sum.requests += found.requests;
        sum.refused += found.refused;
        sum.wrongly_refused += found.wrongly_refused;
        sum.minutes += found.minutes;
        sum.used += found.used;
        sum.over += found.over;
        sum.worst_over = sum.worst_over.max(found.worst_over);
    }
    sum
}

fn percent(part: u64, whole: u64) -> String {
    let per_mille = (part * 1_000 + whole / 2) / whole.max(1);
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

#[tokio::test]
async fn what_is_expected_overruns_less_than_the_input_alone_and_refuses_more() {
    println!(
        "| answers take | load | hold | over the limit | worst minute | refused with room | refused | limit used |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (ms_per_token, speed) in [(5, "5 ms a token"), (30, "30 ms a token")] {
        for load_percent in [80, 100, 150] {
            let mut both = Vec::new();
            for (how, name) in [(TpmHold::Input, "input"), (TpmHold::Expected, "expected")] {
                let found = all_seeds(load_percent, ms_per_token, how).await;
                let whole = found.minutes * LIMIT;
                println!(
                    "| {speed} | {load_percent} % | `{name}` | {} | {} | {} | {} | {} |",
                    percent(found.over, whole),
                    percent(found.worst_over, LIMIT),
                    percent(found.wrongly_refused, found.requests),
                    percent(found.refused, found.requests),
                    percent(found.used, whole),
                );
                both.push(found);
            }
            let [input, expected] = both.as_slice() else { panic!("two settings") };
            assert!(expected.over <= input.over, "{input:?} {expected:?}");
            assert!(expected.worst_over <= LIMIT / 4, "{expected:?}");
        }
    }
}
