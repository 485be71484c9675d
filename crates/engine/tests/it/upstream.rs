//! What executes the calls of a test: counts its runs, and answers, refuses or hangs as told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use futures_util::FutureExt;
use http::{HeaderMap, StatusCode};
use oncekey_core::policy::{Policy, Verdict};
use oncekey_core::record::Origin;
use oncekey_core::response::RecordedBody;
use oncekey_core::{Fingerprint, Recipe, RecordedResponse};
use oncekey_engine::{Attempt, Call, Executed, NotExecuted, Passed, Work};
use oncekey_store_test::{Buffer, Gate, ScriptedTransactions, samples};
use parking_lot::Mutex;

/// How one run goes.
#[derive(Clone)]
pub(crate) enum Run {
    /// Answers `run N`, which means this for the record.
    Answer(Verdict),
    /// Proves that nothing was executed.
    Refuse,
    /// May have been executed.
    Lose,
    Panic,
    Hang,
    /// Answers, and what is left to read waits at the gate.
    Stream(Gate),
    /// Leaves its row and its answer, which means this for the record, to be made at the end of its transaction.
    Defer(Verdict),
    /// Leaves a panic to the end of its transaction.
    DeferPanic,
}

/// Completes every run at once unless told otherwise. The first answer is the number of the run.
#[derive(Default)]
pub(crate) struct Upstream {
    runs: AtomicU32,
    ended: AtomicU32,
    attempts: Mutex<Vec<u32>>,
    next: Mutex<VecDeque<(Gate, Run)>>,
    unchecked: AtomicBool,
}

impl Upstream {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Lets the next run that no earlier command claims go like this.
    pub(crate) fn next(&self, run: Run) {
        let open = Gate::default();
        open.open();
        self.next.lock().push_back((open, run));
    }

    /// As [`Upstream::next`], held at the gate once it has begun.
    pub(crate) fn held(&self, run: Run) -> Gate {
        let gate = Gate::default();
        self.next.lock().push_back((gate.clone(), run));
        gate
    }

    /// Breaks rule E10: sends without asking whether the claim still stands.
    pub(crate) fn send_unchecked(&self) {
        self.unchecked.store(true, Ordering::SeqCst);
    }

    /// How often it was reached.
    pub(crate) fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    /// How many runs got past their gate, or past the rest of their stream.
    pub(crate) fn ended(&self) -> u32 {
        self.ended.load(Ordering::SeqCst)
    }

    /// The attempt numbers that reached it, in order.
    pub(crate) fn attempts(&self) -> Vec<u32> {
        self.attempts.lock().clone()
    }

    pub(crate) fn work(self: &Arc<Self>) -> Work<u32> {
        let upstream = Arc::clone(self);
        Arc::new(move |attempt| Box::pin(Arc::clone(&upstream).run(attempt)))
    }

    /// A call for `key` in the scope `acc-1`.
    pub(crate) fn call(self: &Arc<Self>, key: &str) -> Call<u32> {
        self.call_under(key, Policy::default())
    }

    pub(crate) fn call_under(self: &Arc<Self>, key: &str, policy: Policy) -> Call<u32> {
        Call {
            identity: samples::identity("acc-1", key),
            fingerprint: fingerprint(1),
            refingerprint: Arc::new(|recipe: &Recipe| Fingerprint::from_parts([1; 32], recipe.clone())),
            origin: Origin { route: "/orders".into(), method: "POST".into(), path: "/orders".into() },
            policy: Arc::new(policy),
            work: self.work(),
            transactions: None,
            unguarded: None,
            probe: None,
            waited: Arc::default(),
        }
    }

    /// A call in transactional mode.
    pub(crate) fn call_within(self: &Arc<Self>, key: &str, transactions: &Arc<ScriptedTransactions>) -> Call<u32> {
        Call { transactions: Some(transactions.clone()), ..self.call(key) }
    }

    /// A call that is let through while the store can't be reached; `gate` holds its answer.
    pub(crate) fn open_call(self: &Arc<Self>, key: &str, gate: &Gate) -> Call<u32> {
        let (upstream, gate) = (Arc::clone(self), gate.clone());
        let pass = move || {
            let (upstream, gate) = (Arc::clone(&upstream), gate.clone());
            async move {
                let number = upstream.runs.fetch_add(1, Ordering::SeqCst) + 1;
                gate.pass().await;
                Passed::Answered(number)
            }
            .boxed()
        };
        Call { unguarded: Some(Arc::new(pass)), ..self.call(key) }
    }

    /// The same key with another request.
    pub(crate) fn other_call(self: &Arc<Self>, key: &str) -> Call<u32> {
        Call {
            fingerprint: fingerprint(2),
            refingerprint: Arc::new(|recipe: &Recipe| Fingerprint::from_parts([2; 32], recipe.clone())),
            ..self.call(key)
        }
    }

    async fn run(self: Arc<Self>, attempt: Attempt) -> Executed<u32> {
        let (gate, run) = self.next.lock().pop_front().unwrap_or_else(|| {
            let open = Gate::default();
            open.open();
            (open, Run::Answer(Verdict::Completed))
        });
        if !self.unchecked.load(Ordering::SeqCst)
            && let Err(proof) = attempt.begin().await
        {
            return Executed::NotExecuted(proof);
        }
        let number = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        self.attempts.lock().push(attempt.number);
        if let Some(transaction) = &attempt.transaction {
            let buffer = transaction.0.downcast_ref::<Buffer>().expect("a scripted transaction");
            if !matches!(run, Run::Defer(_) | Run::DeferPanic) {
                buffer.write(format!("row {number}"));
            }
        }
        gate.pass().await;
        let response = answer(number);
        let executed = match run {
            Run::Answer(verdict) => Executed::Answered { first: number, response, verdict },
            Run::Refuse => Executed::NotExecuted(NotExecuted::because("connection refused")),
            Run::Lose => Executed::Ambiguous("the connection was lost".to_owned()),
            Run::Panic => panic!("asked to panic"),
            Run::Defer(verdict) => Executed::Deferred(Box::new(move |connection| {
                connection.downcast_ref::<Buffer>().expect("a buffer").write(format!("row {number}"));
                Executed::Answered { first: number, response, verdict }
            })),
            Run::DeferPanic => Executed::Deferred(Box::new(|_| panic!("asked to panic"))),
            Run::Hang => std::future::pending().await,
            Run::Stream(rest) => {
                let response = response.without_body();
                let rest = Box::pin(async move {
                    rest.pass().await;
                    self.ended.fetch_add(1, Ordering::SeqCst);
                });
                return Executed::Streaming { first: number, response, verdict: Verdict::Completed, rest };
            }
        };
        self.ended.fetch_add(1, Ordering::SeqCst);
        executed
    }
}

pub(crate) fn fingerprint(of: u8) -> Fingerprint {
    Fingerprint::from_parts([of; 32], Recipe::default())
}

fn answer(run: u32) -> RecordedResponse {
    let body = RecordedBody::Stored(format!("run {run}").into());
    RecordedResponse {
        status: StatusCode::CREATED,
        headers: HeaderMap::new(),
        body,
        trailers: HeaderMap::new(),
        trace: None,
    }
}
