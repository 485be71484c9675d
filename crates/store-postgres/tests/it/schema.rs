//! Migrations: by many at once, beside other programs' tables, by hand; and what isn't ours or isn't of this version.

use oncekey_store::{AUDIT_LINES, Acted, AuditFilter, Deed, Resolution, Store, StoreError, Swept};
use oncekey_store_postgres::{PostgresStore, SchemaError, migrate, migration_sql};
use oncekey_store_test::{granted, samples, written};
use tokio::task::JoinSet;

use crate::place::{OLD, POOLER, options};

async fn empty() -> String {
    OLD.database().await.expect("a new database")
}

fn schema_error(error: &StoreError) -> &SchemaError {
    match error {
        StoreError::Misconfigured(cause) => cause.downcast_ref().expect("a schema error"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_migrate_at_once_directly_and_through_a_pooler() {
    let database = empty().await;
    let mut nodes = JoinSet::new();
    for n in 0..8 {
        let url = if n % 2 == 0 { OLD.url(&database) } else { POOLER.url(&database) };
        nodes.spawn(async move { migrate(&options(&url)).await.expect("migrated") });
    }
    for migrated in nodes.join_all().await {
        assert_eq!(migrated.to, 3);
    }
    let again = migrate(&options(&OLD.url(&database))).await.expect("migrated");
    assert_eq!((again.from, again.to), (3, 3));
}

#[tokio::test]
async fn what_is_printed_makes_the_schema() {
    let database = empty().await;
    OLD.execute(&database, &migration_sql()).await.expect("run by hand");
    let migrated = migrate(&options(&OLD.url(&database))).await.expect("nothing is left to do");
    assert_eq!((migrated.from, migrated.to), (3, 3));
    let store = PostgresStore::open(options(&OLD.url(&database))).await.expect("opens");
    granted(&store.claim(samples::claim(&samples::identity("acc-1", "k"), samples::owner())).await);
}

#[tokio::test]
async fn without_a_schema_nothing_is_opened() {
    let database = empty().await;
    let error = PostgresStore::open(options(&OLD.url(&database))).await.expect_err("refused");
    assert_eq!(*schema_error(&error), SchemaError::Older { found: 0, known: 3 });
}

#[tokio::test]
async fn a_later_schema_is_refused() {
    let database = empty().await;
    migrate(&options(&OLD.url(&database))).await.expect("migrated");
    OLD.execute(&database, "UPDATE oncekey_schema SET version = 7").await.expect("upgraded");
    for error in [
        migrate(&options(&OLD.url(&database))).await.expect_err("refused"),
        PostgresStore::open(options(&OLD.url(&database))).await.expect_err("refused"),
    ] {
        assert_eq!(*schema_error(&error), SchemaError::Newer { found: 7, known: 3 });
    }
}

/// A table of that name that is another's is named, and left as it is.
#[tokio::test]
async fn a_foreign_table_is_refused_by_name_and_left_alone() {
    let database = empty().await;
    let theirs = "CREATE TABLE idempotency_keys (id INTEGER); INSERT INTO idempotency_keys VALUES (1)";
    OLD.execute(&database, theirs).await.expect("theirs");
    for error in [
        migrate(&options(&OLD.url(&database))).await.expect_err("refused"),
        PostgresStore::open(options(&OLD.url(&database))).await.expect_err("refused"),
    ] {
        assert!(matches!(schema_error(&error), SchemaError::Unlike { .. }), "{error:?}");
        assert!(error.to_string().contains("`idempotency_keys`"), "{error}");
    }
    let untouched = "SELECT id FROM idempotency_keys; CREATE TABLE oncekey_schema (mine INTEGER)";
    OLD.execute(&database, untouched).await.expect("nothing of ours is there");
}

/// A role that may do nothing but what the store does needs no right to create anything, once the tables are there.
#[tokio::test]
async fn a_role_without_ddl_can_serve() {
    let database = empty().await;
    migrate(&options(&OLD.url(&database))).await.expect("migrated");
    let role = format!(
        "CREATE ROLE {database}_app LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys, idempotency_nodes, idempotency_sweeps, \
         idempotency_audit, idempotency_steps TO {database}_app; \
         GRANT SELECT ON oncekey_schema TO {database}_app; GRANT USAGE ON SEQUENCE idempotency_claims TO {database}_app"
    );
    OLD.execute(&database, &role).await.expect("a role");
    let options = options(&OLD.url(&database).replace("postgres@", &format!("{database}_app@")));
    migrate(&options).await.expect("nothing to do");
    let store = PostgresStore::open(options).await.expect("opens");
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    let now = store.heartbeat(claim.owner, samples::LIFETIMES.ttl).await.expect("a heartbeat");
    granted(&store.claim(claim).await);
    store.sweep(now, 10).await.expect("swept");
    store.stats().await.expect("counted");
    store.note_sweep(oncekey_store::Swept::default(), &samples::operator("c")).await.expect("noted");
    assert_eq!(store.audit(&AuditFilter::default(), None, 1).await.expect("listed").lines.len(), 1);
    store.promise().await.expect("a promise");
}

/// A change and its line are one statement: where the line can't be written, nothing is changed.
#[tokio::test]
async fn a_change_whose_line_can_not_be_written_is_not_made() {
    let database = empty().await;
    migrate(&options(&OLD.url(&database))).await.expect("migrated");
    let store = PostgresStore::open(options(&OLD.url(&database))).await.expect("opens");
    let mut ids = Vec::new();
    for key in ["k-1", "k-2"] {
        let claim = samples::claim(&samples::identity("acc-1", key), samples::owner());
        granted(&store.claim(claim.clone()).await);
        written(&store.record(claim.identity.id(), claim.token, samples::written_off()).await);
        ids.push(claim.identity.id());
    }
    let rename = |from: &str, to: &str| format!("ALTER TABLE {from} RENAME TO {to}");
    OLD.execute(&database, &rename("idempotency_audit", "set_aside")).await.expect("renamed");
    for deed in [Deed::Purge, Deed::Resolve(Resolution::Failed)] {
        let refused = store.operate(&ids, &samples::order(deed)).await;
        assert!(matches!(refused, Err(StoreError::NotApplied(_))), "{refused:?}");
    }
    for id in &ids {
        let found = store.read(*id).await.expect("readable").expect("still there");
        assert_eq!(found.record.state, oncekey_core::State::Unknown);
    }
    OLD.execute(&database, &rename("set_aside", "idempotency_audit")).await.expect("renamed");
    let acted = store.operate(&ids, &samples::order(Deed::Purge)).await.expect("carried out");
    assert_eq!(acted, [Acted::Done, Acted::Done]);
}

/// Of too many lines the oldest go, a step at a time; what counts is how many were written after them.
#[tokio::test]
async fn a_trail_that_is_too_long_is_swept() {
    let database = empty().await;
    migrate(&options(&OLD.url(&database))).await.expect("migrated");
    let store = PostgresStore::open(options(&OLD.url(&database))).await.expect("opens");
    for call in ["first", "second"] {
        store.note_sweep(Swept::default(), &samples::operator(call)).await.expect("noted");
    }
    let many = format!("ALTER TABLE idempotency_audit ALTER COLUMN no RESTART WITH {}", AUDIT_LINES + 2);
    OLD.execute(&database, &many).await.expect("as if so many had come");
    store.note_sweep(Swept::default(), &samples::operator("third")).await.expect("noted");
    let now = store.heartbeat(samples::owner(), samples::LIFETIMES.ttl).await.expect("a heartbeat");
    while store.sweep(now, 1).await.expect("swept").more {}
    let left = store.audit(&AuditFilter::default(), None, 10).await.expect("listed").lines;
    assert_eq!(left.iter().map(|line| &*line.operator.call).collect::<Vec<_>>(), ["third"]);
}
