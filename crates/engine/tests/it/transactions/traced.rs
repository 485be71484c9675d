//! The spans of transactional mode, and the time that its duplicates wait.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use oncekey_core::policy::Verdict;
use oncekey_engine::{Call, SPAN_TARGET, Stopwatch};
use oncekey_store_test::EndFault;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::Stage;
use crate::upstream::Run;
use crate::world::{said, settle, spawn};

/// The engine's spans that have ended, in that order: name, event and outcome of each.
#[derive(Clone, Default)]
struct Ended(Arc<Mutex<Vec<String>>>);

/// What a span said until now.
struct Said(String);

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        if ["oncekey.event", "oncekey.outcome"].contains(&field.name()) {
            self.0 = format!("{} {value}", self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Ended {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == SPAN_TARGET
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut said = Said(attributes.metadata().name().to_owned());
        attributes.record(&mut said);
        context.span(id).expect("it is new").extensions_mut().insert(said);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).expect("it is open");
        values.record(span.extensions_mut().get_mut::<Said>().expect("it has a name"));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("it closes now");
        self.0.lock().extend(span.extensions_mut().remove::<Said>().map(|said| said.0));
    }
}

impl Ended {
    fn watch() -> (Self, DefaultGuard) {
        let ended = Self::default();
        let guard = tracing::subscriber::set_default(Registry::default().with(ended.clone()));
        (ended, guard)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn claim_execution_and_record_are_told_as_the_transaction_goes() {
    let (ended, _guard) = Ended::watch();
    for (run, spans) in [
        (Run::Answer(Verdict::Completed), ["claim granted", "execute completed", "record complete written"]),
        (Run::Answer(Verdict::Declined), ["claim granted", "execute declined", "record complete written"]),
        (Run::Answer(Verdict::Failed), ["claim granted", "execute failed", "record roll_back rolled_back"]),
        // Nothing is unknown of what is rolled back.
        (Run::Lose, ["claim granted", "execute not_executed", "record roll_back rolled_back"]),
        (Run::Refuse, ["claim granted", "execute not_executed", "record roll_back rolled_back"]),
        // The execution goes on in the transaction's end.
        (Run::Defer(Verdict::Completed), ["claim granted", "execute completed", "record complete written"]),
        (Run::Defer(Verdict::Failed), ["claim granted", "execute failed", "record roll_back rolled_back"]),
    ] {
        let stage = Stage::new().await;
        stage.upstream.next(run);
        stage.run().await;
        assert_eq!(ended.take(), spans);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_ends_otherwise_is_told_so() {
    let (ended, _guard) = Ended::watch();
    for (fault, record) in [
        (EndFault::RolledBack, "record complete rolled_back"),
        (EndFault::NotApplied, "record complete unavailable"),
        (EndFault::ReplyLost, "record complete unknown"),
        (EndFault::RequestLost, "record complete unknown"),
    ] {
        let stage = Stage::new().await;
        stage.transactions.fail_end(fault);
        stage.run().await;
        assert_eq!(ended.take(), ["claim granted", "execute completed", record]);
    }
    let stage = Stage::new().await;
    stage.transactions.fail_end(EndFault::Again);
    stage.run().await;
    let runs = ["claim granted", "execute completed", "record complete again"];
    assert_eq!(ended.take(), [&runs[..], &["claim granted", "execute completed", "record complete written"]].concat());
}

/// However often it asks.
#[tokio::test(start_paused = true)]
async fn a_wait_for_anothers_transaction_is_one_and_ends_with_it() {
    let (ended, _guard) = Ended::watch();
    for (verdict, spans) in [
        (Verdict::Completed, &["execute completed", "record complete written", "wait held"][..]),
        (
            Verdict::Failed,
            &[
                "execute failed",
                "record roll_back rolled_back",
                "wait granted",
                "execute completed",
                "record complete written",
            ],
        ),
    ] {
        let stage = Stage::new().await;
        let here = stage.world.node().await;
        let gate = stage.upstream.held(Run::Answer(verdict));
        let running = spawn(&stage.engine, stage.call());
        gate.reached().await;
        let (waited, slow) = (Arc::new(Stopwatch::default()), stage.upstream.held(Run::Answer(Verdict::Completed)));
        let duplicate = spawn(&here, Call { waited: Arc::clone(&waited), ..stage.call() });
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert_eq!(ended.take(), ["claim granted", "claim busy"]);
        assert!(waited.spent() >= Duration::from_millis(699), "it waits, {:?}", waited.spent());
        gate.open();
        said(vec![running]).await;
        tokio::time::sleep(Duration::from_millis(250)).await;
        let spent = waited.spent();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(waited.spent(), spent, "its own execution is no wait");
        slow.open();
        said(vec![duplicate]).await;
        settle().await;
        assert_eq!(ended.take(), spans);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_says_so() {
    let (ended, _guard) = Ended::watch();
    let stage = Stage::new().await;
    let here = stage.world.node().await;
    let gate = stage.upstream.held(Run::Answer(Verdict::Completed));
    let running = spawn(&stage.engine, stage.call());
    gate.reached().await;
    let waited = Arc::new(Stopwatch::default());
    let duplicate = spawn(&here, Call { waited: Arc::clone(&waited), ..stage.call() });
    assert_eq!(said(vec![duplicate]).await, ["in progress"]);
    settle().await;
    assert_eq!(ended.take(), ["claim granted", "claim busy", "wait in_progress"]);
    assert_eq!(waited.spent().as_secs(), 1, "`wait`");
    gate.open();
    said(vec![running]).await;
}
