//! Jobs in transactional mode.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use oncekey_engine::{Attempt, Engine, Job, Once, Settings};
use oncekey_store_test::{Buffer, EndFault, ScriptedTransactions};

use crate::world::World;

fn write(attempt: &Attempt) {
    let transaction = attempt.transaction.as_ref().expect("a transaction");
    transaction.0.downcast_ref::<Buffer>().expect("a scripted one").write("row");
}

#[tokio::test(start_paused = true)]
async fn a_jobs_rows_and_its_record_are_committed_together_or_not_at_all() {
    let world = World::new();
    let engine: Engine<Bytes> =
        Engine::start(world.store.clone(), world.clock.clone(), Settings::default()).await.expect("it starts");
    let transactions = Arc::new(ScriptedTransactions::new(world.store.clone()));
    let job = || Job::new("book", "acc-1", "m-1").expect("a job").within(transactions.clone());

    let breaks = |attempt: Attempt| async move {
        write(&attempt);
        Err::<Bytes, _>(io::Error::other("out of stock"))
    };
    assert_eq!(engine.once(job(), breaks).await, Once::NothingDone, "whatever the error says");
    let panics = |attempt: Attempt| async move {
        write(&attempt);
        if true { panic!("as tests do") } else { Ok::<Bytes, io::Error>(Bytes::new()) }
    };
    assert_eq!(engine.once(job(), panics).await, Once::NothingDone);
    assert_eq!(transactions.rows(), [""; 0]);

    let books = |attempt: Attempt| async move {
        write(&attempt);
        Ok::<_, io::Error>("booked")
    };
    transactions.fail_end(EndFault::ReplyLost);
    assert_eq!(engine.once(job(), books).await, Once::Unknown);
    assert_eq!(engine.once(job(), books).await, Once::Done { result: Some("booked".into()), replayed: true });
    assert_eq!(transactions.rows(), ["row"]);
}

/// Whoever keeps the handle could write when nobody looks any more.
#[tokio::test(start_paused = true)]
async fn a_job_that_keeps_its_transaction_has_done_nothing() {
    let world = World::new();
    let engine: Engine<Bytes> =
        Engine::start(world.store.clone(), world.clock.clone(), Settings::default()).await.expect("it starts");
    let transactions = Arc::new(ScriptedTransactions::new(world.store.clone()));
    let kept = Arc::new(parking_lot::Mutex::new(None));
    let keeps = Arc::clone(&kept);
    let work = move |attempt: Attempt| {
        *keeps.lock() = Some(attempt);
        async { Ok::<_, io::Error>("booked") }
    };
    let job = Job::new("book", "acc-1", "m-1").expect("a job").within(transactions);
    assert_eq!(engine.once(job, work).await, Once::NothingDone);
}
