//! Any async operation, once: the engine's face for queue consumers and jobs. What HTTP makes of it is `oncekey-tower`'s.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use oncekey_core::fingerprint::{Body, Operation};
use oncekey_core::policy::{Policy, Verdict};
use oncekey_core::record::Origin;
use oncekey_core::response::RecordedBody;
use oncekey_core::{
    Fingerprint, Identity, Key, KeyError, Namespace, Recipe, RecordId, RecordedResponse, Scope, ScopeError,
};

use oncekey_store::Transactions;

use crate::{Attempt, Call, Ended, Engine, Executed, NotExecuted, Passed, Work};

/// An operation that is to run once: what it is called, whose it is, its key, and what goes into it.
///
/// The name is part of the operation's identity, so that two consumers of one message don't meet.
#[derive(Clone, Debug)]
pub struct Job {
    identity: Identity,
    name: Arc<str>,
    input: Bytes,
    policy: Arc<Policy>,
    transactions: Option<Arc<dyn Transactions>>,
}

/// A job that can't be used as named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJob {
    /// The scope, or the name in front of it.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl Job {
    /// The job `name` of `scope` (an account, a tenant, a queue) under `key` (a message's id). It has no input, and is kept as
    /// long as anything by default: 48 hours.
    pub fn new(name: &str, scope: &str, key: &str) -> Result<Self, InvalidJob> {
        let source = format!("job:{name}");
        // A source's name is kept as its values are.
        Scope::new("job", &source)?;
        let scope = Scope::new(&source, scope)?;
        let identity = Identity { namespace: Namespace::default(), scope, key: Key::from_decoded(key)? };
        let policy = Arc::new(Policy { route: name.to_owned(), ..Policy::default() });
        Ok(Self { identity, name: name.into(), input: Bytes::new(), policy, transactions: None })
    }

    /// What goes into it: the same key with other input is a mismatch (F8). Compared byte by byte.
    #[must_use]
    pub fn with_input(self, input: impl Into<Bytes>) -> Self {
        Self { input: input.into(), ..self }
    }

    /// In another namespace than `default` (S5).
    #[must_use]
    pub fn in_namespace(mut self, namespace: Namespace) -> Self {
        self.identity.namespace = namespace;
        self
    }

    /// Under a policy of its own: how long it may run, how long its record is kept, how large a result is kept.
    #[must_use]
    pub fn under(self, policy: Arc<Policy>) -> Self {
        Self { policy, ..self }
    }

    /// In transactional mode (G3): what the job writes through [`Attempt::transaction`] and its record are committed together or
    /// not at all. An error and a panic of it leave [`Once::NothingDone`] then, whatever they say.
    #[must_use]
    pub fn within(self, transactions: Arc<dyn Transactions>) -> Self {
        Self { transactions: Some(transactions), ..self }
    }

    /// The operation id: what logs and operators call it by.
    pub fn id(&self) -> RecordId {
        self.identity.id()
    }

    fn fingerprint(&self, recipe: &Recipe) -> Fingerprint {
        let operation = Operation {
            method: &Method::POST,
            path: &self.name,
            query: None,
            headers: &HeaderMap::new(),
            body: &Body::under_no_coding(&self.input),
        };
        Fingerprint::of(&operation, recipe)
    }

    fn call(self, work: Work<Bytes>) -> Call<Bytes> {
        let fingerprint = self.fingerprint(&Recipe::default());
        let origin = Origin { route: self.policy.route.clone(), method: "JOB".to_owned(), path: self.name.to_string() };
        let (identity, policy) = (self.identity.clone(), Arc::clone(&self.policy));
        let transactions = self.transactions.clone();
        let refingerprint = Arc::new(move |recipe: &Recipe| self.fingerprint(recipe));
        Call {
            identity,
            fingerprint,
            refingerprint,
            origin,
            policy,
            work,
            transactions,
            unguarded: None,
            probe: None,
            waited: Arc::default(),
        }
    }
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once {
    /// It ran, now or earlier.
    Done {
        /// Its result; `None` if it ran earlier and its result was larger than what is kept.
        result: Option<Bytes>,
        /// Whether this call got the result of another's execution.
        replayed: bool,
    },
    /// Another call executes it: ask again in a while (W2).
    InProgress,
    /// The key belongs to other input (F8).
    Mismatch,
    /// It may have run, and nobody can tell: an operator decides (E7).
    Unknown,
    /// It proved that nothing was done. The next call runs it again (E6).
    NothingDone,
    /// Too much runs already; nothing was begun (W3).
    Overloaded,
    /// The scope has as many records as it may have; nothing was begun.
    QuotaExceeded,
    /// The store failed before anything was begun (D1).
    StoreUnavailable,
    /// There is a record and it can't be read; an operator looks at it.
    Unreadable,
}

impl Engine<Bytes> {
    /// Runs a job once, or answers from the record of its run. The result is recorded before it is returned (E2).
    ///
    /// An error of `work` leaves the job [`Once::Unknown`], for it may have taken effect; one with [`NotExecuted`] among its
    /// sources says that nothing did, and the next call runs it again. A failure that is final is a result, too: put it into
    /// the bytes. `work` is called again only after such a proof, for another caller that waits.
    ///
    /// Dropping the future doesn't end the job (E3). Returns after `answer_timeout` at the latest, and for a duplicate after
    /// `wait`, both of the job's policy.
    pub async fn once<W, F, R, E>(&self, job: Job, work: W) -> Once
    where
        W: Fn(Attempt) -> F + Send + Sync + 'static,
        F: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Bytes> + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let work = Arc::new(work);
        let executes: Work<Bytes> = Arc::new(move |attempt| Box::pin(execute(Arc::clone(&work), attempt)));
        self.run(job.call(executes)).await.into()
    }
}

async fn execute<W, F, R, E>(work: Arc<W>, attempt: Attempt) -> Executed<Bytes>
where
    W: Fn(Attempt) -> F + Send + Sync + 'static,
    F: Future<Output = Result<R, E>> + Send + 'static,
    R: Into<Bytes>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    if let Err(proof) = attempt.begin().await {
        return Executed::NotExecuted(proof);
    }
    let max = attempt.policy.recording.max_response;
    let result = match work(attempt).await {
        Ok(result) => result.into(),
        Err(error) => return failed(&*error.into()),
    };
    let kept = result.len() as u64 <= max;
    let body = if kept { RecordedBody::Stored(result.clone()) } else { RecordedBody::NotStored };
    // Operators see every operation's end as a status.
    let response = RecordedResponse {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body,
        trailers: HeaderMap::new(),
        trace: None,
    };
    Executed::Answered { first: result, response, verdict: Verdict::Completed }
}

fn failed(error: &(dyn Error + Send + Sync + 'static)) -> Executed<Bytes> {
    match NotExecuted::find(error) {
        Some(proof) => Executed::NotExecuted(proof.clone()),
        None => Executed::Ambiguous(error.to_string()),
    }
}

impl From<Ended<Bytes>> for Once {
    fn from(ended: Ended<Bytes>) -> Self {
        match ended {
            Ended::Executed { first, .. } => Self::Done { result: Some(first), replayed: false },
            Ended::Replayed { response, .. } => {
                let result = match &response.body {
                    RecordedBody::Stored(result) => Some(result.clone()),
                    RecordedBody::NotStored => None,
                };
                Self::Done { result, replayed: true }
            }
            Ended::InProgress => Self::InProgress,
            Ended::Mismatch => Self::Mismatch,
            Ended::Unguarded(Passed::Answered(result)) => Self::Done { result: Some(result), replayed: false },
            Ended::Unknown { .. } | Ended::Unguarded(Passed::Ambiguous(_)) => Self::Unknown,
            Ended::NotExecuted | Ended::Unguarded(Passed::NotExecuted(_)) => Self::NothingDone,
            Ended::Overloaded => Self::Overloaded,
            Ended::QuotaExceeded => Self::QuotaExceeded,
            Ended::StoreUnavailable => Self::StoreUnavailable,
            Ended::Unreadable => Self::Unreadable,
        }
    }
}
