//! What goes into the engine, and what comes out.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use oncekey_core::policy::{Policy, Verdict};
use oncekey_core::record::Origin;
use oncekey_core::{Fingerprint, Identity, Recipe, RecordedResponse};

use crate::{Attempt, NotExecuted};

/// A request for an operation, to be executed at most once.
pub struct Call<A> {
    /// Namespace, scope and key.
    pub identity: Identity,
    /// The request's fingerprint under the route's present recipe.
    pub fingerprint: Fingerprint,
    /// Makes the fingerprint under the recipe of an older record (F9).
    pub refingerprint: Arc<dyn Fn(&Recipe) -> Fingerprint + Send + Sync>,
    /// The request, as operators see it.
    pub origin: Origin,
    /// The route's policy.
    pub policy: Arc<Policy>,
    /// Executes the operation. Called once per granted claim; again only after it proved that nothing was executed.
    pub work: Work<A>,
    /// Lets the request through without a claim if the store can't be reached at claim time (D1); `None`: it is refused.
    pub unguarded: Option<Unguarded<A>>,
}

/// Executes an operation once. The future isn't dropped before `upstream_timeout`, whatever the caller does (E3).
pub type Work<A> = Arc<dyn Fn(Attempt) -> BoxFuture<'static, Executed<A>> + Send + Sync>;

/// Lets a request through without a claim and without a record. Called once; the future isn't dropped before
/// `upstream_timeout`.
pub type Unguarded<A> = Arc<dyn Fn() -> BoxFuture<'static, Passed<A>> + Send + Sync>;

/// How a request went that was let through.
pub enum Passed<A> {
    /// It was answered.
    Answered(A),
    /// Nothing was executed.
    NotExecuted(NotExecuted),
    /// It may have been executed, and nobody can tell. The text says why, for the log.
    Ambiguous(String),
}

/// How an execution went.
pub enum Executed<A> {
    /// It was answered, and the answer is whole.
    Answered {
        /// What the caller gets who asked first.
        first: A,
        /// What is recorded and replayed.
        response: RecordedResponse,
        /// What the answer means for the record.
        verdict: Verdict,
    },
    /// It was answered, and the answer arrives as it is read (R7); it is recorded without its body before `first` is given.
    Streaming {
        /// What the caller gets who asked first.
        first: A,
        /// What is recorded; without a body.
        response: RecordedResponse,
        /// What the answer's head means for the record.
        verdict: Verdict,
        /// Reads the rest of the answer. Runs to its end whether or not anyone takes `first`.
        rest: BoxFuture<'static, ()>,
    },
    /// Nothing was executed (E6).
    NotExecuted(NotExecuted),
    /// It may have been executed (E7). The text says why, for the log.
    Ambiguous(String),
}

/// How a call ended.
pub enum Ended<A> {
    /// This caller's execution was answered.
    Executed {
        /// The first answer.
        first: A,
        /// What it meant for the record.
        verdict: Verdict,
    },
    /// The recorded response of an execution that another call made.
    Replayed {
        /// What was recorded.
        response: Arc<RecordedResponse>,
        /// Whether this caller waited for it while it ran.
        waited: bool,
    },
    /// It still runs (W2).
    InProgress,
    /// The key belongs to another request (F8).
    Mismatch,
    /// It may have been executed, and nobody can tell (E7).
    Unknown,
    /// Nothing was executed, and nothing will be for this call (E6).
    NotExecuted,
    /// Too much runs already; nothing was claimed (W3).
    Overloaded,
    /// The scope has as many records as it may have; nothing was claimed.
    QuotaExceeded,
    /// The store failed before anything was executed (D1).
    StoreUnavailable,
    /// The store failed, and the request was let through without a claim (D1). No record tells of it.
    Unguarded(Passed<A>),
    /// The record is there and can't be read.
    Unreadable,
}
