//! Prometheus metrics. Label values come from the config and from closed sets, so that callers cannot make series.
use crate::catalog::{Catalog, Group};
use http::StatusCode;
use ledger::{Denial, Passed, Status, Tally, View};
use prometheus::{
    Encoder, Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
    TextEncoder,
};
use routing::Removed;
use std::time::Duration;

/// Upper bounds in seconds: LLM answers take from milliseconds (mock) to minutes.
const SECONDS: [f64; 12] = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];

/// All metrics of a replica.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
    attempts: IntCounterVec,
    tokens: IntCounterVec,
    removals: IntCounterVec,
    reservations: IntCounterVec,
    away: Gauge,
    ledger_replicas: Gauge,
    by_policy: IntCounter,
    missed: IntCounter,
    outages: IntCounter,
    rpm_used: GaugeVec,
    rpm_limit: GaugeVec,
    tpm_used: GaugeVec,
    tpm_limit: GaugeVec,
    in_flight: GaugeVec,
    cooldown: GaugeVec,
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// A name or label is malformed or stands twice: a fault of this file.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str| {
            // Every replica shows the same shared value, so dashboards take `max by (deployment)`, never a sum.
            let help = format!("{help} Shared by all replicas: aggregate with max, never sum.");
            let gauge = GaugeVec::new(Opts::new(name, help), &["deployment"])?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "onegate_request_seconds",
                "Time to the answer, for streams to its first content.",
            )
            .buckets(SECONDS.to_vec()),
            &["group"],
        )?;
        registry.register(Box::new(seconds.clone()))?;
        let plain = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let single = |name: &str, help: &str| {
            let gauge = Gauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        Ok(Self {
            requests: counter("onegate_requests_total", "Requests answered.", &["group", "status"])?,
            attempts: counter("onegate_attempts_total", "Calls of providers.", &["deployment", "outcome"])?,
            tokens: counter("onegate_tokens_total", "Tokens settled.", &["deployment"])?,
            removals: counter("onegate_removals_total", "Candidates removed.", &["gate"])?,
            reservations: counter("onegate_reservations_refused_total", "Candidates refused.", &["reason"])?,
            rpm_used: gauge("onegate_deployment_rpm_used", "Requests in this minute.")?,
            rpm_limit: gauge("onegate_deployment_rpm_limit", "Requests allowed a minute.")?,
            tpm_used: gauge("onegate_deployment_tpm_used", "Tokens in this minute.")?,
            tpm_limit: gauge("onegate_deployment_tpm_limit", "Tokens allowed a minute.")?,
            in_flight: gauge("onegate_deployment_in_flight", "Calls that run now.")?,
            cooldown: gauge(
                "onegate_deployment_cooldown_seconds",
                "Seconds until it returns; 0: it serves.",
            )?,
            away: single("onegate_ledger_away", "1 while the shared ledger does not answer this replica.")?,
            ledger_replicas: single(
                "onegate_ledger_replicas",
                "Replicas alive when the shared ledger last told; 0 without one.",
            )?,
            by_policy: plain(
                "onegate_ledger_by_policy_total",
                "Reservations that on_outage decided, for Redis gave no answer in time.",
            )?,
            missed: plain("onegate_ledger_missed_deadlines_total", "Calls of Redis whose deadline passed.")?,
            outages: plain("onegate_ledger_outages_total", "Times that Redis went away.")?,
            seconds,
            registry,
        })
    }

    /// Makes the series of all deployments appear at 0, so that rates see their first event.
    pub fn prepare(&self, catalog: &Catalog) {
        for deployment in catalog.groups.iter().flat_map(|group| &group.deployments) {
            self.attempts.with_label_values(&[&*deployment.member.id, "success"]);
            self.tokens.with_label_values(&[&*deployment.member.id]);
        }
    }

    /// A request was answered. `group` comes from the config, or is `other`.
    pub fn request(&self, group: &str, status: StatusCode, took: Duration) {
        self.requests.with_label_values(&[group, status.as_str()]).inc();
        self.seconds.with_label_values(&[group]).observe(took.as_secs_f64());
    }

    /// A provider was called.
    pub fn attempt(&self, deployment: &str, outcome: &str, tokens: u64) {
        self.attempts.with_label_values(&[deployment, outcome]).inc();
        self.tokens.with_label_values(&[deployment]).inc_by(tokens);
    }

    /// Candidates were removed.
    pub fn removed(&self, removed: &[Removed]) {
        for removed in removed {
            self.removals.with_label_values(&[removed.gate]).inc();
        }
    }

    /// A reservation passed candidates over.
    pub fn reserved(&self, passed: &[Passed]) {
        for (_, denial) in passed {
            let reason = match denial {
                Denial::Cooling { .. } => "cooling",
                Denial::Probing { .. } => "probing",
                Denial::Rpm { .. } => "rpm",
                Denial::Tpm { .. } => "tpm",
                Denial::Share { .. } => "share",
                Denial::Away { .. } => "away",
            };
            self.reservations.with_label_values(&[reason]).inc();
        }
    }

    /// The ledger's state of a group.
    pub fn ledger(&self, group: &Group, view: &View, now_ms: u64) {
        for (deployment, reading) in group.deployments.iter().zip(&view.readings) {
            let id = [&*deployment.member.id];
            self.rpm_used.with_label_values(&id).set(gauge_of(reading.rpm));
            self.tpm_used.with_label_values(&id).set(gauge_of(reading.tpm));
            self.in_flight.with_label_values(&id).set(gauge_of(reading.in_flight));
            let limits = [(&self.rpm_limit, deployment.facts.rpm), (&self.tpm_limit, deployment.facts.tpm)];
            for (gauge, limit) in limits {
                if let Some(limit) = limit {
                    gauge.with_label_values(&id).set(gauge_of(limit));
                }
            }
            let until_ms = reading.cooldown.as_ref().map_or(0, |cooling| cooling.until_ms);
            self.cooldown.with_label_values(&id).set(gauge_of(until_ms.saturating_sub(now_ms)) / 1000.0);
        }
    }

    /// Where the shared ledger stands, and what it counted of itself.
    pub fn shared(&self, status: Status, tally: Tally) {
        let Tally { by_policy, missed, outages, replicas } = tally;
        self.away.set(f64::from(u8::from(status == Status::Away)));
        self.ledger_replicas.set(gauge_of(replicas));
        for (counter, count) in
            [(&self.by_policy, by_policy), (&self.missed, missed), (&self.outages, outages)]
        {
            // Two scrapes at once may both add; the counter then waits until the ledger's has caught up.
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }

    /// All of it in Prometheus' text form.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; counts stay far below 2^53")]
fn gauge_of(count: u64) -> f64 {
    count as f64
}
