//! What is counted and timed of each route's requests: each counts under exactly one outcome of one route.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use oncekey_core::problem::Code;
use oncekey_engine::Stopwatch;

use crate::spans::RequestSpan;

/// How a request ended, as `oncekey_requests_total` tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It executed, and its answer is recorded.
    Executed,
    /// It was answered from the record.
    Replayed,
    /// It waited for the execution of another request and got its answer.
    Waited,
    /// The key belongs to another request.
    Mismatch,
    /// It was told to come back, or left before there was an answer to give.
    InProgress,
    /// Nobody can tell whether it took effect.
    Unknown,
    /// It executed without taking effect, or could not be executed; a retry runs again.
    Failed,
    /// It was turned away, or left before it had arrived whole: nothing was executed.
    Rejected,
    /// A guarded route took it without a key.
    NoKey,
    /// No route guards it; or one does, and it was let through since the store can't be reached (D1).
    Unguarded,
    /// The store failed.
    StoreError,
}

impl Counted {
    const OF_A_ROUTE: [Self; 11] = [
        Self::Executed,
        Self::Replayed,
        Self::Waited,
        Self::Mismatch,
        Self::InProgress,
        Self::Unknown,
        Self::Failed,
        Self::Rejected,
        Self::NoKey,
        Self::Unguarded,
        Self::StoreError,
    ];

    /// Its name, in metrics and spans.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Replayed => "replayed",
            Self::Waited => "waited",
            Self::Mismatch => "mismatch",
            Self::InProgress => "in_progress",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::NoKey => "no_key",
            Self::Unguarded => "unguarded",
            Self::StoreError => "store_error",
        }
    }
}

/// Outcomes of what isn't in this version. They are there at zero, so that rules and dashboards need not be written twice.
const TO_COME: [&str; 10] = [
    "accepted",
    "shadow_executed",
    "shadow_replayed",
    "shadow_waited",
    "shadow_mismatch",
    "shadow_in_progress",
    "shadow_unknown",
    "shadow_failed",
    "shadow_rejected",
    "shadow_store_error",
];

/// The counters of one route; all of them exist from the start, at zero.
pub(crate) struct RouteCounts {
    route: String,
    requests: Vec<(Counted, Counter)>,
    problems: Vec<(Code, Counter)>,
    wait: Histogram,
    execution: Histogram,
    overhead: Histogram,
}

impl RouteCounts {
    pub(crate) fn of_route(route: &str) -> Self {
        for outcome in TO_COME {
            requests(route, outcome).increment(0);
        }
        let seconds = |name: &'static str| histogram!(name, "route" => route.to_owned());
        Self {
            route: route.to_owned(),
            requests: Counted::OF_A_ROUTE.map(|outcome| (outcome, requests(route, outcome.label()))).into(),
            problems: Code::ALL.map(|code| (code, problem(route, code))).into(),
            wait: seconds("oncekey_wait_seconds"),
            execution: seconds("oncekey_execution_seconds"),
            overhead: seconds("oncekey_overhead_seconds"),
        }
    }

    pub(crate) fn unguarded() -> Self {
        Self {
            route: "-".to_owned(),
            requests: vec![(Counted::Unguarded, requests("-", Counted::Unguarded.label()))],
            problems: Vec::new(),
            wait: Histogram::noop(),
            execution: Histogram::noop(),
            overhead: Histogram::noop(),
        }
    }

    /// Counts a request, and tells its span how it ended.
    pub(crate) fn request(&self, outcome: Counted, span: &RequestSpan) {
        increment(&self.requests, outcome);
        span.ended(&self.route, outcome.label());
    }

    pub(crate) fn problem(&self, code: Code) {
        increment(&self.problems, code);
    }

    /// For the waits and the executions of one request.
    pub(crate) fn stopwatches(&self) -> (Arc<Stopwatch>, Arc<Stopwatch>) {
        let of = |histogram: &Histogram| Arc::new(Stopwatch::new(histogram.clone()));
        (of(&self.wait), of(&self.execution))
    }

    /// What oncekey itself took of the time that a keyed request took: neither executing nor waiting for an execution.
    pub(crate) fn overhead(&self, took: Duration, executing: Duration, waiting: Duration) {
        self.overhead.record(took.saturating_sub(executing).saturating_sub(waiting));
    }
}

/// A handful of counters is searched faster than hashed.
fn increment<T: Copy + PartialEq>(counters: &[(T, Counter)], what: T) {
    if let Some((_, counter)) = counters.iter().find(|(known, _)| *known == what) {
        counter.increment(1);
    }
}

fn requests(route: &str, outcome: &'static str) -> Counter {
    counter!("oncekey_requests_total", "route" => route.to_owned(), "outcome" => outcome)
}

fn problem(route: &str, code: Code) -> Counter {
    counter!("oncekey_problems_total", "route" => route.to_owned(), "code" => code.as_str())
}
