//! Recovery points: what one execution saves and the next one goes on from, on the oldest and the newest release, and through
//! PgBouncer.

use std::sync::Arc;
use std::time::Duration;

use axum_core::response::IntoResponse;
use http::Extensions;
use oncekey_core::State;
use oncekey_store::{Claim, Clock, Fence, ManualClock, Replaces, Store, StoreError};
use oncekey_store_postgres::{
    PgRecoveryPoints, PgSteps, PgStepsError, PgTransaction, PostgresStore, TransactionOptions,
};
use oncekey_store_test::{granted, samples, written};
use oncekey_testkit::PostgresServer;

use crate::place::{NEW, OLD, POOLER, Raw, clock, migrated, open, options};

/// A database with a table of business rows, a store in it, and recovery points beside it.
struct Stage {
    store: Arc<PostgresStore>,
    points: PgRecoveryPoints,
    clock: Arc<ManualClock>,
    raw: Raw,
}

const ROWS: &str = "SELECT count(*) FROM ledger";
const STEPS: &str = "SELECT count(*) FROM idempotency_steps";

impl Stage {
    async fn new(server: &PostgresServer, url: impl Fn(&str) -> String) -> Self {
        let database = migrated(server).await;
        let (url, clock) = (url(&database), clock());
        let raw = Raw::connect_to(&server.url(&database)).await;
        raw.client.batch_execute("CREATE TABLE ledger (entry TEXT NOT NULL)").await.expect("a table");
        let store = Arc::new(open(&url, clock.clone()).await);
        let points = PgRecoveryPoints::open(&store, 3, TransactionOptions::default()).await.expect("points");
        Self { store, points, clock, raw }
    }

    /// The steps of an execution under this claim.
    async fn execute(&self, claim: &Claim) -> PgSteps {
        granted(&self.store.claim(claim.clone()).await);
        self.points.steps(Fence { id: claim.identity.id(), token: claim.token })
    }

    /// The next execution, of a record that this claim left in that state.
    async fn again(&self, before: &Claim, state: State, expired: bool) -> (Claim, PgSteps) {
        let replaces = Replaces { token: before.token, state, expired };
        let claim = samples::retry(&before.identity, samples::owner(), replaces);
        let steps = self.execute(&claim).await;
        (claim, steps)
    }

    async fn counts(&self) -> (i64, i64) {
        (self.raw.count(ROWS).await, self.raw.count(STEPS).await)
    }
}

fn claim(key: &str) -> Claim {
    samples::claim(&samples::identity("acc-1", key), samples::owner())
}

/// Makes an entry, and gives its number.
async fn enter(tx: PgTransaction) -> Result<i64, PgStepsError> {
    tx.execute("INSERT INTO ledger VALUES ('entry')", &[]).await?;
    Ok(tx.query_one("SELECT count(*) FROM ledger", &[]).await?.try_get(0)?)
}

/// Runs each case in each place.
macro_rules! everywhere {
    ($($case:ident)+) => {
        $(mod $case {
            use crate::place::{NEW, OLD, POOLER};
            use crate::steps::Stage;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres_15() {
                super::$case(Stage::new(&OLD, |database| OLD.url(database)).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres_18() {
                super::$case(Stage::new(&NEW, |database| NEW.url(database)).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn pgbouncer() {
                super::$case(Stage::new(&OLD, |database| POOLER.url(database)).await).await;
            }
        })+
    };
}

everywhere! {
    what_is_saved_is_there_for_the_next_execution
    a_step_is_saved_once
    rows_and_step_are_committed_together_and_once
    a_step_that_fails_leaves_nothing
    who_was_taken_over_writes_nothing
    who_was_taken_over_in_the_midst_of_a_transaction_commits_nothing
    who_takes_over_waits_for_what_is_being_saved
    who_lapsed_and_was_not_taken_over_still_saves
    a_key_used_afresh_begins_at_the_beginning
    steps_go_with_their_record
    a_transaction_that_its_work_ends_is_found_out
}

async fn what_is_saved_is_there_for_the_next_execution(stage: Stage) {
    let first = claim("order");
    let steps = stage.execute(&first).await;
    assert_eq!(steps.saved::<String>("charged").await.expect("read"), None);
    steps.save("charged", "ch_1").await.expect("saved");
    let other = stage.execute(&claim("other")).await;
    assert_eq!(other.saved::<String>("charged").await.expect("read"), None, "each operation has its own");
    for (outcome, state) in [(samples::written_off(), State::Unknown), (samples::failed(), State::Failed)] {
        let before = claim(state.name());
        stage.execute(&before).await.save("charged", &(7, "ä\0")).await.expect("saved");
        written(&stage.store.record(before.identity.id(), before.token, outcome).await);
        let (_, again) = stage.again(&before, state, false).await;
        assert_eq!(again.saved("charged").await.expect("read"), Some((7, "ä\0".to_owned())), "{state:?}");
    }
    assert!(matches!(steps.saved::<u32>("charged").await, Err(PgStepsError::Value(_))));
}

async fn a_step_is_saved_once(stage: Stage) {
    let steps = stage.execute(&claim("order")).await;
    steps.save("charged", &1).await.expect("saved");
    steps.save("charged", &1).await.expect("the same");
    assert!(matches!(steps.save("charged", &2).await, Err(PgStepsError::SavedBefore)));
    assert_eq!(steps.saved("charged").await.expect("read"), Some(1));
    let longest = "n".repeat(64);
    steps.save(&longest, &"x".repeat(64 * 1024 - 2)).await.expect("just fits");
    assert!(matches!(steps.save("long", &"x".repeat(64 * 1024)).await, Err(PgStepsError::TooLarge)));
    for name in ["", &"n".repeat(65), "nul\0"] {
        assert!(matches!(steps.save(name, &1).await, Err(PgStepsError::Name)), "{name:?}");
    }
    assert_eq!(stage.raw.count(STEPS).await, 2);
}

async fn rows_and_step_are_committed_together_and_once(stage: Stage) {
    let first = claim("order");
    let steps = stage.execute(&first).await;
    assert_eq!(steps.transaction("entered", enter).await.expect("committed"), 1);
    assert_eq!(steps.transaction("entered", enter).await.expect("as it was"), 1);
    written(&stage.store.record(first.identity.id(), first.token, samples::written_off()).await);
    let (_, again) = stage.again(&first, State::Unknown, false).await;
    let told: Result<i64, _> = again.transaction("entered", async |_| panic!("run again")).await;
    assert_eq!(told.expect("as it was"), 1);
    assert_eq!(again.transaction("entered twice", enter).await.expect("another step"), 2);
    assert_eq!(stage.counts().await, (2, 2));
    // One at a time: of two at once, one commits, and the other's rows are rolled back.
    let (one, two) = tokio::join!(again.transaction("race", enter), again.transaction("race", enter));
    assert!(one.is_ok() || two.is_ok(), "{one:?}, {two:?}");
    assert_eq!(stage.counts().await, (3, 3));
}

async fn a_step_that_fails_leaves_nothing(stage: Stage) {
    let steps = stage.execute(&claim("order")).await;
    let refused = steps.transaction("entered", async |tx| {
        enter(tx).await?;
        Err::<i64, _>(PgStepsError::rolled_back("sold out"))
    });
    assert!(matches!(refused.await, Err(PgStepsError::RolledBack(_))));
    let failed = steps.transaction("entered", async |tx| {
        enter(tx.clone()).await?;
        tx.batch_execute("SELECT 1 / 0").await?;
        Ok(1)
    });
    assert!(matches!(failed.await, Err(PgStepsError::Transaction(_))));
    let passed_over = steps.transaction("entered", async |tx| {
        enter(tx.clone()).await?;
        let _ = tx.batch_execute("SELECT 1 / 0").await;
        Ok(1)
    });
    assert!(matches!(passed_over.await, Err(PgStepsError::Store(StoreError::NotApplied(_)))));
    let deferred = "CREATE TABLE once (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)";
    stage.raw.client.batch_execute(deferred).await.expect("a table");
    let at_the_end = steps.transaction("entered", async |tx| {
        enter(tx.clone()).await?;
        tx.batch_execute("INSERT INTO once VALUES (1), (1)").await?;
        Ok(1)
    });
    assert!(matches!(at_the_end.await, Err(PgStepsError::Store(StoreError::NotApplied(_)))));
    assert!(matches!(steps.transaction("", enter).await, Err(PgStepsError::Name)));
    // Given up on its way.
    let mut dropped = Box::pin(steps.transaction("entered", async |tx| {
        enter(tx).await?;
        std::future::pending::<Result<i64, PgStepsError>>().await
    }));
    let waits = stage.raw.until(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'",
        1,
    );
    tokio::select! { ended = &mut dropped => panic!("{ended:?}"), () = waits => {} }
    drop(dropped);
    assert_eq!(stage.counts().await, (0, 0));
    assert_eq!(steps.transaction("entered", enter).await.expect("committed"), 1);
    assert_eq!(stage.counts().await, (1, 1));
}

async fn who_was_taken_over_writes_nothing(stage: Stage) {
    let first = claim("order");
    let steps = stage.execute(&first).await;
    steps.save("charged", "ch_1").await.expect("saved");
    written(&stage.store.record(first.identity.id(), first.token, samples::written_off()).await);
    let (second, again) = stage.again(&first, State::Unknown, false).await;
    assert!(matches!(steps.saved::<String>("charged").await, Err(PgStepsError::TakenOver)));
    assert!(matches!(steps.save("settled", &1).await, Err(PgStepsError::TakenOver)));
    assert!(matches!(steps.transaction("entered", enter).await, Err(PgStepsError::TakenOver)));
    assert_eq!(stage.counts().await, (0, 1));
    assert_eq!(again.saved::<String>("charged").await.expect("read").as_deref(), Some("ch_1"));
    // And nobody writes once there is an outcome.
    written(&stage.store.record(second.identity.id(), second.token, samples::completed("done")).await);
    assert!(matches!(again.save("settled", &1).await, Err(PgStepsError::TakenOver)));
    // Nothing but the comparison stands in the way.
    let unfenced =
        "INSERT INTO idempotency_steps SELECT id, created_at, 'settled', 1, '1', now() FROM idempotency_keys";
    assert_eq!(stage.raw.client.execute(unfenced, &[]).await.expect("inserted"), 1);
}

async fn who_was_taken_over_in_the_midst_of_a_transaction_commits_nothing(stage: Stage) {
    let first = claim("order");
    let steps = stage.execute(&first).await;
    let told = steps.transaction("entered", async |tx| {
        let entered = enter(tx).await?;
        written(&stage.store.record(first.identity.id(), first.token, samples::written_off()).await);
        let (_, again) = stage.again(&first, State::Unknown, false).await;
        assert_eq!(again.saved::<i64>("entered").await.expect("read"), None);
        Ok(entered)
    });
    assert!(matches!(told.await, Err(PgStepsError::TakenOver)));
    assert_eq!(stage.counts().await, (0, 0));
}

/// The record is held while a step is written, so a takeover comes before it or after it.
async fn who_takes_over_waits_for_what_is_being_saved(stage: Stage) {
    let slow = "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS \
                    'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END'; \
                CREATE TRIGGER slowly BEFORE INSERT ON idempotency_steps FOR EACH ROW EXECUTE FUNCTION slowly()";
    stage.raw.client.batch_execute(slow).await.expect("a trigger");
    let first = claim("order");
    let steps = stage.execute(&first).await;
    written(&stage.store.record(first.identity.id(), first.token, samples::written_off()).await);
    stage.raw.client.batch_execute("SELECT pg_advisory_lock(7)").await.expect("locked");
    let waiting = |on: &str| {
        format!("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = '{on}'")
    };
    let taking_over = async {
        stage.raw.until(&waiting("advisory"), 1).await;
        // Its own wait is bounded, so it may be refused, and is made again.
        let claim = samples::retry(
            &first.identity,
            samples::owner(),
            Replaces { token: first.token, state: State::Unknown, expired: false },
        );
        let claiming = async {
            while let Err(error) = stage.store.claim(claim.clone()).await {
                assert!(matches!(error, StoreError::NotApplied(_)), "{error:?}");
            }
        };
        let releasing = async {
            stage.raw.until(&waiting("transactionid"), 1).await;
            stage.raw.client.batch_execute("SELECT pg_advisory_unlock(7)").await.expect("unlocked");
        };
        tokio::join!(claiming, releasing);
        stage.points.steps(Fence { id: claim.identity.id(), token: claim.token })
    };
    let (saved, again) = tokio::join!(steps.save("charged", &1), taking_over);
    saved.expect("it came before");
    assert_eq!(again.saved("charged").await.expect("read"), Some(1));
}

/// As its outcome would count (E4), also after an operator's `failed`.
async fn who_lapsed_and_was_not_taken_over_still_saves(stage: Stage) {
    let first = claim("order");
    let steps = stage.execute(&first).await;
    written(&stage.store.record(first.identity.id(), first.token, samples::written_off()).await);
    steps.save("charged", &1).await.expect("saved");
    let (_, again) = stage.again(&first, State::Unknown, false).await;
    assert_eq!(again.saved("charged").await.expect("read"), Some(1));
}

async fn a_key_used_afresh_begins_at_the_beginning(stage: Stage) {
    let first = claim("order");
    let steps = stage.execute(&first).await;
    steps.save("charged", &1).await.expect("saved");
    let key = steps.key("charge");
    written(&stage.store.record(first.identity.id(), first.token, samples::completed("done")).await);
    stage.clock.advance(samples::LIFETIMES.ttl + Duration::from_secs(1));
    let (_, afresh) = stage.again(&first, State::Completed, true).await;
    assert_eq!(afresh.saved::<i64>("charged").await.expect("read"), None);
    afresh.save("charged", &2).await.expect("its own");
    assert_eq!(afresh.saved("charged").await.expect("read"), Some(2));
    assert_eq!((afresh.key("charge"), steps.key("refund") == key), (key, false));
}

async fn steps_go_with_their_record(stage: Stage) {
    let (swept, purged, kept) = (claim("swept"), claim("purged"), claim("kept"));
    for claim in [&swept, &purged] {
        let steps = stage.execute(claim).await;
        for name in ["one", "two"] {
            steps.save(name, &1).await.expect("saved");
        }
    }
    written(&stage.store.record(swept.identity.id(), swept.token, samples::completed("done")).await);
    written(&stage.store.record(purged.identity.id(), purged.token, samples::written_off()).await);
    stage.clock.advance(samples::LIFETIMES.ttl + Duration::from_secs(1));
    stage.execute(&kept).await.save("one", &1).await.expect("saved");
    let told = stage.store.sweep(stage.clock.now(), 100).await.expect("swept");
    assert_eq!((told.deleted, stage.raw.count(STEPS).await), (1, 3));
    stage.store.purge(purged.identity.id()).await.expect("purged");
    assert_eq!(stage.raw.count(STEPS).await, 1);
}

async fn a_transaction_that_its_work_ends_is_found_out(stage: Stage) {
    let steps = stage.execute(&claim("order")).await;
    for end in ["ROLLBACK", "ROLLBACK; BEGIN", "COMMIT"] {
        let ended = steps.transaction("entered", async |tx| {
            let entered = enter(tx.clone()).await?;
            tx.batch_execute(end).await?;
            Ok(entered)
        });
        let ended = ended.await;
        assert!(matches!(ended, Err(PgStepsError::Store(StoreError::MayHaveBeenApplied(_)))), "{end}: {ended:?}");
        assert_eq!(steps.saved::<i64>("entered").await.expect("read"), None, "{end}");
    }
}

#[tokio::test]
async fn without_a_claim_there_are_no_steps() {
    let stage = Stage::new(&NEW, |database| NEW.url(database)).await;
    let error = stage.points.of(&Extensions::new()).expect_err("no claim");
    assert!(matches!(error, PgStepsError::Unclaimed));
    assert_eq!(error.into_response().status(), 500);
    let stopped = PgStepsError::TakenOver.into_response();
    assert_eq!((stopped.status().as_u16(), stopped.headers().get("retry-after")), (503, None), "unknown, by E7");
    let mut extensions = Extensions::new();
    let claim = claim("order");
    granted(&stage.store.claim(claim.clone()).await);
    extensions.insert(Fence { id: claim.identity.id(), token: claim.token });
    stage.points.of(&extensions).expect("steps").save("charged", &1).await.expect("saved");
}

#[tokio::test]
async fn a_role_that_may_not_write_steps_is_refused() {
    let database = migrated(&OLD).await;
    let role = format!(
        "CREATE ROLE {database}_app LOGIN; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys, idempotency_nodes, idempotency_sweeps TO {database}_app; \
         GRANT SELECT ON oncekey_schema, idempotency_steps TO {database}_app; \
         GRANT USAGE ON SEQUENCE idempotency_claims TO {database}_app"
    );
    OLD.execute(&database, &role).await.expect("a role");
    let options = options(&OLD.url(&database).replace("postgres@", &format!("{database}_app@")));
    let store = PostgresStore::open(options).await.expect("opens");
    let refused = PgRecoveryPoints::open(&store, 1, TransactionOptions::default()).await.expect_err("refused");
    assert!(matches!(refused, StoreError::Misconfigured(_)), "{refused:?}");
}

/// Broken connections of the pool are no trouble of a handler's.
#[tokio::test]
async fn connections_that_broke_meanwhile_are_replaced() {
    let stage = Stage::new(&OLD, |database| POOLER.url(database)).await;
    let steps = stage.execute(&claim("order")).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
               AND pid <> pg_backend_pid()";
    steps.save("one", &1).await.expect("saved");
    stage.raw.client.batch_execute(end).await.expect("ended");
    steps.save("two", &2).await.expect("saved");
    stage.raw.client.batch_execute(end).await.expect("ended");
    assert_eq!(steps.transaction("entered", enter).await.expect("committed"), 1);
}
