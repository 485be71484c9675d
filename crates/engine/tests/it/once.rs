//! Jobs: run once, answered from the record, held when nobody can tell.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use oncekey_core::policy::{Policy, Recording};
use oncekey_core::{KeyError, Namespace, ScopeError, Standing};
use oncekey_engine::{Engine, InvalidJob, Job, NotExecuted, Once, Settings};
use oncekey_store::Store;

use crate::world::World;

async fn engine(world: &World) -> Engine<Bytes> {
    Engine::start(world.store.clone(), world.clock.clone(), Settings::default()).await.expect("it starts")
}

fn invoice(key: &str) -> Job {
    Job::new("send-invoice", "acc-1", key).expect("a job").with_input("12 EUR")
}

fn done(result: &'static str, replayed: bool) -> Once {
    Once::Done { result: Some(Bytes::from_static(result.as_bytes())), replayed }
}

/// Runs a job whose result says how often any ran.
async fn run(engine: &Engine<Bytes>, job: Job, runs: &Arc<AtomicU32>) -> Once {
    let runs = Arc::clone(runs);
    let work = move |_| {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok::<_, io::Error>(format!("run {run}")) }
    };
    engine.once(job, work).await
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_once_on_any_node() {
    let (world, runs) = (World::new(), Arc::default());
    let (one, other) = (engine(&world).await, engine(&world).await);
    assert_eq!(run(&one, invoice("m-1"), &runs).await, done("run 1", false));
    assert_eq!(run(&one, invoice("m-1"), &runs).await, done("run 1", true));
    assert_eq!(run(&other, invoice("m-1"), &runs).await, done("run 1", true));
    assert_eq!(run(&other, invoice("m-2"), &runs).await, done("run 2", false));
    let all = futures_util::future::join_all((0..20).map(|_| run(&one, invoice("m-3"), &runs))).await;
    assert_eq!(all.iter().filter(|once| **once == done("run 3", false)).count(), 1);
    assert_eq!(all.iter().filter(|once| **once == done("run 3", true)).count(), 19);
}

#[tokio::test(start_paused = true)]
async fn name_scope_namespace_and_key_make_the_job_and_input_may_not_change() {
    let (world, runs) = (World::new(), Arc::default());
    let engine = engine(&world).await;
    assert_eq!(run(&engine, invoice("m"), &runs).await, done("run 1", false));
    assert_eq!(run(&engine, invoice("m").with_input("13 EUR"), &runs).await, Once::Mismatch);
    let others = [
        Job::new("file-invoice", "acc-1", "m").unwrap(),
        Job::new("send-invoice", "acc-2", "m").unwrap(),
        invoice("m").in_namespace("staging".parse::<Namespace>().unwrap()),
    ];
    for (job, result) in others.into_iter().zip(["run 2", "run 3", "run 4"]) {
        assert_eq!(run(&engine, job, &runs).await, done(result, false));
    }
    assert_eq!(Job::new("a", "", "k").unwrap_err(), InvalidJob::Scope(ScopeError::Empty));
    assert_eq!(Job::new("a\n", "s", "k").unwrap_err(), InvalidJob::Scope(ScopeError::Character));
    assert!(matches!(Job::new("a", "s", "k k").unwrap_err(), InvalidJob::Key(KeyError::Character)));
}

#[tokio::test(start_paused = true)]
async fn an_error_leaves_it_unknown_unless_it_proves_that_nothing_was_done() {
    let (world, runs) = (World::new(), Arc::default());
    let engine = engine(&world).await;
    let breaks = |_| async { Err::<Bytes, _>(io::Error::other("connection reset")) };
    assert_eq!(engine.once(invoice("m"), breaks).await, Once::Unknown);
    assert_eq!(run(&engine, invoice("m"), &runs).await, Once::Unknown, "it may have taken effect");

    let proves = |_| async { Err::<Bytes, _>(NotExecuted::because("no route to the mail server")) };
    assert_eq!(engine.once(invoice("n"), proves).await, Once::NothingDone);
    assert_eq!(run(&engine, invoice("n"), &runs).await, done("run 1", false));
    let panics = |_| async { if true { panic!("as tests do") } else { Ok::<Bytes, io::Error>(Bytes::new()) } };
    assert_eq!(engine.once(invoice("p"), panics).await, Once::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_result_over_the_bound_is_returned_once_and_not_kept() {
    let (world, runs) = (World::new(), Arc::default());
    let engine = engine(&world).await;
    let recording = Recording { max_response: 4, ..Recording::default() };
    let policy = Arc::new(Policy { route: "send-invoice".to_owned(), recording, ..Policy::default() });
    let job = invoice("m").under(policy);
    assert_eq!(run(&engine, job.clone(), &runs).await, done("run 1", false));
    assert_eq!(run(&engine, job, &runs).await, Once::Done { result: None, replayed: true });
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_ends_nothing_and_operators_see_the_job() {
    let (world, runs) = (World::new(), Arc::<AtomicU32>::default());
    let engine = engine(&world).await;
    let gate = Arc::new(tokio::sync::Notify::new());
    let opens = Arc::clone(&gate);
    let work = move |attempt: oncekey_engine::Attempt| {
        let gate = Arc::clone(&opens);
        async move {
            gate.notified().await;
            Ok::<_, io::Error>(format!("attempt {}", attempt.number))
        }
    };
    let mut caller = Box::pin(engine.once(invoice("m"), work));
    assert!(futures_util::poll!(&mut caller).is_pending());
    crate::world::settle().await;
    drop(caller);
    let record = world.store.read(invoice("m").id()).await.unwrap().unwrap().record;
    assert_eq!((&record.origin.route[..], &record.origin.method[..]), ("send-invoice", "JOB"));
    assert_eq!(record.identity.scope.source(), "job:send-invoice");
    gate.notify_one();
    crate::world::settle().await;
    assert_eq!(run(&engine, invoice("m"), &runs).await, done("attempt 1", true));
    let found = world.store.read(invoice("m").id()).await.unwrap().unwrap();
    assert_eq!(oncekey_core::standing(&found.record, found.now, found.owner_alive, true), Standing::Completed);
}
