//! What the counters of this process said in the last half an hour, for charts and for "since when": sampled from what
//! `/metrics` shows, so that the two can't disagree. In memory only; a restart forgets it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use oncekey_core::PromiseClass;
use oncekey_store::Clock;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::options::Readiness;
use crate::view::Classes;

/// Between two samples.
const EVERY: Duration = Duration::from_secs(5);
/// Samples kept: half an hour.
const KEPT: usize = 360;

/// What a sample holds beside the requests: the sums over all routes of these metrics, under shorter names.
const SUMS: [(&str, &str); 11] = [
    ("oncekey_wait_seconds_sum", "wait_sum"),
    ("oncekey_wait_seconds_count", "wait_count"),
    ("oncekey_execution_seconds_sum", "execution_sum"),
    ("oncekey_execution_seconds_count", "execution_count"),
    ("oncekey_overhead_seconds_sum", "overhead_sum"),
    ("oncekey_overhead_seconds_count", "overhead_count"),
    ("oncekey_store_errors_total", "store_errors"),
    ("oncekey_swept_total", "swept"),
    ("oncekey_fenced_writes_total", "fenced"),
    ("oncekey_inflight", "inflight"),
    ("oncekey_waiters", "waiters"),
];

/// The counters at one moment; those not counted yet are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// Seconds since 1970, by this node's clock.
    pub(crate) at: u64,
    /// Requests since the start, by outcome.
    pub(crate) requests: BTreeMap<String, f64>,
    /// Problems since the start, by code.
    pub(crate) problems: BTreeMap<String, f64>,
    /// See [`SUMS`].
    #[serde(flatten)]
    pub(crate) sums: BTreeMap<&'static str, f64>,
    /// Whether the store took the last heartbeat.
    pub(crate) store_up: Option<bool>,
}

/// Something that goes well or doesn't, and since when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Since<T> {
    pub(crate) state: T,
    /// Seconds since 1970, by this node's clock; as exact as samples are apart.
    pub(crate) since: u64,
}

impl<T: PartialEq> Since<T> {
    fn turn(&mut self, state: T, at: u64) {
        if self.state != state {
            *self = Self { state, since: at };
        }
    }
}

/// How something that this node needs is doing, as far as it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Condition {
    /// It has not been asked yet.
    Unseen,
    /// The last that was seen of it was an answer.
    Ok,
    /// In the last sample in which it was asked it gave no answer.
    Failing,
}

/// The samples of a process.
pub struct Recent {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) samples: VecDeque<Sample>,
    pub(crate) started: u64,
    pub(crate) upstream: Since<Condition>,
    pub(crate) store: Since<Condition>,
    /// The lowest class in force, once it is known.
    pub(crate) class: Option<Since<&'static str>>,
    pub(crate) node: Since<Readiness>,
}

impl Recent {
    /// One that begins now.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let at = seconds(&*clock);
        let kept = Kept {
            samples: VecDeque::with_capacity(KEPT),
            started: at,
            upstream: Since { state: Condition::Unseen, since: at },
            store: Since { state: Condition::Unseen, since: at },
            class: None,
            node: Since { state: Readiness::Starting, since: at },
        };
        Arc::new(Self { clock, kept: Mutex::new(kept) })
    }

    /// Takes a sample every five seconds, for ever.
    pub async fn keep(
        self: Arc<Self>,
        metrics: PrometheusHandle,
        readiness: watch::Receiver<Readiness>,
        classes: watch::Receiver<Classes>,
    ) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.take(&metrics.render());
            self.note(*readiness.borrow(), classes.borrow().lowest());
        }
    }

    /// Takes note of what the node says of itself.
    pub(crate) fn note(&self, node: Readiness, class: PromiseClass) {
        let at = seconds(&*self.clock);
        let mut kept = self.kept.lock();
        kept.node.turn(node, at);
        kept.class.get_or_insert(Since { state: class.name(), since: at }).turn(class.name(), at);
    }

    pub(crate) fn kept(&self) -> Kept {
        self.kept.lock().clone()
    }

    /// Adds a sample, read from the text of `/metrics`.
    pub(crate) fn take(&self, text: &str) {
        let sample = Sample { at: seconds(&*self.clock), ..read(text) };
        let mut kept = self.kept.lock();
        let at = sample.at;
        if let Some(up) = sample.store_up {
            kept.store.turn(if up { Condition::Ok } else { Condition::Failing }, at);
        }
        let grown = |of: fn(&Sample) -> f64| of(&sample) - kept.samples.back().map_or(0.0, of);
        // A request that was executed was answered, and one that proved that nothing ran wasn't.
        let answered = grown(|sample| sample.requests.get("executed").copied().unwrap_or(0.0)) > 0.0;
        let unreached = grown(|sample| {
            let of = |code: &str| sample.problems.get(code).copied().unwrap_or(0.0);
            of("upstream-unreachable")
        }) > 0.0;
        match (answered, unreached) {
            (true, _) => kept.upstream.turn(Condition::Ok, at),
            (false, true) => kept.upstream.turn(Condition::Failing, at),
            (false, false) => {}
        }
        if kept.samples.len() == KEPT {
            kept.samples.pop_front();
        }
        kept.samples.push_back(sample);
    }
}

fn seconds(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.now().as_micros() / 1_000_000).unwrap_or(0)
}

/// Reads what a sample keeps. Label values of ours hold no quotes, and what isn't ours isn't read.
fn read(text: &str) -> Sample {
    let mut sample = Sample::default();
    for line in text.lines().filter(|line| line.starts_with("oncekey_")) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let name = series.split('{').next().unwrap_or_default();
        match name {
            "oncekey_requests_total" => add(&mut sample.requests, label(series, "outcome"), value),
            "oncekey_problems_total" => add(&mut sample.problems, label(series, "code"), value),
            "oncekey_store_up" => sample.store_up = Some(value > 0.0),
            _ => {
                if let Some((_, short)) = SUMS.iter().find(|(long, _)| *long == name) {
                    *sample.sums.entry(short).or_default() += value;
                }
            }
        }
    }
    sample
}

fn add(sums: &mut BTreeMap<String, f64>, label: Option<&str>, value: f64) {
    if let Some(label) = label {
        *sums.entry(label.to_owned()).or_default() += value;
    }
}

fn label<'a>(series: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = series.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use oncekey_core::Timestamp;
    use oncekey_store::ManualClock;

    use super::*;

    const TEXT: &str = "# HELP oncekey_requests_total Requests.\n\
        oncekey_requests_total{route=\"/orders\",outcome=\"executed\"} 3\n\
        oncekey_requests_total{route=\"/refunds\",outcome=\"executed\"} 2\n\
        oncekey_requests_total{route=\"-\",outcome=\"unguarded\"} 7\n\
        oncekey_problems_total{route=\"/orders\",code=\"upstream-unreachable\"} 1\n\
        oncekey_wait_seconds_sum{route=\"/orders\"} 0.5\n\
        oncekey_store_up 1\n";

    #[test]
    fn a_sample_sums_over_routes() {
        let sample = read(TEXT);
        assert_eq!(sample.requests["executed"].to_bits(), 5f64.to_bits());
        assert_eq!(sample.requests["unguarded"].to_bits(), 7f64.to_bits());
        assert_eq!(sample.sums["wait_sum"].to_bits(), 0.5f64.to_bits());
        assert_eq!(sample.store_up, Some(true));
    }

    #[test]
    fn conditions_keep_the_time_of_their_turn() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_000_000_000_000_000)));
        let history = Recent::new(clock.clone());
        let conditions = |text: &str| {
            clock.advance(Duration::from_secs(5));
            history.take(text);
            let kept = history.kept();
            (kept.upstream, kept.store)
        };
        let start = history.kept().started;
        let (upstream, store) = conditions("oncekey_store_up 1\n");
        assert_eq!(upstream, Since { state: Condition::Unseen, since: start });
        assert_eq!(store, Since { state: Condition::Ok, since: start + 5 });
        let executed = |times: u32, unreached: u32| {
            format!(
                "oncekey_requests_total{{route=\"/\",outcome=\"executed\"}} {times}\n\
                 oncekey_problems_total{{route=\"/\",code=\"upstream-unreachable\"}} {unreached}\noncekey_store_up 0\n"
            )
        };
        let (upstream, store) = conditions(&executed(1, 0));
        assert_eq!(upstream, Since { state: Condition::Ok, since: start + 10 });
        assert_eq!(store, Since { state: Condition::Failing, since: start + 10 });
        assert_eq!(conditions(&executed(1, 0)).0.since, start + 10, "nothing was asked of it");
        assert_eq!(conditions(&executed(1, 2)).0, Since { state: Condition::Failing, since: start + 20 });
        assert_eq!(conditions(&executed(1, 3)).0.since, start + 20);
        assert_eq!(conditions(&executed(2, 3)).0, Since { state: Condition::Ok, since: start + 30 });
    }

    #[test]
    fn only_the_last_half_hour_is_kept() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_000_000_000_000_000)));
        let history = Recent::new(clock.clone());
        for _ in 0..KEPT + 10 {
            history.take(TEXT);
        }
        assert_eq!(history.kept().samples.len(), KEPT);
    }
}
