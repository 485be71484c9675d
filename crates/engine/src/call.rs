//! What goes into the engine, and what comes out.

use std::any::Any;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use oncekey_core::policy::{Policy, Verdict};
use oncekey_core::record::Origin;
use oncekey_core::{Fingerprint, Identity, Recipe, RecordedResponse};
use oncekey_store::Transactions;

use crate::{Attempt, NotExecuted, Stopwatch};

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
    /// Executes the operation. Called once per granted claim; again only after it proved that nothing was executed. With
    /// `transactions` also after its transaction met another and was rolled back.
    pub work: Work<A>,
    /// Executes it in a transaction in which its record is made, too, so that both are committed together or neither (G3);
    /// `None`: the claim is made durable before, and the outcome after.
    pub transactions: Option<Arc<dyn Transactions>>,
    /// Lets the request through without a claim if the store can't be reached at claim time (D1); `None`: it is refused, as
    /// it always is with `transactions`.
    pub unguarded: Option<Unguarded<A>>,
    /// Asks the upstream about an unknown outcome; used where the policy says so (E7).
    pub probe: Option<Probe>,
    /// Runs while the call waits for an execution that isn't its own.
    pub waited: Arc<Stopwatch>,
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

/// Asks the upstream whether an operation took effect, without executing anything (E7). Asked by one caller at a time on a
/// node, any number of times; it must end by itself, in bounded time and memory.
#[derive(Clone)]
pub struct Probe(Arc<dyn Fn(Identity) -> BoxFuture<'static, Probed> + Send + Sync>);

impl Probe {
    /// A probe that asks so.
    pub fn new(ask: impl Fn(Identity) -> BoxFuture<'static, Probed> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    pub(crate) fn ask(&self, identity: Identity) -> BoxFuture<'static, Probed> {
        (self.0)(identity)
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

/// What a probe found.
#[derive(Clone, Debug)]
pub enum Probed {
    /// The operation took effect, and this is its outcome.
    Completed(Arc<RecordedResponse>),
    /// There is no such operation at present.
    Absent,
    /// Neither is certain. The text says why, for the log.
    Unclear(String),
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
    /// What answers it is left to be done in the attempt's transaction, right before that is committed
    /// ([`oncekey_store::Ending::Last`]). Outside of a transaction nobody does it, and the outcome is ambiguous.
    Deferred(Deferring<A>),
    /// Nothing was executed (E6).
    NotExecuted(NotExecuted),
    /// It may have been executed (E7); in a transaction, which is rolled back, it counts as not executed. The text says why,
    /// for the log.
    Ambiguous(String),
}

/// Makes the answer from the store's connection. Called once or not at all, on a thread of the store, where it may block.
pub type Deferring<A> = Box<dyn FnOnce(&dyn Any) -> Executed<A> + Send>;

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
        /// Whether a retry executes again (E8): the record is `failed`, and this caller waited for that run (W4).
        repeatable: bool,
    },
    /// It still runs (W2).
    InProgress,
    /// The key belongs to another request (F8).
    Mismatch,
    /// It may have been executed, and nobody can tell (E7).
    Unknown {
        /// Whether the next retry settles it, so that it is worth coming back soon: the policy lets it, or it was a
        /// transaction, whose record is there or isn't.
        settles: bool,
    },
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
