//! Connections cut right before and right after the commit of claims, outcomes and sweeps, under load (D2, D3, D5). On more
//! than one thread, so that the cutter goes on while `records list` is waited for.

use oncekey_testkit::{CommitCutter, CutAt};

use super::load::Load;
use crate::faults::history::{Tally, assert_caught};
use crate::faults::site::Site;
use crate::server::{SERVER, database};

/// What tells the statements apart.
const CLAIM: &str = "ON CONFLICT (id) DO NOTHING";
const OUTCOME: &str = "SET status = o.state";
const MARK: &str = "FROM lapsed";
const DELETE: &str = "USING expired";

/// Cuts of a scenario.
const CUTS: u32 = 24;

/// Cuts that a gateway that breaks a rule must not get away with.
const CUTS_TO_BE_CAUGHT: u32 = 8;

/// A load on two gateways, of whose statements of these kinds every third is cut.
async fn cut(statements: &[&'static str], at: CutAt, broken: &str) -> Result<Tally, String> {
    let cutter = CommitCutter::start(SERVER.address()).await;
    let site = Site::on_store(cutter.url(&database().await)).await;
    let mut plan = site.gateway().set("lease", "30s").set("sweep_every", "100ms").breaking(broken);
    let mut cuts = CUTS;
    if !broken.is_empty() {
        // What is left behind lapses soon.
        plan = plan.set("upstream_timeout", "2s").set("wait", "1s");
        cuts = CUTS_TO_BE_CAUGHT;
    }
    // One after the other: they share their address space, and the cutter is quiet as yet.
    let (one, two) = (plan.start().await, plan.start().await);
    for statement in statements {
        cutter.cut_every(3, statement, at);
    }
    let load = Load::default();
    let ((), keys) = load.during(&[one.front, two.front], cutter.until_cuts(cuts)).await;
    cutter.heal();
    let retried = load.retry(&[&one, &two], &keys).await;
    // What the judge finds says more than an answer that is missing.
    let tally = load.check(&site)?;
    retried?;
    eprintln!("{statements:?}, {} cuts {at:?}: {tally}", cutter.cuts());
    tally.all_completed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_are_cut_are_settled_and_executed_once() {
    for at in [CutAt::BeforeCommit, CutAt::AfterCommit] {
        let tally = cut(&[CLAIM], at, "").await.expect("nothing is wrong");
        assert_eq!(tally.executions as usize, tally.keys, "{at:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_that_are_cut_are_recorded_all_the_same() {
    for at in [CutAt::BeforeCommit, CutAt::AfterCommit] {
        let tally = cut(&[OUTCOME], at, "").await.expect("nothing is wrong");
        assert_eq!(tally.executions as usize, tally.keys, "{at:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeps_that_are_cut_cost_nothing() {
    for at in [CutAt::BeforeCommit, CutAt::AfterCommit] {
        let tally = cut(&[MARK, DELETE], at, "").await.expect("nothing is wrong");
        assert_eq!(tally.executions as usize, tally.keys, "{at:?}");
    }
}

/// What a sweep does that takes what it must not is seen by the judge, whoever makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_a_sweep_that_takes_what_has_not_expired_is_caught() {
    let database = database().await;
    let site = Site::on_store(SERVER.url(&database)).await;
    let plan = site.gateway().set("lease", "30s").set("cache_for", "0s");
    let (one, two) = (plan.start().await, plan.start().await);
    let load = Load::default();
    let sweeping = async {
        site.upstream.arrived(40).await;
        SERVER.execute(&database, "DELETE FROM idempotency_keys WHERE status = 'completed'").await.expect("deleted");
    };
    let ((), keys) = load.during(&[one.front, two.front], sweeping).await;
    load.retry(&[&one, &two], &keys).await.expect("every answer becomes final");
    assert_caught(load.check(&site), "executed 2 times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_a_claim_that_counts_as_granted_when_its_acknowledgement_is_lost_is_caught() {
    assert_caught(cut(&[CLAIM], CutAt::BeforeCommit, "grant_lost_claims").await, "executed 2 times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_a_claim_that_is_asked_for_again_with_another_token_is_caught() {
    assert_caught(cut(&[CLAIM], CutAt::AfterCommit, "another_token").await, "some did not complete");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_an_outcome_that_is_given_up_when_its_acknowledgement_is_lost_is_caught() {
    assert_caught(cut(&[OUTCOME], CutAt::BeforeCommit, "forget_outcomes").await, "given, and then called unknown");
}
