//! kill -9 at every step of an execution, and at no particular moment. Every key is then retried on a new process until
//! its answer is final (E1–E4, E7).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use oncekey_testkit::CountingUpstream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::history::{History, Tally, assert_caught};
use super::site::{Gateway, Site};

/// Kills at each moment.
const ROUNDS: u64 = 36;

/// Rounds at a time: each waits most of its time for a lease to pass.
const AT_ONCE: usize = 8;

/// Operations of a round; each is asked for twice at the same time.
const KEYS: u64 = 4;

/// Operations of a round that is killed under load.
const KEYS_UNDER_LOAD: u64 = 16;

/// When the gateway is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// At a place in the program.
    At(&'static str),
    /// While the upstream holds requests back.
    Sent,
    /// In the middle of many requests.
    Load,
}

/// What the two gateways of a round break.
#[derive(Clone, Copy, Default)]
struct Broken {
    victim: &'static str,
    successor: &'static str,
}

/// One round: requests, a kill, a new process on the same file, retries until every answer is final, and the verdict.
async fn round(moment: Moment, number: u64, broken: Broken) -> Result<Tally, String> {
    let (site, history) = (Site::new().await, History::default());
    let keys: Vec<String> = (0..if let Moment::Load = moment { KEYS_UNDER_LOAD } else { KEYS })
        .map(|key| format!("{moment:?}-{number}-{key}"))
        .collect();
    let mut victim = site.gateway().breaking(broken.victim);
    if let Moment::At(place) = moment {
        victim = victim.fault(&format!("{place}@{}=kill", 1 + number % KEYS));
    }
    let mut victim = victim.start().await;
    let script: &[_] = match moment {
        Moment::At(_) => &[],
        Moment::Sent => &[("x-test-gate", "shut")],
        Moment::Load => &[("x-test-delay-ms", "3")],
    };
    let front = victim.front;
    let requests = keys.iter().chain(&keys).map(|key| history.send(front, key, script));
    tokio::join!(join_all(requests), kill(&mut victim, &site.upstream, moment, number));

    let successor = site.gateway().breaking(broken.successor).start().await;
    for _ in 0..2 {
        join_all(keys.iter().map(|key| history.send(successor.front, key, &[]))).await;
    }
    history.check(&site.upstream, &successor.records().await)
}

async fn kill(victim: &mut Gateway, upstream: &CountingUpstream, moment: Moment, number: u64) {
    match moment {
        Moment::At(_) => return victim.killed().await,
        Moment::Sent => upstream.arrived(u32::try_from(1 + number % KEYS).expect("small")).await,
        Moment::Load => {
            upstream.arrived(u32::try_from(1 + number % KEYS_UNDER_LOAD).expect("small")).await;
            // Any moment will do, so a step of its own is laid over the rhythm of the requests.
            tokio::time::sleep(Duration::from_micros(number * 7919 % 4000)).await;
        }
    }
    victim.process.kill9().await.expect("the gateway lives until it is killed");
}

/// Many rounds, several at a time.
async fn rounds(moment: Moment) -> Tally {
    let (mut all, slots) = (JoinSet::new(), Arc::new(Semaphore::new(AT_ONCE)));
    for number in 0..ROUNDS {
        let slots = Arc::clone(&slots);
        all.spawn(async move {
            let _slot = slots.acquire_owned().await.expect("never closed");
            round(moment, number, Broken::default()).await.unwrap_or_else(|why| panic!("round {number}: {why}"))
        });
    }
    let mut sum = Tally::default();
    while let Some(tally) = all.join_next().await {
        sum.add(&tally.expect("no round fails"));
    }
    eprintln!("{ROUNDS} kills, {moment:?}: {sum}");
    assert_eq!(sum.completed + sum.unknown, sum.keys, "{sum:?}");
    assert_eq!((sum.unavailable, sum.not_executed), (0, 0), "{sum:?}");
    sum
}

/// How many rounds were killed at the first of their requests.
const FIRSTS: usize = (ROUNDS / KEYS) as usize;

#[tokio::test]
async fn a_gateway_killed_before_the_claim_has_executed_nothing_of_it() {
    let sum = rounds(Moment::At("before_claim")).await;
    // Whoever arrived later found other keys on their way; those that the first kill hit were free for the retry.
    assert!(sum.completed >= FIRSTS, "{sum:?}");
}

#[tokio::test]
async fn a_claim_whose_owner_was_killed_is_unknown_and_never_executed_again() {
    let sum = rounds(Moment::At("after_claim")).await;
    assert!(sum.unknown >= ROUNDS as usize, "the killed claim itself is unknown: {sum:?}");
}

#[tokio::test]
async fn a_request_that_was_sent_when_its_owner_was_killed_is_unknown_and_never_sent_again() {
    let sum = rounds(Moment::Sent).await;
    assert!(sum.unknown >= ROUNDS as usize, "{sum:?}");
}

#[tokio::test]
async fn an_answer_that_came_but_was_not_recorded_is_unknown_and_was_given_to_nobody() {
    let sum = rounds(Moment::At("before_record")).await;
    assert!(sum.unknown >= ROUNDS as usize, "{sum:?}");
}

#[tokio::test]
async fn an_answer_that_was_recorded_but_not_given_is_replayed() {
    let sum = rounds(Moment::At("before_reply")).await;
    assert!(sum.completed >= ROUNDS as usize, "the killed one was recorded: {sum:?}");
    assert!(sum.unanswered > 0, "{sum:?}");
}

#[tokio::test]
async fn a_gateway_killed_under_load_executes_nothing_twice() {
    rounds(Moment::Load).await;
}

#[tokio::test]
async fn control_a_lapsed_claim_that_is_executed_again_is_caught() {
    let broken = Broken { successor: "execute_lapsed", ..Broken::default() };
    assert_caught(round(Moment::Sent, 0, broken).await, "executed 2 times");
}

/// A kill while an outcome waits to be recorded, and its client for the answer.
async fn killed_before_recording(broken: &'static str) -> Result<Tally, String> {
    let (site, history) = (Site::new().await, History::default());
    let mut victim = site.gateway().breaking(broken).fault("before_record=hang").start().await;
    let front = victim.front;
    let asked = history.send(front, "early", &[]);
    let kill = async {
        site.upstream.received(1).await;
        // Another operation goes all the way meanwhile, so an answer to the first had its chance.
        history.send(front, "later", &[]).await;
        history.send(front, "later", &[]).await;
        victim.process.kill9().await.expect("the gateway lives until it is killed");
    };
    if broken.is_empty() {
        tokio::join!(asked, kill);
    } else {
        asked.await;
        kill.await;
    }
    let successor = site.gateway().start().await;
    for key in ["early", "early", "later"] {
        history.send(successor.front, key, &[]).await;
    }
    history.check(&site.upstream, &successor.records().await)
}

#[tokio::test]
async fn an_answer_waits_for_its_recording() {
    let tally = killed_before_recording("").await.expect("nothing is wrong");
    assert_eq!((tally.unknown, tally.completed, tally.unanswered), (1, 1, 1), "{tally:?}");
}

#[tokio::test]
async fn control_an_answer_that_does_not_wait_for_its_recording_is_caught() {
    assert_caught(killed_before_recording("answer_before_record").await, "given, and then called unknown");
}
