//! The request and problem counters: each request counts under exactly one outcome of one route.

use metrics::{Counter, counter};
use oncekey_core::problem::Code;

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

    const fn label(self) -> &'static str {
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

/// The counters of one route; all of them exist from the start, at zero.
pub(crate) struct RouteCounts {
    requests: Vec<(Counted, Counter)>,
    problems: Vec<(Code, Counter)>,
}

impl RouteCounts {
    pub(crate) fn of_route(route: &str) -> Self {
        Self {
            requests: Counted::OF_A_ROUTE.map(|outcome| (outcome, requests(route, outcome))).into(),
            problems: Code::ALL.map(|code| (code, problem(route, code))).into(),
        }
    }

    pub(crate) fn unguarded() -> Self {
        Self { requests: vec![(Counted::Unguarded, requests("-", Counted::Unguarded))], problems: Vec::new() }
    }

    pub(crate) fn request(&self, outcome: Counted) {
        increment(&self.requests, outcome);
    }

    pub(crate) fn problem(&self, code: Code) {
        increment(&self.problems, code);
    }
}

/// A handful of counters is searched faster than hashed.
fn increment<T: Copy + PartialEq>(counters: &[(T, Counter)], what: T) {
    if let Some((_, counter)) = counters.iter().find(|(known, _)| *known == what) {
        counter.increment(1);
    }
}

fn requests(route: &str, outcome: Counted) -> Counter {
    counter!("oncekey_requests_total", "route" => route.to_owned(), "outcome" => outcome.label())
}

fn problem(route: &str, code: Code) -> Counter {
    counter!("oncekey_problems_total", "route" => route.to_owned(), "code" => code.as_str())
}
