//! Transactional mode: the work of handlers in the batches of the writer, its rows and their records.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use oncekey_core::{Event, Identity, State};
use oncekey_store::{
    Begun, Claim, Closed, Ending, Found, Last, ManualClock, Outcome, Replaces, Store, StoreError, Transaction,
    Transactions,
};
use oncekey_store_sqlite::SqliteStore;
use oncekey_store_test::{granted, samples, written};
use rusqlite::Connection;
use tokio::task::JoinSet;

use crate::place::{Place, clock};

pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, parent INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED
) STRICT";

/// A database with a table of the application's.
async fn opened(place: &Place, clock: Arc<ManualClock>) -> Arc<SqliteStore> {
    let store = Arc::new(place.open(clock));
    store.make_tables(TABLE).await.expect("a table");
    store
}

fn identity(key: &str) -> Identity {
    samples::identity("acc-1", key)
}

async fn open(store: &SqliteStore, claim: Claim) -> Box<dyn Transaction> {
    match store.begin(claim).await.expect("begun") {
        Begun::Open { transaction, .. } => transaction,
        _ => panic!("something is in the way"),
    }
}

/// Work on the store's connection.
fn work(work: impl FnOnce(&Connection) -> Ending + Send + 'static) -> Ending {
    let last: Last = Box::new(|connection: &dyn Any| work(connection.downcast_ref().expect("SQLite's connection")));
    Ending::Last(last)
}

fn insert(connection: &Connection, key: &str) -> rusqlite::Result<usize> {
    connection.execute("INSERT INTO orders (key) VALUES (?1)", [key])
}

/// Work that inserts a row, and ends as it should.
fn ordering(key: &'static str) -> Ending {
    work(move |connection| {
        insert(connection, key).expect("a row");
        Ending::Commit(samples::completed("done"))
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it is used up where it is looked at")]
fn recorded(closed: Result<Closed, StoreError>) {
    assert!(matches!(closed, Ok(Closed::Recorded { .. })), "{closed:?}");
}

fn met(closed: Result<Closed, StoreError>) -> Found {
    match closed {
        Ok(Closed::Met(found)) => *found,
        closed => panic!("{closed:?}"),
    }
}

/// The keys of the rows, and of the records, as another process sees them.
fn kept(place: &Place) -> (Vec<String>, Vec<String>) {
    let connection = place.raw();
    let keys = |sql| {
        let mut select = connection.prepare(sql).expect("a statement");
        let keys = select.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>();
        keys.expect("keys")
    };
    (
        keys("SELECT key FROM orders ORDER BY key"),
        keys("SELECT key FROM records WHERE state = 'completed' ORDER BY key"),
    )
}

/// Hands over ends while the writer is kept busy, so that they are one batch; what each came to, in order.
async fn together(store: &Arc<SqliteStore>, ends: Vec<(&'static str, Ending)>) -> Vec<Result<Closed, StoreError>> {
    let mut open_ends = Vec::new();
    for (key, ending) in ends {
        open_ends.push((open(store, samples::claim(&identity(key), samples::owner())).await, ending));
    }
    let (tell, told) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let busy = open(store, samples::claim(&identity("busy"), samples::owner())).await.end(work(move |_| {
        tell.send(()).expect("a test that waits");
        released.recv().expect("a release");
        Ending::RollBack
    }));
    let ends = async {
        told.await.expect("the writer is busy");
        let ends = open_ends.into_iter().map(|(transaction, ending)| transaction.end(ending));
        let release = async { release.send(()).expect("the writer is busy") };
        tokio::join!(biased; futures_util::future::join_all(ends), release).0
    };
    tokio::join!(busy, ends).1
}

#[tokio::test]
async fn rows_and_record_are_one_commit() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    let claim = samples::claim(&identity("k"), samples::owner());
    let before = store.commits();
    let transaction = open(&store, claim.clone()).await;
    assert_eq!((store.commits(), store.read(claim.identity.id()).await.unwrap().is_none()), (before, true));
    recorded(transaction.end(ordering("k")).await);
    assert_eq!((store.commits(), kept(&place)), (before + 1, (vec!["k".into()], vec!["k".into()])));
    let found = store.read(claim.identity.id()).await.unwrap().expect("recorded");
    assert_eq!((found.record.state, found.record.token, found.record.attempts), (State::Completed, claim.token, 1));
    assert!(found.response.is_some());
    assert!(matches!(store.begin(samples::claim(&claim.identity, claim.owner)).await, Ok(Begun::Held(_))));
}

#[tokio::test]
async fn an_end_without_work_records() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    for (key, ending) in
        [("a", Ending::Commit(samples::completed("done"))), ("b", Ending::CommitRecord(samples::completed("done")))]
    {
        recorded(open(&store, samples::claim(&identity(key), samples::owner())).await.end(ending).await);
    }
    let rolled_back = open(&store, samples::claim(&identity("c"), samples::owner())).await.end(Ending::RollBack).await;
    assert!(matches!(rolled_back, Ok(Closed::RolledBack)), "{rolled_back:?}");
    assert_eq!(kept(&place), (vec![], vec!["a".into(), "b".into()]));
}

#[tokio::test]
async fn a_hundred_requests_share_a_few_commits() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    let keys: Vec<&'static str> = (0..100).map(|n| &*format!("key-{n:02}").leak()).collect();
    let before = store.commits();
    let ends = together(&store, keys.iter().map(|key| (*key, ordering(key))).collect()).await;
    assert_eq!(ends.len(), 100);
    ends.into_iter().for_each(recorded);
    // 64 of them fill a batch.
    assert_eq!(store.commits() - before, 2);
    let (rows, records) = kept(&place);
    assert_eq!((rows.len(), rows), (100, records));
}

#[tokio::test]
async fn what_fails_in_a_batch_fails_alone() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    let before = store.commits();
    let refusing = |connection: &Connection| {
        insert(connection, "declined").expect("a row");
        Ending::CommitRecord(samples::completed("no"))
    };
    let failing = |connection: &Connection| {
        insert(connection, "failed").expect("a row");
        Ending::RollBack
    };
    let constrained = |connection: &Connection| {
        insert(connection, "constrained").expect("a row");
        insert(connection, "first").expect_err("it is there");
        Ending::RollBack
    };
    let panicking = |connection: &Connection| -> Ending {
        insert(connection, "panicked").expect("a row");
        connection.execute_batch("SAVEPOINT a; SAVEPOINT b").expect("savepoints");
        panic!("as the test wants it")
    };
    let closed = together(
        &store,
        vec![
            ("first", ordering("first")),
            ("declined", work(refusing)),
            ("failed", work(failing)),
            ("constrained", work(constrained)),
            ("panicked", work(panicking)),
            ("last", ordering("last")),
        ],
    )
    .await;
    let [first, declined, failed, constrained, panicked, last] = closed.try_into().expect("six ends");
    [first, declined, last].into_iter().for_each(recorded);
    for rolled_back in [failed, constrained, panicked] {
        assert!(matches!(rolled_back, Ok(Closed::RolledBack)), "{rolled_back:?}");
    }
    assert_eq!(
        kept(&place),
        (vec!["first".into(), "last".into()], vec!["declined".into(), "first".into(), "last".into()])
    );
    assert_eq!(store.commits() - before, 1, "one for all");
}

/// What reaches further than its own rows is refused, each statement by itself; the work may go on.
#[tokio::test]
async fn work_keeps_to_its_rows() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    let done = work(|connection| {
        for refused in [
            "COMMIT",
            "END",
            "ROLLBACK",
            "BEGIN",
            "RELEASE oncekey",
            "ROLLBACK TO OnceKey",
            "ATTACH 'elsewhere.db' AS elsewhere",
            "PRAGMA synchronous = OFF",
            "PRAGMA journal_mode = DELETE",
            "PRAGMA defer_foreign_keys = ON",
            "CREATE TABLE more (id)",
            "CREATE TEMP TABLE more (id)",
            "DROP TABLE orders",
            "DELETE FROM records",
            "UPDATE Responses SET body = NULL",
            "INSERT INTO main.nodes VALUES (zeroblob(16), 1)",
            "SELECT count(*) FROM records",
            "INSERT INTO orders (key) SELECT key FROM records",
            "REINDEX",
            "ANALYZE",
        ] {
            let error = connection.execute_batch(refused).expect_err(refused);
            let code = error.sqlite_error_code();
            assert_eq!(code, Some(rusqlite::ErrorCode::AuthorizationForStatementDenied), "{refused}: {error}");
        }
        // Oncekey's own are compiled already.
        assert!(connection.prepare_cached("COMMIT").is_err());
        assert!(connection.prepare_cached("BEGIN IMMEDIATE").is_err());
        connection.execute_batch("VACUUM").expect_err("not in a transaction");
        connection.unchecked_transaction().expect_err("there is one");
        connection.execute_batch("SAVEPOINT mine; INSERT INTO orders (key) VALUES ('no'); ROLLBACK TO mine").unwrap();
        insert(connection, "k").unwrap();
        Ending::Commit(samples::completed("done"))
    });
    recorded(open(&store, samples::claim(&identity("k"), samples::owner())).await.end(done).await);
    assert_eq!(kept(&place), (vec!["k".into()], vec!["k".into()]));
    granted(&store.claim(samples::claim(&identity("later"), samples::owner())).await);
}

/// `ON CONFLICT ROLLBACK` ends the batch's transaction, and nobody is asked before.
#[tokio::test]
async fn work_that_takes_its_batch_down_keeps_nothing_and_takes_nobody_with_it() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    recorded(open(&store, samples::claim(&identity("there"), samples::owner())).await.end(ordering("there")).await);
    let taking_down = |open_savepoint: bool| {
        work(move |connection| {
            connection.execute("INSERT OR ROLLBACK INTO orders (key) VALUES ('there')", []).expect_err("a conflict");
            if open_savepoint {
                connection.execute_batch("SAVEPOINT mine").expect("a transaction of its own");
                insert(connection, "alone").expect("a row that must not be kept");
            } else {
                insert(connection, "alone").expect_err("it would commit by itself");
            }
            Ending::Commit(samples::completed("done"))
        })
    };
    let closed = together(
        &store,
        vec![
            ("before", ordering("before")),
            ("one", taking_down(false)),
            ("plain", Ending::Commit(samples::completed("done"))),
            ("two", taking_down(true)),
            ("after", ordering("after")),
        ],
    )
    .await;
    let [before, one, plain, two, after] = closed.try_into().expect("five ends");
    assert!(matches!(before, Ok(Closed::Again)), "it had run: {before:?}");
    for told in [one, two] {
        assert!(matches!(told, Err(StoreError::NotApplied(_))), "{told:?}");
    }
    [plain, after].into_iter().for_each(recorded);
    let (rows, records) = kept(&place);
    assert_eq!(
        (rows, records),
        (
            vec!["after".to_owned(), "there".to_owned()],
            vec!["after".to_owned(), "plain".to_owned(), "there".to_owned()]
        )
    );
}

/// A transaction that was told of another's record isn't recorded when its batch runs again after that record is gone: its caller
/// has been answered.
#[tokio::test]
async fn what_was_answered_is_not_run_again_with_its_batch() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    let there = samples::claim(&identity("there"), samples::owner());
    let late = open(&store, samples::claim(&there.identity, samples::owner())).await;
    granted(&store.claim(there.clone()).await);
    written(&store.record(there.identity.id(), there.token, samples::completed("theirs")).await);
    recorded(open(&store, samples::claim(&identity("order"), samples::owner())).await.end(ordering("order")).await);
    let taking_down = open(&store, samples::claim(&identity("one"), samples::owner())).await;
    let (tell, told) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let busy = open(&store, samples::claim(&identity("busy"), samples::owner())).await.end(work(move |_| {
        tell.send(()).expect("a test that waits");
        released.recv().expect("a release");
        Ending::RollBack
    }));
    let resolved = place.raw();
    let batch = async {
        told.await.expect("the writer is busy");
        let late = late.end(Ending::Commit(samples::completed("mine")));
        let end = taking_down.end(work(move |connection| {
            connection.execute("INSERT OR ROLLBACK INTO orders (key) VALUES ('order')", []).expect_err("a conflict");
            // What an operator's program does in the moment between.
            resolved.execute("DELETE FROM records WHERE key = 'there'", []).expect("nobody holds the lock");
            Ending::Commit(samples::completed("done"))
        }));
        let release = async { release.send(()).expect("the writer is busy") };
        tokio::join!(biased; late, end, release)
    };
    let (_, (late, end, ())) = tokio::join!(busy, batch);
    assert_eq!(met(late).record.token, there.token);
    assert!(matches!(end, Err(StoreError::NotApplied(_))), "{end:?}");
    // Behind the batch.
    granted(&store.claim(samples::claim(&identity("later"), samples::owner())).await);
    assert!(store.read(there.identity.id()).await.unwrap().is_none(), "recorded for nobody");
}

/// A constraint that is checked at the COMMIT fails the batch; handed over again, each is apart, and only the one at fault fails.
#[tokio::test]
async fn a_constraint_that_is_checked_late_fails_its_own_request_the_second_time() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    let orphan = || {
        work(|connection| {
            connection.execute("INSERT INTO orders (key, parent) VALUES ('orphan', 99)", []).expect("checked later");
            Ending::Commit(samples::completed("done"))
        })
    };
    let ends = || vec![("one", ordering("one")), ("orphan", orphan()), ("two", ordering("two"))];
    for lost in together(&store, ends()).await {
        assert!(matches!(lost, Ok(Closed::Again)), "{lost:?}");
    }
    let [one, orphan, two] = together(&store, ends()).await.try_into().expect("three ends");
    assert!(matches!(orphan, Err(StoreError::NotApplied(_))), "{orphan:?}");
    [one, two].into_iter().for_each(recorded);
    assert_eq!(kept(&place), (vec!["one".into(), "two".into()], vec!["one".into(), "two".into()]));
}

const ENDLESS: &str = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 200000) ";

/// Work that takes its time as the clock has it.
fn slow(clock: &Arc<ManualClock>, late: bool, sql: String) -> Ending {
    let clock = clock.clone();
    work(move |connection| {
        insert(connection, "slow").expect("a row");
        let mut statement = connection.prepare(&sql).expect("a statement");
        clock.advance(Duration::from_millis(if late { 1100 } else { 900 }));
        if late {
            connection.prepare("SELECT 1").expect_err("it is late");
        }
        match statement.query_row([], |_| Ok(())) {
            Ok(()) | Err(rusqlite::Error::QueryReturnedNoRows) => Ending::Commit(samples::completed("done")),
            Err(error) => {
                assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::OperationInterrupted), "{error}");
                Ending::RollBack
            }
        }
    })
}

#[tokio::test]
async fn work_that_runs_too_long_is_interrupted() {
    let place = Place::migrated();
    let clock = clock();
    let store = opened(&place, clock.clone()).await;
    let reading = format!("{ENDLESS} SELECT max(n) FROM n");
    let writing = format!("{ENDLESS} INSERT INTO orders (key) SELECT 'n-' || n FROM n WHERE n > 199990 RETURNING 1");
    for (n, sql) in [reading, writing].into_iter().enumerate() {
        let next: &str = ["next-0", "next-1"][n];
        let closed = together(&store, vec![("slow", slow(&clock, true, sql)), (next, ordering(next))]).await;
        let [slow, next] = closed.try_into().expect("two ends");
        assert!(matches!(slow, Ok(Closed::RolledBack)), "{slow:?}");
        recorded(next);
    }
    assert_eq!(kept(&place), (vec!["next-0".into(), "next-1".into()], vec!["next-0".into(), "next-1".into()]));
}

#[tokio::test]
async fn work_that_stays_below_its_time_is_not_interrupted() {
    let place = Place::migrated();
    let clock = clock();
    let store = opened(&place, clock.clone()).await;
    let slow = slow(&clock, false, format!("{ENDLESS} SELECT max(n) FROM n"));
    recorded(open(&store, samples::claim(&identity("slow"), samples::owner())).await.end(slow).await);
    assert_eq!(kept(&place), (vec!["slow".into()], vec!["slow".into()]));
}

/// Two processes on one file: both run the handler, one commits, the other gets what that recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_one_commits() {
    let place = Place::migrated();
    let stores = [opened(&place, clock()).await, opened(&place, clock()).await];
    let (mut begun, mut expected) = (Vec::new(), Vec::new());
    for n in 0..40 {
        let key: &'static str = format!("key-{n:02}").leak();
        expected.push(key.to_owned());
        for store in &stores {
            begun.push((key, open(store, samples::claim(&identity(key), samples::owner())).await));
        }
    }
    let mut racing = JoinSet::new();
    for (key, transaction) in begun {
        racing.spawn(async move { transaction.end(ordering(key)).await });
    }
    let (mut committed, mut others) = (0, 0);
    while let Some(closed) = racing.join_next().await {
        match closed.expect("no panic") {
            Ok(Closed::Recorded { .. }) => committed += 1,
            closed => {
                assert_eq!(met(closed).response.as_deref(), Some(&*samples::response("done")));
                others += 1;
            }
        }
    }
    assert_eq!((committed, others), (40, 40));
    assert_eq!(kept(&place), (expected.clone(), expected));
}

#[tokio::test]
async fn what_was_met_comes_with_its_response_however_large() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    let claims = [0, 1].map(|_| samples::claim(&identity("k"), samples::owner()));
    let [first, second] = claims;
    let other = place.open(clock());
    let (first, second) = (open(&store, first).await, open(&other, second).await);
    let large = samples::with_body(vec![7; 100_000].into());
    let outcome = Outcome { event: Event::Complete, response: Some(large.clone()) };
    recorded(first.end(Ending::Commit(outcome)).await);
    let found = met(second.end(work(|_| panic!("it isn't run"))).await);
    assert_eq!(found.response, Some(large));
}

#[tokio::test]
async fn an_expired_record_is_replaced_and_a_newer_one_is_not() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    let first = samples::claim(&identity("k"), samples::owner());
    recorded(open(&store, first.clone()).await.end(ordering("one")).await);
    let replaces = Replaces { token: first.token, state: State::Completed, expired: true };
    let retry = || samples::retry(&first.identity, samples::owner(), replaces);
    let other = place.open(clock());
    let (second, third) = (open(&store, retry()).await, open(&other, retry()).await);
    recorded(second.end(ordering("two")).await);
    met(third.end(ordering("three")).await);
    assert_eq!(kept(&place), (vec!["one".into(), "two".into()], vec!["k".into()]));
}

#[tokio::test]
async fn an_end_that_nobody_waits_for_ends_all_the_same() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    let other = place.raw();
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let mut end = open(&store, samples::claim(&identity("k"), samples::owner())).await.end(ordering("k"));
    assert!((&mut end).now_or_never().is_none(), "it is handed over");
    drop(end);
    other.execute_batch("COMMIT").expect("the lock is given back");
    store.heartbeat(samples::owner(), Duration::from_secs(1)).await.expect("after it");
    assert_eq!(kept(&place), (vec!["k".into()], vec!["k".into()]));
}

#[tokio::test]
async fn tables_are_made_whole_and_only_of_the_application() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    for refused in [
        "CREATE TABLE IF NOT EXISTS records (id)",
        "ALTER TABLE records ADD COLUMN mine",
        "CREATE INDEX mine ON Records (key)",
        "CREATE TRIGGER mine AFTER INSERT ON records BEGIN DELETE FROM orders; END",
        "DROP INDEX records_open",
        "DELETE FROM nodes",
        "PRAGMA user_version = 7",
        "BEGIN; CREATE TABLE elsewhere (id); COMMIT",
        "ATTACH 'elsewhere.db' AS elsewhere",
        "CREATE TABLE half (id); CREATE TABLE half (id)",
        "CREATE TABLE half (id); DROP TABLE responses",
    ] {
        let error = store.make_tables(refused).await.expect_err(refused);
        assert!(matches!(error, StoreError::NotApplied(_)), "{refused}: {error}");
    }
    for allowed in [
        TABLE,
        "ALTER TABLE orders ADD COLUMN amount TEXT CHECK (amount <> '')",
        "CREATE INDEX orders_amount ON orders (amount); CREATE VIEW amounts AS SELECT amount FROM orders",
        "CREATE TRIGGER loud AFTER INSERT ON orders BEGIN UPDATE orders SET amount = '1' WHERE id = new.id; END",
        "CREATE VIRTUAL TABLE words USING fts5 (word)",
        "INSERT INTO orders (key) VALUES ('first'); INSERT INTO words VALUES ('tea')",
        "DROP TRIGGER loud; DROP VIEW amounts; DROP INDEX orders_amount; DROP TABLE words",
    ] {
        store.make_tables(allowed).await.expect(allowed);
    }
    assert!(place.raw().query_row("SELECT id FROM half", [], |_| Ok(())).is_err(), "nothing of it is there");
}

#[tokio::test]
async fn queries_read_what_is_committed_and_no_more() {
    let place = Place::migrated();
    let store = opened(&place, clock()).await;
    recorded(open(&store, samples::claim(&identity("k"), samples::owner())).await.end(ordering("k")).await);
    let query =
        |sql: &'static str| store.query(move |connection| connection.query_row(sql, [], |row| row.get::<_, String>(0)));
    assert_eq!(query("SELECT key FROM orders").await.expect("a store"), Ok("k".to_owned()));
    for refused in
        ["SELECT key FROM records", "INSERT INTO orders (key) VALUES ('x') RETURNING key", "PRAGMA journal_mode"]
    {
        query(refused).await.expect("a store").expect_err(refused);
    }
}
