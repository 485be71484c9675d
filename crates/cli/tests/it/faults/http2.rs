//! Faults of an upstream that speaks HTTP/2: what it refuses is executed by the next, what it breaks off is unknown (E6, E7,
//! W4).

use super::history::{History, Tally, assert_caught};
use super::site::Site;

/// Says that the request wasn't executed.
const REFUSALS: [&str; 2] = ["stream", "go-away"];

/// Each of them after the execution has begun, without a whole answer.
const BREAKS: [&[(&str, &str)]; 9] = [
    &[("x-test-reset", "CANCEL")],
    &[("x-test-reset", "INTERNAL_ERROR")],
    &[("x-test-reset", "NO_ERROR")],
    &[("x-test-reset", "CANCEL"), ("x-test-cut-after", "4"), ("x-test-framing", "chunked")],
    &[("x-test-reset", "NO_ERROR"), ("x-test-cut-after", "4"), ("x-test-framing", "chunked")],
    &[("x-test-go-away", "yes")],
    &[("x-test-go-away", "yes"), ("x-test-cut-after", "4"), ("x-test-framing", "chunked")],
    &[("x-test-cut", "fin")],
    &[("x-test-cut", "rst"), ("x-test-cut-after", "4")],
];

/// A request is refused while another one for the same waits.
async fn refused_while_another_waits(refusal: &str, broken: &'static str) -> Result<Tally, String> {
    let (site, history) = (Site::speaking_http2().await, History::default());
    let gateway = site.gateway().breaking(broken).start().await;
    let refused = [("x-test-refuse", refusal), ("x-test-gate", "refusal")];
    let others = async {
        site.upstream.refused(1).await;
        tokio::join!(history.send(gateway.front, "k", &[]), async {
            // Another operation goes all the way after the waiter came.
            history.send(gateway.front, "other", &[]).await;
            site.upstream.open("refusal");
        })
    };
    tokio::join!(history.send(gateway.front, "k", &refused), others);
    for key in ["k", "other"] {
        history.send(gateway.front, key, &[]).await;
    }
    history.check(&site.upstream, &gateway.records().await)?.all_completed()
}

#[tokio::test]
async fn what_an_upstream_refuses_is_executed_by_the_next_who_waits() {
    for refusal in REFUSALS {
        let tally = refused_while_another_waits(refusal, "").await.unwrap_or_else(|why| panic!("{refusal}: {why}"));
        assert_eq!((tally.executions, tally.not_executed), (2, 1), "{refusal}: {tally:?}");
    }
}

#[tokio::test]
async fn control_a_refusal_that_counts_for_nothing_is_caught() {
    for refusal in REFUSALS {
        assert_caught(refused_while_another_waits(refusal, "refused_is_ambiguous").await, "some did not complete");
    }
}

#[tokio::test]
async fn what_is_refused_and_not_asked_for_again_has_failed() {
    let (site, history) = (Site::speaking_http2().await, History::default());
    let gateway = site.gateway().start().await;
    for refusal in REFUSALS {
        let answer = history.send(gateway.front, refusal, &[("x-test-refuse", refusal)]).await.expect("an answer");
        assert_eq!((answer.status.as_u16(), answer.problem()), (502, Some("upstream-unreachable")), "{refusal}");
        assert!(answer.headers.contains_key("retry-after"));
    }
    let tally = history.check(&site.upstream, &gateway.records().await).expect("nothing is wrong");
    assert_eq!((tally.executions, tally.failed), (0, 2), "{tally:?}");
}

/// Each kind of break in turn, and then retries that nothing would break.
async fn broken_off(breaks: &[&[(&str, &str)]], broken: &'static str) -> Result<Tally, String> {
    let (site, history) = (Site::speaking_http2().await, History::default());
    let gateway = site.gateway().breaking(broken).start().await;
    for (number, script) in breaks.iter().enumerate() {
        let key = number.to_string();
        history.send(gateway.front, &key, script).await;
        history.send(gateway.front, &key, &[]).await;
    }
    history.check(&site.upstream, &gateway.records().await)
}

#[tokio::test]
async fn what_an_upstream_breaks_off_is_unknown_and_never_executed_again() {
    let tally = broken_off(&BREAKS, "").await.expect("nothing is wrong");
    let executions = usize::try_from(tally.executions).expect("few");
    assert_eq!((executions, tally.unknown, tally.called_unknown), (BREAKS.len(), BREAKS.len(), 2 * BREAKS.len()));
}

#[tokio::test]
async fn control_a_cancelled_stream_that_counts_as_refused_is_caught() {
    assert_caught(broken_off(&BREAKS[..1], "cancel_is_proof").await, "executed 2 times");
}
