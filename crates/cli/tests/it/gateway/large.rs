//! Ten megabytes: recorded where the route allows it, and where not, streamed whole and recorded without their body (R5).

use oncekey_testkit::{CountingUpstream, payload};

use super::answers::compared;
use super::stand::{Gateway, raw_order};

const TEN_MEGABYTES: u64 = 10 * 1024 * 1024;

#[tokio::test]
async fn ten_megabytes_are_replayed_where_the_route_records_them() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nmax_response = \"16MiB\"\n").await;
    let request = raw_order("k", &[&format!("X-Test-Body-Bytes: {TEN_MEGABYTES}")]);
    let (first, replay) = (gateway.exchange(&request).await, gateway.exchange(&request).await);
    assert_eq!((first.status, replay.status), (201, 201));
    assert_eq!(compared(&first), compared(&replay));
    assert_eq!(replay.values("idempotent-replayed"), ["true"]);
    assert!(first.body == payload(1, TEN_MEGABYTES) && replay.body == first.body, "the bodies differ");
    assert_eq!(upstream.total(), 1);
    gateway.end().await;
}

#[tokio::test]
async fn ten_megabytes_over_the_bound_arrive_whole_and_nothing_runs_again() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for (serial, framing) in [(1, "length"), (2, "chunked"), (3, "close")] {
        let lines = [&*format!("X-Test-Body-Bytes: {TEN_MEGABYTES}"), &format!("X-Test-Framing: {framing}")];
        let request = raw_order(framing, &lines);
        let first = gateway.exchange(&request).await;
        assert_eq!(first.status, 201);
        assert!(first.body == payload(serial, TEN_MEGABYTES), "{framing}");
        let retry = gateway.exchange(&request).await;
        assert_eq!((retry.status, retry.values("oncekey-problem")), (409, vec!["response-not-stored"]));
        let problem: serde_json::Value = serde_json::from_slice(&retry.body).expect("JSON");
        assert_eq!((&problem["original_status"], &problem["code"]), (&201.into(), &"response-not-stored".into()));
        assert_eq!(retry.values("idempotency-key"), [framing]);
        assert_eq!(upstream.executions("acc-1", framing), 1);
    }
    gateway.end().await;
}

#[tokio::test]
async fn the_bound_is_the_last_size_that_is_recorded() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nmax_response = \"100KiB\"\n").await;
    for framing in ["length", "chunked"] {
        for (bytes, expected) in [(100 * 1024, 201), (100 * 1024 + 1, 409)] {
            let lines = [&*format!("X-Test-Body-Bytes: {bytes}"), &format!("X-Test-Framing: {framing}")];
            let request = raw_order(&format!("{framing}-{bytes}"), &lines);
            let first = gateway.exchange(&request).await;
            assert_eq!((first.status, first.body.len()), (201, bytes));
            assert_eq!(gateway.exchange(&request).await.status, expected, "{framing}, {bytes} bytes");
        }
    }
    gateway.end().await;
}
