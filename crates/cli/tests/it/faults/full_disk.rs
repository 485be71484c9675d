//! The store's disk is full: when an operation is claimed (D1), and when its outcome is recorded (D3).
//!
//! The kernel lets the gateway's files grow no further (RLIMIT_FSIZE), which the store meets as a write that fails, at a
//! moment and for as long as the test says, without a file system of its own.

use oncekey_testkit::Client;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::history::{History, Tally, assert_caught, request};
use super::site::{Gateway, Site};

const KEY: &str = "full";

impl Gateway {
    fn may_write(&self, bytes: Option<u64>) {
        let pid = Pid::from_raw(self.process.id());
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(pid, Resource::Fsize, limit).expect("the limits of a child may be set");
    }

    fn fill_disk(&self) {
        self.may_write(Some(0));
    }

    fn make_room(&self) {
        self.may_write(None);
    }
}

/// A gateway that gets an error for a write past its limit, and not the signal that ends a process.
async fn gateway(site: &Site, broken: &str) -> Gateway {
    let plan = site.gateway().set("store_timeout", "500ms").set("record_timeout", "300ms").set("wait", "5s");
    plan.breaking(broken).after("trap '' XFSZ").start().await
}

/// Full when the operation is claimed; room for the retries.
async fn full_at_claim(broken: &str) -> Result<Tally, String> {
    let (site, history) = (Site::new().await, History::default());
    let gateway = gateway(&site, broken).await;
    gateway.fill_disk();
    let refused = history.send(gateway.front, KEY, &[]).await.expect("an answer");
    let executed = site.upstream.total();
    gateway.make_room();
    for _ in 0..2 {
        history.send(gateway.front, KEY, &[]).await;
    }
    let tally = history.check(&site.upstream, &gateway.records().await)?;
    if executed > 0 {
        return Err("executed without a claim".to_owned());
    }
    assert_eq!((refused.status.as_u16(), refused.problem()), (503, Some("store-unavailable")), "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    Ok(tally)
}

#[tokio::test]
async fn nothing_is_executed_while_no_claim_can_be_stored() {
    let tally = full_at_claim("").await.expect("nothing is wrong");
    eprintln!("disk full at the claim: {tally}");
    assert_eq!((tally.executions, tally.completed, tally.unavailable), (1, 1, 1));
}

#[tokio::test]
async fn control_an_execution_without_a_claim_is_caught() {
    assert_caught(full_at_claim("execute_unclaimed").await, "executed ");
}

/// Full when the upstream answers, until the client has its answer and a rival takes the owner for gone: its heartbeats
/// find no room either.
async fn full_at_outcome(broken: &str, rival_broken: &str) -> Result<Tally, String> {
    let (site, history) = (Site::new().await, History::default());
    let owner = gateway(&site, broken).await;
    let rival = site.gateway().breaking(rival_broken).start().await;
    let full = async {
        site.upstream.arrived(1).await;
        owner.fill_disk();
        site.upstream.open("slow");
    };
    let (first, ()) = tokio::join!(history.send(owner.front, KEY, &[("x-test-gate", "slow")]), full);
    let first = first.expect("the upstream's answer is given all the same");
    assert_eq!(first.status, 201, "{first:?}");
    // Judged without this one: that the rival doesn't know is the price of a full disk.
    let client = Client::new(rival.front);
    let unknown = client.call(&request(KEY, &[])).await.expect("the rival answers");
    if rival_broken.is_empty() {
        assert_eq!(unknown.problem(), Some("outcome-unknown"), "{unknown:?}");
    }
    rival.sweep().await;
    let retry = history.send(owner.front, KEY, &[]);
    tokio::join!(retry, async { owner.make_room() });
    for front in [owner.front, rival.front, owner.front] {
        history.send(front, KEY, &[]).await;
    }
    history.check(&site.upstream, &rival.records().await)
}

#[tokio::test]
async fn an_outcome_that_finds_no_room_is_given_and_recorded_once_there_is() {
    let tally = full_at_outcome("", "").await.expect("nothing is wrong");
    eprintln!("disk full at the outcome: {tally}");
    assert_eq!((tally.executions, tally.completed, tally.replays), (1, 1, 4));
}

#[tokio::test]
async fn control_an_outcome_that_is_given_up_is_caught() {
    assert_caught(full_at_outcome("forget_outcomes", "").await, "given, and then called unknown");
}

#[tokio::test]
async fn control_a_rival_that_executes_what_could_not_be_recorded_is_caught() {
    assert_caught(full_at_outcome("", "execute_lapsed").await, "executed 2 times");
}
