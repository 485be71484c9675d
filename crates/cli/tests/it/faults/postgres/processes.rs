//! Gateways that are killed and paused while another one shares their server (E1–E4, E7, E10). Kills at each step of an
//! execution are in `kills`.

use super::load::Load;
use super::site;
use crate::faults::history::{SCOPE, assert_caught};
use crate::faults::pauses::{Broken, called_unknown_at};

/// Kills, and pauses, of a scenario.
const TIMES: u32 = 6;

/// Executions before each.
const BETWEEN: u32 = 30;

#[tokio::test]
async fn gateways_killed_in_turn_under_load_execute_nothing_twice() {
    let site = site().await;
    let plan = site.gateway();
    let mut gateways = [plan.start().await, plan.start().await];
    let fronts = gateways.each_ref().map(|gateway| gateway.front);
    let load = Load::default();
    let killing = async {
        for number in 0..TIMES {
            site.upstream.arrived(site.upstream.total() + BETWEEN).await;
            let victim = &mut gateways[number as usize % 2];
            victim.process.kill9().await.expect("the gateway lives until it is killed");
            *victim = plan.start_again(victim).await;
        }
    };
    let ((), keys) = load.during(&fronts, killing).await;
    load.retry(&gateways.each_ref(), &keys).await.expect("every answer becomes final");
    let tally = load.check(&site).expect("nothing is wrong");
    eprintln!("{TIMES} kills: {tally}");
    assert_eq!(tally.completed + tally.unknown, tally.keys, "{tally:?}");
}

/// Each is paused until its rival sees that its claims have lapsed, while the upstream works for it and the load goes on.
#[tokio::test]
async fn gateways_paused_past_their_lease_lose_no_outcome() {
    let site = site().await;
    // No answer goes out before it is recorded.
    let plan = site.gateway().set("record_timeout", "1m");
    let (mut one, mut two) = (plan.start().await, plan.start().await);
    let fronts = [one.front, two.front];
    let load = Load::default();
    let pausing = async {
        let mut held = Vec::new();
        for number in 0..TIMES {
            let (owner, rival) = if number % 2 == 0 { (&mut one, &two) } else { (&mut two, &one) };
            let key = format!("held-{number}");
            let (front, script) = (owner.front, [("x-test-gate", key.as_str())]);
            let paused = async {
                while site.upstream.executions(SCOPE, &key) == 0 {
                    site.upstream.arrived(site.upstream.total() + 1).await;
                }
                owner.process.stop().expect("the owner lives");
                let answer = load.history.send(rival.front, &key, &[]).await.expect("the rival answers");
                assert_eq!(answer.problem(), Some("outcome-unknown"), "{answer:?}");
                site.upstream.open(&key);
                owner.process.cont().expect("the owner is only paused");
            };
            let (answer, ()) = tokio::join!(load.history.send(front, &key, &script), paused);
            assert_eq!(answer.map(|answer| answer.status.as_u16()), Some(201), "{key}");
            held.push(key);
        }
        held
    };
    let (held, mut keys) = load.during(&fronts, pausing).await;
    keys.extend(held);
    load.retry(&[&one, &two], &keys).await.expect("every answer becomes final");
    let tally = load.check(&site).expect("nothing is wrong");
    eprintln!("{TIMES} pauses: {tally}");
    assert!(tally.called_unknown >= TIMES as usize, "{tally:?}");
    tally.all_completed().expect("no outcome is lost");
}

#[tokio::test]
async fn a_gateway_that_wakes_at_any_step_is_heard_on_a_server() {
    for place in ["before_send@2", "after_check@2", "before_record"] {
        let judged = called_unknown_at(site().await, place, Broken::default()).await;
        let tally = judged.unwrap_or_else(|why| panic!("{place}: {why}"));
        assert_eq!((tally.executions, tally.completed, tally.called_unknown), (1, 1, 1), "{place}");
    }
}

#[tokio::test]
async fn control_a_rival_that_executes_a_lapsed_claim_on_a_server_is_caught() {
    let broken = Broken { rival: "execute_lapsed", ..Broken::default() };
    assert_caught(called_unknown_at(site().await, "after_check@2", broken).await, "executed 2 times");
}
