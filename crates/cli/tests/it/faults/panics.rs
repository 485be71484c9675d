//! A panic in an execution: its record says at once what is known of it, and the process lives on (E4).

use super::history::{History, Tally, assert_caught};
use super::site::Site;

const KEY: &str = "panicked";

/// A panic at a place, then retries and another operation on the same process.
async fn panic_at(place: &str, broken: &str) -> Result<Tally, String> {
    let (site, history) = (Site::new().await, History::default());
    // No lease ends in here: what is said is said at once.
    let plan = site.gateway().set("lease", "1h").set("wait", "100ms");
    let gateway = plan.breaking(broken).fault(&format!("{place}=panic")).start().await;
    for key in [KEY, KEY, KEY, "other", "other"] {
        history.send(gateway.front, key, &[]).await;
    }
    gateway.says("/readyz", 200).await;
    history.check(&site.upstream, &gateway.records().await)
}

#[tokio::test]
async fn an_execution_that_panics_is_unknown_at_once_and_the_process_lives() {
    for (place, executions) in [("after_claim", 1), ("before_send", 1), ("before_send@2", 1), ("before_record", 2)] {
        let tally = panic_at(place, "").await.unwrap_or_else(|why| panic!("{place}: {why}"));
        assert_eq!((tally.executions, tally.unknown, tally.completed), (executions, 1, 1), "{place}: {tally}");
        assert_eq!((tally.called_unknown, tally.unanswered), (3, 0), "{place}: {tally:?}");
    }
}

#[tokio::test]
async fn a_panic_after_the_recording_loses_nothing() {
    let tally = panic_at("before_reply", "").await.expect("nothing is wrong");
    assert_eq!((tally.executions, tally.completed, tally.called_unknown), (2, 2, 1), "{tally:?}");
}

#[tokio::test]
async fn control_a_lost_claim_that_is_not_written_off_is_caught() {
    for place in ["after_claim", "before_record"] {
        assert_caught(panic_at(place, "keep_lost_claims").await, "processing");
    }
}
