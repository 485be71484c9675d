//! `on_unknown = "probe"`: a retry asks the upstream about an unknown outcome (E7).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use oncekey_core::policy::{OnUnknown, Policy, Verdict};
use oncekey_core::response::RecordedBody;
use oncekey_core::{RecordedResponse, Standing, State};
use oncekey_engine::{Call, Engine, Probe, Probed};
use oncekey_store_test::{Fault, Gate, Op};
use parking_lot::Mutex;

use crate::upstream::{Run, Upstream};
use crate::world::{World, count, said, say, settings, settle, spawn};

const SETTLE: Duration = Duration::from_mins(10);
const PAST_THE_LEASE: Duration = Duration::from_secs(31);

/// What answers the probes of a test: in the order given, each at its gate, and after that with 404.
#[derive(Default)]
struct Oracle {
    asked: AtomicU32,
    next: Mutex<VecDeque<(Gate, Probed)>>,
}

impl Oracle {
    fn new(answers: impl IntoIterator<Item = Probed>) -> Arc<Self> {
        let oracle = Arc::new(Self::default());
        for answer in answers {
            oracle.held(answer).open();
        }
        oracle
    }

    fn held(&self, answer: Probed) -> Gate {
        let gate = Gate::default();
        self.next.lock().push_back((gate.clone(), answer));
        gate
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    fn probe(self: &Arc<Self>) -> Probe {
        let oracle = Arc::clone(self);
        Probe::new(move |identity| {
            assert_eq!(identity.key.as_str(), "k");
            oracle.asked.fetch_add(1, Ordering::SeqCst);
            let next = oracle.next.lock().pop_front();
            Box::pin(async move {
                let Some((gate, answer)) = next else { return Probed::Absent };
                gate.pass().await;
                answer
            })
        })
    }
}

fn found(body: &'static str) -> Probed {
    let body = RecordedBody::Stored(body.into());
    Probed::Completed(Arc::new(RecordedResponse::of(
        StatusCode::OK,
        &HeaderMap::new(),
        body,
        &Policy::default().recording,
    )))
}

fn unclear() -> Probed {
    Probed::Unclear("it was answered with 500".to_owned())
}

/// A node, an upstream, and a record whose only execution was lost.
struct Lost {
    world: World,
    upstream: Arc<Upstream>,
    engine: Engine<u32>,
}

impl Lost {
    async fn new() -> Self {
        let (world, upstream) = (World::new(), Upstream::new());
        let engine = world.node().await;
        upstream.next(Run::Lose);
        let lost = Self { world, upstream, engine };
        assert_eq!(lost.retry(&Oracle::new([])).await, "unknown for now");
        lost
    }

    fn call(&self, oracle: &Arc<Oracle>) -> Call<u32> {
        self.call_under(oracle, Policy::default())
    }

    fn call_under(&self, oracle: &Arc<Oracle>, policy: Policy) -> Call<u32> {
        let policy = Policy { on_unknown: OnUnknown::Probe { settle: SETTLE }, ..policy };
        Call { probe: Some(oracle.probe()), ..self.upstream.call_under("k", policy) }
    }

    async fn retry(&self, oracle: &Arc<Oracle>) -> String {
        say(&self.engine.run(self.call(oracle)).await)
    }
}

#[tokio::test(start_paused = true)]
async fn what_took_effect_is_recorded_and_replayed_and_nobody_asks_again() {
    let lost = Lost::new().await;
    let oracle = Oracle::new([found("it is there")]);
    for _ in 0..3 {
        assert_eq!(lost.retry(&oracle).await, "replay it is there");
    }
    assert_eq!((oracle.asked(), lost.upstream.runs()), (1, 1));
    let record = lost.world.found("k").await.expect("a record").record;
    assert_eq!((record.state, record.attempts, record.response_status), (State::Completed, 1, Some(200)));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_executed_once_that_has_settled_and_not_before() {
    let lost = Lost::new().await;
    let oracle = Oracle::new([]);
    lost.world.clock.advance(SETTLE.saturating_sub(Duration::from_micros(1)));
    assert_eq!(lost.retry(&oracle).await, "unknown for now");
    assert_eq!((oracle.asked(), lost.upstream.runs()), (1, 1));
    lost.world.clock.advance(Duration::from_micros(1));
    assert_eq!(lost.retry(&oracle).await, "first 2");
    assert_eq!(lost.upstream.attempts(), [1, 2]);
    assert_eq!(lost.retry(&oracle).await, "replay run 2");
    assert_eq!(oracle.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn asking_does_not_set_the_time_of_sending_anew() {
    let lost = Lost::new().await;
    let oracle = Oracle::new([]);
    for _ in 0..9 {
        lost.world.clock.advance(SETTLE / 10);
        assert_eq!(lost.retry(&oracle).await, "unknown for now");
    }
    lost.world.clock.advance(SETTLE / 10);
    assert_eq!(lost.retry(&oracle).await, "first 2");
}

#[tokio::test(start_paused = true)]
async fn whether_it_has_settled_is_judged_before_the_question() {
    let lost = Lost::new().await;
    let oracle = Oracle::new([]);
    let gate = oracle.held(Probed::Absent);
    lost.world.clock.advance(SETTLE.saturating_sub(Duration::from_secs(1)));
    let retry = spawn(&lost.engine, lost.call(&oracle));
    gate.reached().await;
    lost.world.clock.advance(Duration::from_secs(2));
    gate.open();
    assert_eq!(said(vec![retry]).await, ["unknown for now"]);
    assert_eq!(lost.upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_tell_is_held_and_asked_about_again() {
    let lost = Lost::new().await;
    let oracle = Oracle::new([unclear(), unclear(), found("it is there")]);
    lost.world.clock.advance(SETTLE);
    for expected in ["unknown for now", "unknown for now", "replay it is there"] {
        assert_eq!(lost.retry(&oracle).await, expected);
    }
    assert_eq!((oracle.asked(), lost.upstream.runs()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn on_a_node_one_asks_at_a_time_and_the_others_get_what_it_heard() {
    let lost = Lost::new().await;
    let oracle = Oracle::new([]);
    let gate = oracle.held(found("it is there"));
    let mut calls = vec![spawn(&lost.engine, lost.call(&oracle))];
    gate.reached().await;
    calls.extend((0..5).map(|_| spawn(&lost.engine, lost.call(&oracle))));
    settle().await;
    // Whose record it is, is known meanwhile (F8).
    let other = Call { probe: Some(oracle.probe()), ..lost.upstream.other_call("k") };
    assert_eq!(say(&lost.engine.run(other).await), "mismatch");
    gate.open();
    assert_eq!(count(&said(calls).await, "replay it is there"), 6);
    assert_eq!((oracle.asked(), lost.upstream.runs()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn another_request_asks_nothing() {
    let lost = Lost::new().await;
    let oracle = Oracle::new([]);
    let other = Call { probe: Some(oracle.probe()), ..lost.upstream.other_call("k") };
    assert_eq!(say(&lost.engine.run(other).await), "mismatch");
    assert_eq!(oracle.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_completed_or_failed_record_asks_nothing() {
    for verdict in [Verdict::Completed, Verdict::Failed] {
        let (world, upstream) = (World::new(), Upstream::new());
        let lost = Lost { engine: world.node().await, world, upstream };
        let oracle = Oracle::new([]);
        lost.upstream.next(Run::Answer(verdict));
        assert_eq!(lost.retry(&oracle).await, "first 1");
        lost.retry(&oracle).await;
        assert_eq!(oracle.asked(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_attempts_are_used_up_only_the_asking_goes_on() {
    let lost = Lost::new().await;
    let oracle = Oracle::new([Probed::Absent, found("it is there")]);
    let used_up = || Policy { max_attempts: 1, ..Policy::default() };
    lost.world.clock.advance(SETTLE);
    let retry = || lost.engine.run(lost.call_under(&oracle, used_up()));
    assert_eq!(say(&retry().await), "unknown for now");
    assert_eq!(say(&retry().await), "replay it is there");
    assert_eq!(lost.upstream.runs(), 1);
}

/// An owner whose heartbeats stop while its run is held; its record counts as unknown.
async fn silent() -> (Lost, Gate, tokio::task::JoinHandle<oncekey_engine::Ended<u32>>) {
    let (world, upstream) = (World::new(), Upstream::new());
    let face = world.second_face();
    let owner = world.node_on(face.clone(), settings()).await;
    let lost = Lost { engine: world.node().await, world, upstream };
    let gate = lost.upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&owner, lost.call(&Oracle::new([])));
    gate.reached().await;
    face.fail_always(Op::Heartbeat, Fault::NotApplied);
    lost.world.clock.advance(PAST_THE_LEASE);
    (lost, gate, first)
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_learns_nothing_takes_nothing_from_the_owner() {
    let (lost, gate, first) = silent().await;
    let oracle = Oracle::new([Probed::Absent, unclear()]);
    for _ in 0..2 {
        assert_eq!(lost.retry(&oracle).await, "unknown for now");
    }
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(lost.retry(&oracle).await, "replay run 1");
}

#[tokio::test(start_paused = true)]
async fn a_late_outcome_that_comes_before_the_probes_stands() {
    let (lost, gate, first) = silent().await;
    let oracle = Oracle::new([]);
    for answer in [found("it is there"), Probed::Absent] {
        let asking = oracle.held(answer);
        let retry = spawn(&lost.engine, lost.call(&oracle));
        if lost.world.stands("k").await == Standing::Completed {
            assert_eq!(said(vec![retry]).await, ["replay run 1"]);
            continue;
        }
        asking.reached().await;
        gate.open();
        settle().await;
        asking.open();
        assert_eq!(said(vec![retry]).await, ["replay run 1"]);
    }
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(lost.upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_outcome_that_comes_before_a_settled_404_is_written_stands() {
    let (lost, gate, first) = silent().await;
    lost.world.clock.advance(SETTLE);
    let oracle = Oracle::new([]);
    let asking = oracle.held(Probed::Absent);
    let retry = spawn(&lost.engine, lost.call(&oracle));
    asking.reached().await;
    gate.open();
    settle().await;
    asking.open();
    assert_eq!(said(vec![first, retry]).await, ["first 1", "replay run 1"]);
    assert_eq!(lost.upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_outcome_that_comes_after_the_probes_is_refused_and_its_client_gets_the_records() {
    let (lost, gate, first) = silent().await;
    assert_eq!(lost.retry(&Oracle::new([found("it is there")])).await, "replay it is there");
    gate.open();
    assert_eq!(said(vec![first]).await, ["waited it is there"]);
}

#[tokio::test(start_paused = true)]
async fn of_two_nodes_that_hear_that_it_is_not_there_one_executes() {
    let lost = Lost::new().await;
    lost.world.clock.advance(SETTLE);
    let oracle = Oracle::new([]);
    let other = lost.world.node().await;
    let gates = [oracle.held(Probed::Absent), oracle.held(Probed::Absent)];
    let calls = vec![spawn(&lost.engine, lost.call(&oracle)), spawn(&other, lost.call(&oracle))];
    for gate in &gates {
        gate.reached().await;
    }
    gates.iter().for_each(Gate::open);
    let mut answers = said(calls).await;
    answers.sort_unstable();
    assert_eq!(answers[0], "first 2");
    assert!(answers[1].ends_with("run 2"), "{answers:?}");
    assert_eq!((oracle.asked(), lost.upstream.attempts()), (2, vec![1, 2]));
}

#[tokio::test(start_paused = true)]
async fn of_two_nodes_that_hear_different_things_the_first_to_write_wins() {
    let lost = Lost::new().await;
    lost.world.clock.advance(SETTLE);
    let other = lost.world.node().await;
    let (here, there) = (Oracle::new([]), Oracle::new([]));
    let (early, late) = (here.held(found("it is there")), there.held(Probed::Absent));
    let calls = [spawn(&lost.engine, lost.call(&here)), spawn(&other, lost.call(&there))];
    early.reached().await;
    late.reached().await;
    early.open();
    settle().await;
    late.open();
    assert_eq!(said(calls.into()).await, ["replay it is there", "replay it is there"]);
    assert_eq!(lost.upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_whose_writing_was_ambiguous_is_written_again_and_stands() {
    for fault in [Fault::ReplyLost, Fault::RequestLost] {
        let lost = Lost::new().await;
        lost.world.store.fail_next(Op::Resolve, fault);
        let oracle = Oracle::new([found("it is there")]);
        assert_eq!(lost.retry(&oracle).await, "replay it is there");
        assert_eq!(lost.retry(&oracle).await, "replay it is there");
        assert_eq!(oracle.asked(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_written_is_given_to_nobody() {
    let lost = Lost::new().await;
    lost.world.store.fail_next(Op::Resolve, Fault::NotApplied);
    let oracle = Oracle::new([found("it is there"), found("it is there")]);
    assert_eq!(lost.retry(&oracle).await, "store unavailable");
    assert_eq!(lost.world.stands("k").await, Standing::Unknown);
    assert_eq!(lost.retry(&oracle).await, "replay it is there");
}

/// By the store's clock there is nothing left to resolve, by this node's there is.
#[tokio::test(start_paused = true)]
async fn a_record_that_has_expired_by_a_clock_that_ran_ahead_is_asked_about_once() {
    let lost = Lost::new().await;
    lost.world.clock.jump(Duration::from_hours(31 * 24));
    let oracle = Oracle::new([found("it is there"), found("it is there")]);
    assert_eq!(lost.retry(&oracle).await, "unknown for now");
    assert_eq!((oracle.asked(), lost.upstream.runs()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_costs_its_caller_the_answer_and_nothing_else() {
    let lost = Lost::new().await;
    let panics = Probe::new(|_| Box::pin(async { panic!("asked to panic") }));
    let call = Call { probe: Some(panics), ..lost.call(&Oracle::new([])) };
    assert_eq!(say(&lost.engine.run(call).await), "unknown for now");
    assert_eq!(lost.retry(&Oracle::new([found("it is there")])).await, "replay it is there");
}

#[tokio::test(start_paused = true)]
async fn a_route_without_a_probe_holds() {
    let lost = Lost::new().await;
    lost.world.clock.advance(SETTLE);
    let call = Call { probe: None, ..lost.call(&Oracle::new([])) };
    assert_eq!(say(&lost.engine.run(call).await), "unknown");
    assert_eq!(lost.upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_node_ends_the_asking() {
    let lost = Lost::new().await;
    let oracle = Oracle::new([]);
    let gate = oracle.held(Probed::Absent);
    let retry = spawn(&lost.engine, lost.call(&oracle));
    gate.reached().await;
    lost.engine.shutdown(Duration::ZERO).await;
    assert_eq!(said(vec![retry]).await, ["unknown for now"]);
}
