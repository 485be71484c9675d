//! A store, its clock, and the nodes on it; and how a test says what it expects.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::Standing;
use oncekey_core::policy::{Policy, Timing};
use oncekey_core::response::RecordedBody;
use oncekey_engine::{Call, Ended, Engine, Passed, Settings};
use oncekey_store::{Found, ManualClock, MemoryStore, Store};
use oncekey_store_test::{FaultyStore, START, samples};
use tokio::task::JoinHandle;

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<FaultyStore>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock.clone()))));
        Self { clock, store }
    }

    /// A node that asks the store for every replay.
    pub(crate) async fn node(&self) -> Engine<u32> {
        self.node_with(settings()).await
    }

    pub(crate) async fn node_with(&self, settings: Settings) -> Engine<u32> {
        self.node_on(self.store.clone(), settings).await
    }

    /// A node on another face of the store.
    pub(crate) async fn node_on(&self, store: Arc<dyn Store>, settings: Settings) -> Engine<u32> {
        Engine::start(store, self.clock.clone(), settings).await.expect("the node starts")
    }

    /// Another node's way to the same records, with faults of its own.
    pub(crate) fn second_face(&self) -> Arc<FaultyStore> {
        Arc::new(FaultyStore::new(self.store.clone()))
    }

    pub(crate) async fn found(&self, key: &str) -> Option<Found> {
        self.store.read(samples::identity("acc-1", key).id()).await.expect("the store reads")
    }

    /// What the record of `key` counts as.
    pub(crate) async fn stands(&self, key: &str) -> Standing {
        self.found(key)
            .await
            .map_or(Standing::Absent, |found| oncekey_core::standing(&found.record, found.now, found.owner_alive, true))
    }
}

/// The built-in settings without the replay cache.
pub(crate) fn settings() -> Settings {
    Settings { cache_for: Duration::ZERO, ..Settings::default() }
}

/// A policy for tests on real time: on a busy machine no waiter gives up.
pub(crate) fn patient() -> Policy {
    let timing = Timing { wait: Duration::from_mins(1), ..Timing::default() };
    Policy { timing, ..Policy::default() }
}

/// Runs a call beside the test, as a connection does.
#[expect(clippy::disallowed_methods, reason = "the tasks of a test are the test's own")]
pub(crate) fn spawn(engine: &Engine<u32>, call: Call<u32>) -> JoinHandle<Ended<u32>> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.run(call).await })
}

/// Lets everything run that can. Time is paused, so this ends as soon as all tasks wait.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Waits until all of them have ended.
pub(crate) async fn said(calls: Vec<JoinHandle<Ended<u32>>>) -> Vec<String> {
    let mut all = Vec::new();
    for call in calls {
        all.push(say(&call.await.expect("the call ends")));
    }
    all
}

/// An answer in a few words.
pub(crate) fn say(ended: &Ended<u32>) -> String {
    match ended {
        Ended::Executed { first, .. } => format!("first {first}"),
        Ended::Replayed { response, waited, .. } => {
            let body = match &response.body {
                RecordedBody::Stored(body) => String::from_utf8_lossy(body).into_owned(),
                RecordedBody::NotStored => "not stored".to_owned(),
            };
            format!("{} {body}", if *waited { "waited" } else { "replay" })
        }
        Ended::InProgress => "in progress".to_owned(),
        Ended::Mismatch => "mismatch".to_owned(),
        Ended::Unknown { settles: false } => "unknown".to_owned(),
        Ended::Unknown { settles: true } => "unknown for now".to_owned(),
        Ended::NotExecuted => "not executed".to_owned(),
        Ended::QuotaExceeded => "quota exceeded".to_owned(),
        Ended::Overloaded => "overloaded".to_owned(),
        Ended::StoreUnavailable => "store unavailable".to_owned(),
        Ended::Unguarded(Passed::Answered(number)) => format!("unguarded {number}"),
        Ended::Unguarded(Passed::NotExecuted(_)) => "unguarded, not executed".to_owned(),
        Ended::Unguarded(Passed::Ambiguous(_)) => "unguarded, unknown".to_owned(),
        Ended::Unreadable => "unreadable".to_owned(),
    }
}

/// How many of the answers are `what`.
pub(crate) fn count(answers: &[String], what: &str) -> usize {
    answers.iter().filter(|answer| *answer == what).count()
}
