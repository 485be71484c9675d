//! Requests that one reader might split in another way than the next (H1): behind each comes a second request, which must be
//! answered as itself, or not be run at all. Judged by what arrives at the upstream, on fresh connections and behind each kind
//! of answer that oncekey gives without reading a body to its end.

mod cases;
mod streams;

use oncekey_testkit::CountingUpstream;
use tokio::task::JoinSet;

use self::cases::{Behind, Case, cases};
use super::stand::{Gateway, order, raw_order};

/// What a request smuggled past the gateway would be.
const POISON: &str = "GET /poison HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

const SETTINGS: &str = "[defaults]\nmax_request = \"8KiB\"\nwait = \"0s\"\n";

/// What stands before a case on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Replay,
    Reused,
    TooLarge,
    InProgress,
}

const ALL_BEFORE: [Before; 5] = [Before::Nothing, Before::Replay, Before::Reused, Before::TooLarge, Before::InProgress];

impl Before {
    /// Its request, and the status of the answer to it.
    fn request(self) -> (Vec<u8>, Option<u16>) {
        // Were the body taken for requests, these would be them.
        let body = POISON.repeat(200);
        let head = "POST /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: acc-1\r\nIdempotency-Key";
        match self {
            Self::Nothing => (Vec::new(), None),
            Self::Replay => (raw_order("seed", &[]), Some(201)),
            Self::Reused => {
                let body = &body[..body.len() / 2];
                let head = format!("{head}: seed\r\nContent-Length: {}\r\n\r\n", body.len());
                ([head.as_bytes(), body.as_bytes()].concat(), Some(409))
            }
            Self::TooLarge => {
                let head = format!("{head}: large\r\nContent-Length: {}\r\n\r\n", body.len());
                ([head.as_bytes(), body.as_bytes()].concat(), Some(413))
            }
            Self::InProgress => (raw_order("slow", &["X-Test-Gate: slow"]), Some(202)),
        }
    }
}

/// Sends each case behind each beginning, and tells what went wrong.
async fn violations(broken: &str) -> Vec<String> {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::breaking(broken, &upstream.url(), SETTINGS).await;
    gateway.exchange(raw_order("seed", &[])).await;
    let (slow, call) = (gateway.client(), order("slow").header("x-test-gate", "slow"));
    let mut running = JoinSet::new();
    running.spawn(async move { slow.call(&call).await });
    upstream.arrived(2).await;
    let mut found = Vec::new();
    for before in ALL_BEFORE {
        for (number, case) in cases().iter().enumerate() {
            if case.at_the_beginning_it_is_http2 && before == Before::Nothing {
                continue;
            }
            let key = format!("{before:?}-{number}");
            if let Some(wrong) = judge(&gateway, &upstream, before, case, &key).await {
                found.push(format!("{} ({before:?}): {wrong}", case.what));
            }
        }
    }
    upstream.open("slow");
    running.join_next().await.expect("a client").expect("no panic").expect("an answer");
    found
}

/// Sends one case and its poison on a connection of their own, and says what is wrong with what comes of them.
async fn judge(
    gateway: &Gateway,
    upstream: &CountingUpstream,
    before: Before,
    case: &Case,
    key: &str,
) -> Option<String> {
    let known = upstream.arrivals().len();
    let (prelude, first) = before.request();
    let request = case.request(key);
    let mut client = gateway.raw().await;
    // It fails if the gateway closed on a part of it, and then what was answered is still there.
    let _ = client.write([&prelude[..], &request, POISON.as_bytes()].concat()).await;
    // That nothing more comes saves the gateway the wait for it.
    let _ = client.finish().await;
    let said = match client.read_to_end().await {
        Ok(said) => String::from_utf8_lossy(&said).into_owned(),
        Err(error) => return Some(format!("the connection doesn't end in order: {error}")),
    };
    let statuses: Vec<u16> =
        said.split("HTTP/1.").skip(1).filter_map(|answer| answer.get(2..5)?.parse().ok()).collect();
    let arrivals = upstream.arrivals().split_off(known);
    let targets: Vec<_> = arrivals.iter().map(|arrival| arrival.target.as_str()).collect();
    let mut expected = Vec::new();
    expected.extend(case.arrives.map(|_| "/orders"));
    expected.extend((case.behind == Behind::Runs).then_some("/poison"));
    if targets != expected {
        return Some(format!("{targets:?} arrived, not {expected:?}; answers {statuses:?}"));
    }
    if let (Some(length), Some(arrival)) = (case.arrives, arrivals.first())
        && (arrival.headers.get_all("content-length").iter().ne([&*length.to_string()])
            || arrival.headers.contains_key("transfer-encoding")
            || arrival.key != key
            || arrival.scope != "acc-1")
    {
        return Some(format!("it arrived otherwise than as {length} bytes under its key: {:?}", arrival.headers));
    }
    let answers =
        usize::from(first.is_some()) + usize::from(!case.is_silent) + usize::from(case.behind == Behind::Runs);
    let own = statuses.get(usize::from(first.is_some())).copied().filter(|_| !case.is_silent);
    let fits = own.is_none_or(|own| if case.arrives.is_some() { own == 201 } else { (400..600).contains(&own) });
    if statuses.len() != answers || statuses.first().copied().filter(|_| first.is_some()) != first || !fits {
        return Some(format!("the answers are {statuses:?}"));
    }
    None
}

#[tokio::test]
async fn each_request_is_read_as_one_or_refused_and_nothing_behind_it_is_run_by_mistake() {
    let found = violations("").await;
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The corpus on trial: gateways that read a request's framing otherwise than it is meant are caught.
#[cfg(feature = "fault-points")]
#[tokio::test]
async fn control_the_corpus_catches_gateways_that_take_framing_lightly() {
    for (broken, caught) in [
        ("trust_content_length", "both framings"),
        ("leave_unread_body", "a plain order (TooLarge)"),
        ("admit_anything", "two hosts"),
    ] {
        let found = violations(broken).await;
        assert!(found.iter().any(|wrong| wrong.starts_with(caught)), "{broken}: {}", found.join("\n"));
    }
}
