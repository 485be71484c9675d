//! What users of the facade rely on beside its front page: the embedded store in one step, and transactional mode.

#![cfg_attr(
    all(any(feature = "postgres", feature = "sqlite"), feature = "tower"),
    expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")
)]

#[cfg(all(feature = "postgres", feature = "tower"))]
#[path = "it/postgres.rs"]
mod postgres;
#[cfg(all(feature = "sqlite", feature = "tower"))]
#[path = "it/transactions.rs"]
mod transactions;

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::sync::Arc;
    use std::time::Duration;

    use oncekey::{Engine, Job, Once, Settings, StoreError, SystemClock};

    #[tokio::test]
    async fn a_store_is_opened_where_there_is_none_and_again_with_all_it_had() {
        let folder = tempfile::tempdir().unwrap();
        for replayed in [false, true] {
            let store = oncekey::sqlite::open(folder.path().join("oncekey.db")).unwrap();
            let engine = Engine::start(store, Arc::new(SystemClock), Settings::default()).await.unwrap();
            let job = Job::new("job", "acc-1", "k").unwrap();
            let once = engine.once(job, |_| async { Ok::<_, std::io::Error>("done") }).await;
            assert_eq!(once, Once::Done { result: Some("done".into()), replayed });
            assert_eq!(engine.shutdown(Duration::ZERO).await, 0);
        }
    }

    #[test]
    fn a_file_that_is_no_database_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letter.txt");
        std::fs::write(&path, "Dear database, ".repeat(100)).unwrap();
        assert!(matches!(
            oncekey::sqlite::open(path).err(),
            Some(StoreError::Misconfigured(_) | StoreError::Corrupt(_))
        ));
    }
}
