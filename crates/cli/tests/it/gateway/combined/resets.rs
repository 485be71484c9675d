//! A client that resets its stream, at each phase of its request, with each code that means something, between HTTP/2 on both
//! sides (E3).

use oncekey_testkit::frames::Outcome;

use super::super::stand::until;
use super::*;

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// How far the request had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
    /// Whole, and the upstream works.
    Executing,
    /// Whole, and another one executes it.
    Waiting,
    /// A part of its answer was given.
    Answered,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Head, Self::Body, Self::Executing, Self::Waiting, Self::Answered];

    fn is_whole(self) -> bool {
        !matches!(self, Self::Head | Self::Body)
    }
}

fn head(key: &str, gate: &str, phase: Phase) -> Vec<u8> {
    // A streamed answer stops within its body, any other one before its head.
    let (path, held) =
        if phase == Phase::Answered { ("/streamed", "x-test-body-gate") } else { ("/orders", "x-test-gate") };
    block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", path),
        ("x-account-id", "acc-1"),
        ("idempotency-key", key),
        ("x-test-body-bytes", "20000"),
        (held, gate),
    ])
}

#[tokio::test]
async fn a_reset_changes_nothing_about_a_whole_request_and_leaves_nothing_of_any_other() {
    let upstream = CountingUpstream::start_http2().await;
    let settings = "upstream_http = \"2\"\n[[route]]\npath = \"/streamed\"\nstream = true\n[[route]]\n";
    let gateway = Gateway::start(&upstream.url(), settings).await;
    for (phase, code) in Phase::ALL
        .into_iter()
        .flat_map(|phase| [NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL].map(|code| (phase, code)))
    {
        let key = format!("{phase:?}-{code}");
        let mut client = FrameClient::connect(gateway.address).await.expect("connected");
        let before = upstream.total();
        client.head(1, head(&key, &key, phase), false).await.expect("sent");
        match phase {
            Phase::Head => {}
            Phase::Body => client.data(1, "hal", false).await.expect("sent"),
            _ => {
                client.data(1, "half", true).await.expect("sent");
                upstream.arrived(before + 1).await;
            }
        }
        if phase == Phase::Waiting {
            client.head(3, head(&key, &key, phase), false).await.expect("sent");
            client.data(3, "half", true).await.expect("sent");
        }
        if phase == Phase::Answered {
            while client.read().await.expect("frames").expect("a part of the answer").kind != kind::DATA {}
        }
        client.heard().await;
        let stream = if phase == Phase::Waiting { 3 } else { 1 };
        client.send(kind::RST_STREAM, 0, stream, code.to_be_bytes()).await.expect("sent");
        client.heard().await;
        assert_eq!(upstream.total() - before, u32::from(phase.is_whole()), "{key}");
        upstream.open(&key);
        // The same request again.
        let status = until("the outcome", async || {
            let mut retry = FrameClient::connect(gateway.address).await.expect("connected");
            retry.head(1, head(&key, &key, phase), false).await.expect("sent");
            retry.data(1, "half", true).await.expect("sent");
            match retry.outcome(1).await.expect("frames") {
                Outcome::Answered(202) => None,
                outcome => Some(outcome),
            }
        })
        .await;
        let expected = if phase == Phase::Answered { 409 } else { 201 };
        assert_eq!(status, Outcome::Answered(expected), "{key}");
        assert_eq!((upstream.executions("acc-1", &key), upstream.total() - before), (1, 1), "{key}");
    }
    gateway.end().await;
}
