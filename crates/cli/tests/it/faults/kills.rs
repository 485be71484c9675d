//! kill -9 at every step of an execution, and at no particular moment. Every key is then retried on a new process until
//! its answer is final (E1–E4, E7).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use oncekey_testkit::Http2Client;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::history::{History, SCOPE, Tally, assert_caught};
use super::site::{Gateway, Records, Site};
use crate::server::SERVER;

/// Kills at each moment.
const ROUNDS: usize = 48;

/// Rounds at a time: each waits most of its time for a lease to pass.
const AT_ONCE: usize = 8;

/// Operations of a round; each is asked for twice at the same time.
const KEYS: usize = 4;

/// Operations of a round that is killed under load.
const KEYS_UNDER_LOAD: usize = 16;

/// When the gateway is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// At a place in the program.
    At(&'static str),
    /// While the upstream holds a request back.
    Sent,
    /// In the middle of many requests.
    Load,
}

impl Moment {
    /// How the operation ends that was at this moment when its owner died, and how often it was executed, once everything
    /// was retried.
    fn leaves(self) -> (&'static str, u32) {
        match self {
            Self::At("before_claim" | "before_reply") | Self::Load => ("completed", 1),
            Self::At("after_claim") => ("unknown", 0),
            Self::At(_) | Self::Sent => ("unknown", 1),
        }
    }
}

/// What the two gateways of a round break.
#[derive(Clone, Copy, Default)]
struct Broken {
    victim: &'static str,
    successor: &'static str,
}

/// A kill in the middle of requests.
struct Round {
    moment: Moment,
    keys: Vec<String>,
    /// Which of the operations, in the order of their arrival, is killed.
    victim: usize,
    /// One operation after the other, so that it is known which one is killed; else all at the same time.
    in_turn: bool,
    /// All requests to the victim are streams of one HTTP/2 connection.
    on_streams: bool,
    site: Site,
    history: History,
}

impl Round {
    fn new(moment: Moment, number: usize, site: Site) -> Self {
        let count = if moment == Moment::Load { KEYS_UNDER_LOAD } else { KEYS };
        Self {
            moment,
            keys: (0..count).map(|key| format!("{number}-{key}")).collect(),
            victim: number / 2 % count,
            in_turn: number % 2 == 1 && moment != Moment::Load,
            on_streams: false,
            site,
            history: History::default(),
        }
    }

    /// Requests, a kill, a new process on the same file, retries until every answer is final, and the verdict.
    async fn run(self, number: usize, broken: Broken) -> Result<Tally, String> {
        let mut plan = self.site.gateway().breaking(broken.victim);
        if let Moment::At(place) = self.moment {
            plan = plan.fault(&format!("{place}@{}=kill", self.victim + 1));
        }
        let mut victim = plan.start().await;
        tokio::join!(self.ask(victim.front), self.kill(&mut victim, number));
        drop(victim);

        let successor = self.site.gateway().breaking(broken.successor).start().await;
        for _ in 0..2 {
            join_all(self.keys.iter().map(|key| self.history.send(successor.front, key, &[]))).await;
        }
        let records = successor.records().await;
        let tally = self.history.check(&self.site.upstream, &records)?;
        if self.in_turn {
            self.check_states(&records)?;
        }
        Ok(tally)
    }

    /// Everything is asked for twice.
    async fn ask(&self, front: SocketAddr) {
        let client = if self.on_streams { Some(Http2Client::connect(front).await.expect("connected")) } else { None };
        let send = async |key, script| match &client {
            Some(client) => self.history.send_on_stream(client, key, script).await,
            None => self.history.send(front, key, script).await,
        };
        let send = &send;
        let twice = |index: usize| {
            let key = &self.keys[index];
            let script: &[_] = match self.moment {
                Moment::Sent if index == self.victim || !self.in_turn => &[("x-test-gate", "shut")],
                Moment::Sent | Moment::At(_) => &[],
                Moment::Load => &[("x-test-delay-ms", "3")],
            };
            async move { tokio::join!(send(key, script), send(key, script)) }
        };
        if self.in_turn {
            for index in 0..self.keys.len() {
                twice(index).await;
            }
        } else {
            join_all((0..self.keys.len()).map(twice)).await;
        }
    }

    async fn kill(&self, victim: &mut Gateway, number: usize) {
        let arrival = u32::try_from(self.victim + 1).expect("small");
        match self.moment {
            Moment::At(_) => return victim.killed().await,
            Moment::Sent => self.site.upstream.arrived(arrival).await,
            Moment::Load => {
                self.site.upstream.arrived(arrival).await;
                // Any moment will do, so a rhythm of its own is laid over that of the requests.
                tokio::time::sleep(Duration::from_micros(number as u64 * 7919 % 4000)).await;
            }
        }
        victim.process.kill9().await.expect("the gateway lives until it is killed");
    }

    /// The state of each key, where it is known which one was killed.
    fn check_states(&self, records: &Records) -> Result<(), String> {
        for (index, key) in self.keys.iter().enumerate() {
            let expected = if index == self.victim { self.moment.leaves() } else { ("completed", 1) };
            let found = (records.state(key), self.site.upstream.executions(SCOPE, key));
            if found != expected {
                return Err(format!("{key}: {found:?} instead of {expected:?}; killed was {}", self.victim));
            }
        }
        Ok(())
    }
}

async fn round(moment: Moment, number: usize, broken: Broken) -> Result<Tally, String> {
    Round::new(moment, number, Site::new().await).run(number, broken).await
}

/// A round with HTTP/2 on both sides.
async fn round_on_streams(moment: Moment, number: usize, broken: Broken) -> Result<Tally, String> {
    let round = Round::new(moment, number, Site::speaking_http2().await);
    Round { on_streams: true, ..round }.run(number, broken).await
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

#[tokio::test]
async fn a_gateway_killed_before_the_claim_leaves_the_operation_to_the_retry() {
    let sum = rounds(Moment::At("before_claim")).await;
    assert!(sum.completed >= ROUNDS, "{sum:?}");
}

#[tokio::test]
async fn a_claim_whose_owner_was_killed_is_unknown_and_never_executed() {
    let sum = rounds(Moment::At("after_claim")).await;
    assert!(sum.unknown >= ROUNDS, "{sum:?}");
}

#[tokio::test]
async fn a_request_that_was_sent_when_its_owner_was_killed_is_unknown_and_never_sent_again() {
    let sum = rounds(Moment::Sent).await;
    assert!(sum.unknown >= ROUNDS, "{sum:?}");
}

#[tokio::test]
async fn an_answer_that_came_but_was_not_recorded_is_unknown_and_was_given_to_nobody() {
    let sum = rounds(Moment::At("before_record")).await;
    assert!(sum.unknown >= ROUNDS, "{sum:?}");
}

#[tokio::test]
async fn an_answer_that_was_recorded_but_not_given_is_replayed() {
    let sum = rounds(Moment::At("before_reply")).await;
    assert!(sum.completed >= ROUNDS && sum.unanswered >= ROUNDS, "{sum:?}");
}

#[tokio::test]
async fn a_gateway_killed_under_load_executes_nothing_twice() {
    rounds(Moment::Load).await;
}

/// Rounds with an upstream that speaks HTTP/2, where what is sent at the same time goes on one connection.
const ROUNDS_ON_STREAMS: usize = 6;

#[tokio::test]
async fn a_gateway_killed_over_http_2_executes_nothing_twice() {
    for moment in [Moment::Sent, Moment::Load, Moment::At("before_record")] {
        for number in 0..ROUNDS_ON_STREAMS {
            let judged = round_on_streams(moment, number, Broken::default()).await;
            judged.unwrap_or_else(|why| panic!("{moment:?}, round {number}: {why}"));
        }
    }
}

#[tokio::test]
async fn control_a_lapsed_claim_that_is_executed_again_over_http_2_is_caught() {
    let broken = Broken { successor: "execute_lapsed", ..Broken::default() };
    assert_caught(round_on_streams(Moment::Sent, 0, broken).await, "executed 2 times");
}

#[tokio::test]
async fn control_a_lapsed_claim_that_is_executed_again_is_caught() {
    let broken = Broken { successor: "execute_lapsed", ..Broken::default() };
    for (moment, number) in [(Moment::Sent, 0), (Moment::Sent, 1), (Moment::At("before_record"), 0), (Moment::Load, 0)]
    {
        assert_caught(round(moment, number, broken).await, "executed 2 times");
    }
}

async fn round_on_a_server(moment: Moment, number: usize, broken: Broken) -> Result<Tally, String> {
    Round::new(moment, number, Site::on_server(SERVER.address()).await).run(number, broken).await
}

/// The same moments on PostgreSQL.
#[tokio::test]
async fn a_gateway_killed_on_postgresql_executes_nothing_twice() {
    let places = ["before_claim", "after_claim", "before_record", "before_reply"];
    for moment in places.map(Moment::At).into_iter().chain([Moment::Sent, Moment::Load]) {
        let rounds = (0..4).map(|number| round_on_a_server(moment, number, Broken::default()));
        for (number, judged) in join_all(rounds).await.into_iter().enumerate() {
            let tally = judged.unwrap_or_else(|why| panic!("{moment:?}, round {number}: {why}"));
            assert_eq!((tally.completed + tally.unknown, tally.unavailable), (tally.keys, 0), "{moment:?}: {tally:?}");
        }
    }
}

#[tokio::test]
async fn control_a_lapsed_claim_that_is_executed_again_on_postgresql_is_caught() {
    let broken = Broken { successor: "execute_lapsed", ..Broken::default() };
    assert_caught(round_on_a_server(Moment::Sent, 0, broken).await, "executed 2 times");
}

/// The owner is killed while the upstream works and a client of another gateway waits for the same.
async fn killed_while_a_rival_waits(broken: &str) -> Result<Tally, String> {
    let (site, history) = (Site::new().await, History::default());
    let mut owner = site.gateway().start().await;
    let rival = site.gateway().breaking(broken).start().await;
    let (key, front) = ("waited-for", owner.front);
    let killed = async {
        site.upstream.arrived(1).await;
        let (waiter, ()) = tokio::join!(history.send(rival.front, key, &[]), async {
            // Another operation on the rival goes all the way after the waiter came.
            history.send(rival.front, "other", &[]).await;
            owner.process.kill9().await.expect("the owner lives until it is killed");
        });
        waiter
    };
    tokio::join!(history.send(front, key, &[("x-test-gate", "shut")]), killed);
    for key in [key, "other"] {
        history.send(rival.front, key, &[]).await;
    }
    history.check(&site.upstream, &rival.records().await)
}

#[tokio::test]
async fn who_waits_on_another_gateway_is_told_when_the_owner_was_killed() {
    let tally = killed_while_a_rival_waits("").await.expect("nothing is wrong");
    eprintln!("killed while a rival's client waits: {tally}");
    assert_eq!((tally.executions, tally.unknown, tally.called_unknown), (2, 1, 2), "{tally:?}");
}

#[tokio::test]
async fn control_a_rival_that_executes_what_a_killed_gateway_has_sent_is_caught() {
    assert_caught(killed_while_a_rival_waits("execute_lapsed").await, "executed 2 times");
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
