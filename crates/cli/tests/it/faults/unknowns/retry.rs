//! `on_unknown = "retry"` before an upstream that is idempotent itself.

use futures_util::future::join_all;

use super::{KEY, Loop};
use crate::faults::history::{History, SCOPE, Tally, assert_caught};
use crate::faults::site::{Gateway, Plan, Site};

/// Where a gateway dies: before and after each step of an execution.
const PLACES: [&str; 7] =
    ["before_claim", "after_claim", "before_send", "before_send@2", "after_check@2", "before_record", "before_reply"];

/// Gateways that die in a row.
const KILLS: usize = 3;

fn plan(site: &Site, broken: &str) -> Plan {
    site.gateway().set("on_unknown", "retry").breaking(broken)
}

/// One gateway after the other dies at the same place.
async fn killed_again_and_again(
    site: Site,
    place: &str,
    kills: usize,
    broken: &str,
) -> (Loop, Result<Tally, String>, u64) {
    let most = u32::try_from(kills + 1).expect("small");
    let story = Loop::new(site, most);
    let plan = plan(&story.site, broken);
    story.kills(&plan, &vec![place; kills]).await;
    let (judged, records) = story.end(&plan).await;
    let attempts = records.0.get(KEY).map_or(0, |row| row.attempts);
    (story, judged, attempts)
}

#[tokio::test]
async fn whatever_kills_it_the_operation_completes_with_one_effect() {
    let stories = PLACES.map(|place| async move {
        let (story, judged, attempts) = killed_again_and_again(Site::idempotent().await, place, KILLS, "").await;
        let tally = judged.and_then(Tally::all_completed).unwrap_or_else(|why| panic!("{place}: {why}"));
        eprintln!("{KILLS} kills at {place} under retry: {tally}, {attempts} attempts");
        (place, tally.executions, story.site.upstream.effects(SCOPE, KEY), attempts)
    });
    for (place, executions, effects, attempts) in join_all(stories).await {
        let expected = match place {
            "before_claim" | "before_reply" => (1, 1, 1),
            "before_record" => (4, 1, 4),
            _ => (1, 1, 4),
        };
        assert_eq!((executions, effects, attempts), expected, "{place}");
    }
}

#[tokio::test]
async fn control_an_upstream_that_is_not_idempotent_is_caught_with_as_many_effects() {
    let (_, judged, _) = killed_again_and_again(Site::new().await, "before_record", 1, "").await;
    assert_caught(judged, "took effect 2 times");
}

/// Every gateway dies when it has executed, and more of them than there are attempts.
async fn killed_past_max_attempts(broken: &str) -> (Result<Tally, String>, u64) {
    let story = Loop::new(Site::idempotent().await, 2);
    let plan = plan(&story.site, broken).set("max_attempts", "2");
    story.kills(&plan, &["before_record"; 4]).await;
    let (judged, records) = story.end(&plan).await;
    (judged, records.0[KEY].attempts)
}

#[tokio::test]
async fn once_the_attempts_are_used_up_the_outcome_is_held() {
    let (judged, attempts) = killed_past_max_attempts("").await;
    let tally = judged.expect("nothing is wrong");
    assert_eq!((tally.executions, tally.unknown, attempts), (2, 1, 2), "{tally:?}");
}

#[tokio::test]
async fn control_a_gateway_that_goes_on_executing_is_caught() {
    assert_caught(killed_past_max_attempts("endless_attempts").await.0, "executed 3 times");
}

/// What a paused owner and its rival stand on, and the rival.
struct Paused {
    site: Site,
    history: History,
    rival: Gateway,
}

impl Paused {
    /// The stage, and an owner that pauses itself at a place; nowhere if that is empty.
    async fn new(site: Site, executions: u32, place: &str, broken: &str) -> (Self, Gateway) {
        let mut owner = plan(&site, broken);
        if !place.is_empty() {
            owner = owner.fault(&format!("{place}=stop"));
        }
        let (owner, rival) = (owner.start().await, plan(&site, "").start().await);
        (Self { site, history: History::allowing(executions), rival }, owner)
    }

    /// The rival is asked until it has taken over and executed.
    async fn take_over(&self) {
        let told = self.history.send(self.rival.front, KEY, &[]).await.expect("an answer");
        assert_eq!((told.problem(), told.header("retry-after")), (Some("outcome-unknown"), Some("2")), "{told:?}");
        let executed = self.history.send(self.rival.front, KEY, &[]).await.expect("an answer");
        assert_eq!((executed.status.as_u16(), executed.is_replay()), (201, false), "{executed:?}");
    }

    async fn end(self, owner: &Gateway) -> Result<Tally, String> {
        for gateway in [owner, &self.rival] {
            self.history.send(gateway.front, KEY, &[]).await;
        }
        self.history.check(&self.site.upstream, &self.rival.records().await)
    }
}

/// Paused before its first byte; the rival executes meanwhile.
async fn taken_over_before_sending(place: &str, broken: &str) -> Result<Tally, String> {
    let (stage, mut owner) = Paused::new(Site::new().await, 1, place, broken).await;
    let front = owner.front;
    let meanwhile = async {
        owner.stopped().await;
        stage.take_over().await;
        owner.process.cont().expect("it is only paused");
    };
    let (answer, ()) = tokio::join!(stage.history.send(front, KEY, &[]), meanwhile);
    let answer = answer.expect("the owner answers in the end");
    assert!(!broken.is_empty() || answer.is_replay(), "{answer:?}");
    stage.end(&owner).await
}

#[tokio::test]
async fn a_gateway_that_wakes_after_it_was_taken_over_sends_nothing() {
    for place in ["before_send", "before_send@2"] {
        let tally = taken_over_before_sending(place, "").await.expect("nothing is wrong");
        eprintln!("paused at {place} and taken over: {tally}");
        assert_eq!((tally.executions, tally.completed), (1, 1), "{place}");
    }
}

#[tokio::test]
async fn control_a_gateway_that_wakes_and_does_not_check_is_caught() {
    assert_caught(taken_over_before_sending("before_send@2", "send_after_lease").await, "took effect 2 times");
}

/// Paused between the check and the first byte: the window that remains (E10).
async fn taken_over_in_the_window(site: Site) -> Result<Tally, String> {
    let (stage, mut owner) = Paused::new(site, 2, "after_check@2", "").await;
    let front = owner.front;
    let meanwhile = async {
        owner.stopped().await;
        stage.take_over().await;
        owner.process.cont().expect("it is only paused");
    };
    let (answer, ()) = tokio::join!(stage.history.send(front, KEY, &[]), meanwhile);
    assert!(answer.is_some_and(|answer| answer.is_replay()), "its late outcome is refused");
    stage.end(&owner).await
}

#[tokio::test]
async fn in_the_window_that_remains_the_upstream_makes_one_effect_of_both() {
    let tally = taken_over_in_the_window(Site::idempotent().await).await.expect("nothing is wrong");
    assert_eq!((tally.executions, tally.completed), (2, 1));
}

#[tokio::test]
async fn control_in_the_window_that_remains_an_upstream_that_is_not_idempotent_has_two_effects() {
    assert_caught(taken_over_in_the_window(Site::new().await).await, "took effect 2 times");
}

#[tokio::test]
async fn an_answer_that_came_after_the_takeover_is_given_to_nobody() {
    let (stage, mut owner) = Paused::new(Site::idempotent().await, 2, "", "").await;
    let front = owner.front;
    let meanwhile = async {
        stage.site.upstream.took_effect(1).await;
        owner.process.stop().expect("it lives");
        stage.take_over().await;
        stage.site.upstream.open("slow");
        owner.process.cont().expect("it is only paused");
    };
    let (answer, ()) = tokio::join!(stage.history.send(front, KEY, &[("x-test-gate", "slow")]), meanwhile);
    assert!(answer.is_some_and(|answer| answer.is_replay()), "its late outcome is refused");
    let tally = stage.end(&owner).await.expect("nothing is wrong");
    assert_eq!((tally.executions, tally.completed), (2, 1));
}
