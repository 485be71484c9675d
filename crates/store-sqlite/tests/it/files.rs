//! Which files are opened, which are refused, and what becomes of one that goes away.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use oncekey_store::{Store, StoreError};
use oncekey_store_sqlite::{Migrated, SchemaError, SqliteOptions, SqliteStore, migrate};
use oncekey_store_test::{granted, samples};

use crate::place::{Place, clock};

/// The schema error that an answer was refused with.
fn refusal<T: std::fmt::Debug>(answer: &Result<T, StoreError>) -> SchemaError {
    let Err(StoreError::Misconfigured(cause)) = answer else { panic!("expected a refusal, got {answer:?}") };
    cause.downcast_ref::<SchemaError>().unwrap_or_else(|| panic!("no schema error: {cause}")).clone()
}

#[test]
fn a_migration_is_done_once() {
    let place = Place::empty();
    assert_eq!(migrate(&place.options()).expect("a new database"), Migrated { from: 0, to: 2 });
    assert_eq!(migrate(&place.options()).expect("nothing to do"), Migrated { from: 2, to: 2 });
}

#[test]
fn many_processes_may_migrate_at_once() {
    let place = Place::empty();
    let migrated: Vec<Migrated> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| migrate(&place.options()).expect("migrated"))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(migrated.iter().filter(|migrated| migrated.from == 0).count(), 1, "{migrated:?}");
    place.open(clock());
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    for (sql, name) in [
        ("CREATE TABLE theirs (x); PRAGMA user_version = 1;", "by its tables"),
        ("PRAGMA application_id = 42; CREATE TABLE records (x);", "by its application id"),
        ("PRAGMA application_id = 42;", "though it is empty"),
    ] {
        let place = Place::empty();
        place.raw().execute_batch(sql).expect("a foreign database");
        let before = fs::read(place.path()).expect("readable");
        assert!(matches!(refusal(&migrate(&place.options())), SchemaError::Foreign(_)), "{name}");
        assert!(matches!(refusal(&SqliteStore::open(place.options(), clock())), SchemaError::Foreign(_)), "{name}");
        assert_eq!(fs::read(place.path()).expect("readable"), before, "{name}");
    }
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let place = Place::empty();
    fs::write(place.path(), "dear diary, ".repeat(1000)).expect("written");
    let refused = refusal(&migrate(&place.options()));
    assert!(refused.to_string().contains("records.db"), "{refused}");
    assert!(fs::read_to_string(place.path()).expect("readable").starts_with("dear diary"));
}

#[test]
fn a_later_schema_is_refused() {
    let place = Place::migrated();
    place.raw().pragma_update(None, "user_version", 3).expect("a later version");
    for refused in [refusal(&migrate(&place.options())), refusal(&SqliteStore::open(place.options(), clock()))] {
        assert!(matches!(refused, SchemaError::Newer { found: 3, known: 2, .. }), "{refused:?}");
    }
}

#[test]
fn a_database_without_schema_is_not_opened() {
    let place = Place::empty();
    let missing = refusal(&SqliteStore::open(place.options(), clock()));
    assert!(matches!(missing, SchemaError::Older { found: 0, known: 2, .. }), "{missing:?}");
    assert!(!place.path().exists(), "opening makes no file");
    drop(place.raw().execute_batch("VACUUM"));
    let empty = refusal(&SqliteStore::open(place.options(), clock()));
    assert!(matches!(empty, SchemaError::Older { found: 0, known: 2, .. }), "{empty:?}");
}

#[test]
fn a_place_that_can_not_be_written_is_named() {
    let place = Place::empty();
    let options = SqliteOptions::new(place.path().join("no/such/directory.db"));
    let Err(StoreError::Misconfigured(cause)) = migrate(&options) else { panic!("migrated into nowhere") };
    assert!(cause.to_string().contains("no/such/directory.db"), "{cause}");
    let Err(StoreError::Misconfigured(cause)) = migrate(&SqliteOptions::new(":memory:")) else {
        panic!("migrated into memory")
    };
    assert!(cause.to_string().contains("`memory:`"), "{cause}");
}

#[tokio::test]
async fn only_its_owner_may_read_the_database() {
    let place = Place::migrated();
    let store = place.open(clock());
    granted(&store.claim(samples::claim(&samples::identity("acc-1", "k"), samples::owner())).await);
    for suffix in ["", "-wal", "-shm"] {
        let mut file = place.path().into_os_string();
        file.push(suffix);
        let mode = fs::metadata(&file).expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_database_that_was_removed_grants_nothing() {
    let place = Place::migrated();
    let store = place.open(clock());
    let claim = |key| samples::claim(&samples::identity("acc-1", key), samples::owner());
    granted(&store.claim(claim("before")).await);
    fs::remove_file(place.path()).expect("removed");
    for _ in 0..2 {
        let refused = store.claim(claim("after")).await;
        let Err(StoreError::NotApplied(cause)) = &refused else { panic!("{refused:?}") };
        assert!(cause.to_string().contains("removed or replaced"), "{cause}");
        // Another database in its place is as bad.
        migrate(&place.options()).expect("a new database");
    }
}

#[tokio::test]
async fn it_says_where_it_is_and_what_it_can_promise() {
    let place = Place::migrated();
    let store = place.open(clock());
    assert!(store.describe().starts_with("sqlite:/") && store.describe().ends_with("/records.db"));
    let promise = store.promise().await.expect("a promise");
    // The file system under the tests decides; what isn't promised must be its fault.
    assert!(promise.shortfalls.iter().all(|sentence| sentence.contains("the database file")), "{promise:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn on_tmpfs_it_promises_its_best_only() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("Linux has a tmpfs there");
    let options = SqliteOptions::new(directory.path().join("records.db"));
    migrate(&options).expect("a new database");
    let store = SqliteStore::open(options, clock()).expect("the database opens");
    let promise = store.promise().await.expect("a promise");
    assert_eq!(promise.class, oncekey_core::PromiseClass::BestEffort);
    assert!(promise.shortfalls[0].contains("tmpfs"), "{promise:?}");
}

#[test]
fn a_refusal_reads_as_an_instruction() {
    let place = Place::empty();
    let error = SqliteStore::open(place.options(), clock()).expect_err("there is no database");
    let cause = error.source().expect("a cause").to_string();
    assert!(cause.ends_with("run `oncekey migrate`"), "{cause}");
}
