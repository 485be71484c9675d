//! Replays: what of the first answer comes again, and what doesn't (R1–R3).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response};
use http_body::Body;
use oncekey_core::policy::Policy;

use crate::bodies::{all_bytes, chunked, full};
use crate::harness::*;

/// First answer and replay of one key.
async fn both(world: &World) -> (Response<Bytes>, Response<Bytes>) {
    let (first, again) = (world.send(order("k")).await, world.send(order("k")).await);
    assert_eq!((replayed(&first), replayed(&again), world.runs()), (false, true, 1));
    (first, again)
}

fn without(headers: &HeaderMap, names: &[&str]) -> HeaderMap {
    let mut headers = headers.clone();
    for name in names {
        headers.remove(*name);
    }
    headers
}

#[tokio::test(start_paused = true)]
async fn first_answer_and_replay_are_the_same_for_every_kind_of_answer() {
    for status in
        [200, 201, 202, 204, 205, 206, 226, 301, 303, 304, 307, 400, 402, 404, 409, 410, 418, 422, 500, 501, 505, 599]
    {
        for body in [Bytes::new(), all_bytes()] {
            let answer = move || {
                Response::builder()
                    .status(status)
                    .header("Content-Type", "application/octet-stream")
                    .header("Location", "/orders/7")
                    .header("ETag", "\"7\"")
                    .header("X-Latin", &b"caf\xe9"[..])
                    .header("X-Empty", "")
                    .header("Cache-Control", "max-age=60")
                    .header("Content-Encoding", "gzip")
                    .header("Retry-After", "7")
                    .body(full(body.clone()))
                    .unwrap()
            };
            let world = World::of(Upstream::answering(answer.clone())).await;
            let (first, again) = both(&world).await;
            assert_eq!((first.status(), again.status()), (answer().status(), answer().status()));
            assert_eq!(first.body(), again.body());
            assert_eq!(without(first.headers(), &["Idempotency-Key", "Oncekey-Operation-Id"]), *answer().headers());
            assert_eq!(*first.headers(), without(again.headers(), &["Idempotent-Replayed"]), "{status}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lines_of_one_name_keep_their_order_and_their_number() {
    let answer = || {
        let lines = [("Link", "</b>"), ("X-N", "2"), ("Link", "</a>"), ("X-N", "2"), ("X-N", "1, 0"), ("Link", "")];
        let builder = lines.iter().fold(Response::builder(), |builder, (name, value)| builder.header(*name, *value));
        builder.body(full("")).unwrap()
    };
    let world = World::of(Upstream::answering(answer)).await;
    let (first, again) = both(&world).await;
    for answer in [&first, &again] {
        assert_eq!(lines(answer, "Link"), ["</b>", "</a>", ""]);
        assert_eq!(lines(answer, "X-N"), ["2", "2", "1, 0"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_true_of_the_first_answer_only_is_not_replayed() {
    const FIRST_ONLY: [&str; 9] = [
        "Date",
        "Age",
        "Alt-Svc",
        "WWW-Authenticate",
        "Authentication-Info",
        "Proxy-Authenticate",
        "Proxy-Status",
        "Set-Cookie",
        "X-Dropped",
    ];
    let answer = || {
        let builder = FIRST_ONLY.iter().fold(Response::builder(), |b, name| b.header(*name, "a").header(*name, "b"));
        builder.header("X-Kept", "kept").body(full("")).unwrap()
    };
    let drop = |policy: &mut Policy| policy.recording.drop_headers = vec![HeaderName::from_static("x-dropped")];
    let world = Setup::governed(drop).start(Upstream::answering(answer)).await;
    let (first, again) = both(&world).await;
    for name in FIRST_ONLY {
        assert_eq!(lines(&first, name), ["a", "b"], "{name}");
        assert!(lines(&again, name).is_empty(), "{name}");
    }
    let rest = without(again.headers(), &["Idempotent-Replayed"]);
    assert_eq!(without(first.headers(), &FIRST_ONLY), rest, "nothing else differs");
}

#[tokio::test(start_paused = true)]
async fn cookies_are_replayed_where_a_route_says_so() {
    let answer = || Response::builder().header("Set-Cookie", "a=1").header("Set-Cookie", "b=2").body(full("")).unwrap();
    let keep = |policy: &mut Policy| policy.recording.store_set_cookie = true;
    let (_, again) = both(&Setup::governed(keep).start(Upstream::answering(answer)).await).await;
    assert_eq!(lines(&again, "Set-Cookie"), ["a=1", "b=2"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_oncekeys_to_say_is_taken_from_the_upstream() {
    let answer = || {
        Response::builder()
            .header("Idempotent-Replayed", "true")
            .header("Oncekey-Problem", "key-reused")
            .header("Oncekey-Outcome", "failed")
            .header("Oncekey-Operation-Id", "theirs")
            .header("Idempotency-Key", "theirs")
            .header("Idempotency-Key", "theirs too")
            .body(full(""))
            .unwrap()
    };
    let world = World::of(Upstream::answering(answer)).await;
    let (first, again) = both(&world).await;
    for answer in [&first, &again] {
        assert_eq!(problem(answer), None);
        assert!(lines(answer, "Oncekey-Outcome").is_empty());
        assert_eq!(lines(answer, "Oncekey-Operation-Id"), [id("k").to_string()]);
        assert_eq!(lines(answer, "Idempotency-Key"), ["k"]);
    }
}

#[tokio::test(start_paused = true)]
async fn hop_by_hop_fields_stay_on_their_hop() {
    let answer = || {
        Response::builder()
            .header("Connection", "close, X-Hop")
            .header("Connection", "x-other-hop")
            .header("X-Hop", "1")
            .header("X-Other-Hop", "1")
            .header("Keep-Alive", "timeout=5")
            .header("Proxy-Connection", "close")
            .header("TE", "trailers")
            .header("Trailer", "X-Sum")
            .header("Transfer-Encoding", "chunked")
            .header("Upgrade", "h2c")
            .header("X-End", "1")
            .body(chunked([b"a", b"b"]))
            .unwrap()
    };
    let (first, again) = both(&World::of(Upstream::answering(answer)).await).await;
    for answer in [&first, &again] {
        let left = without(answer.headers(), &["Idempotent-Replayed", "Idempotency-Key", "Oncekey-Operation-Id"]);
        assert_eq!(
            left.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect::<Vec<_>>(),
            [("x-end", &b"1"[..])]
        );
        assert_eq!(answer.body(), "ab");
    }
}

#[tokio::test(start_paused = true)]
async fn both_are_framed_by_the_server_from_a_body_of_known_length() {
    let answer = || Response::builder().header("Content-Length", "256").body(chunked([b"abc", b"", b"d"])).unwrap();
    let world = World::of(Upstream::answering(answer)).await;
    for _ in 0..2 {
        let answer = world.head(order("k")).await;
        assert!(lines(&answer, "Content-Length").is_empty());
        assert_eq!(answer.body().size_hint().exact(), Some(4));
        assert_eq!(whole(answer).await.body(), "abcd");
    }
}

#[tokio::test(start_paused = true)]
async fn the_replay_outlives_the_node_that_executed() {
    let world = World::of(Upstream::answering(|| created(all_bytes()))).await;
    let first = world.send(order("k")).await;
    let other = Setup::default().start_on(world.store.clone(), world.clock.clone(), Upstream::counting()).await;
    let again = other.send(order("k")).await;
    assert!(replayed(&again));
    assert_eq!((first.status(), first.body()), (again.status(), again.body()));
    assert_eq!(other.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_of_just_max_response_is_kept_and_one_byte_more_is_not() {
    for (len, kept) in [(999, true), (1000, true), (1001, false)] {
        for chunk in [1001, 300] {
            let answer = move || {
                let bytes = Bytes::from(vec![7; len]);
                let chunks: Vec<_> = bytes
                    .chunks(chunk)
                    .map(|chunk| Ok(http_body::Frame::data(Bytes::copy_from_slice(chunk))))
                    .collect();
                let body = http_body_util::StreamBody::new(futures_util::stream::iter(chunks));
                Response::new(http_body_util::BodyExt::boxed_unsync(body))
            };
            let limit = |policy: &mut Policy| policy.recording.max_response = 1000;
            let world = Setup::governed(limit).start(Upstream::answering(answer)).await;
            assert_eq!(world.send(order("k")).await.body().len(), len, "the first client gets all of it");
            let again = world.send(order("k")).await;
            assert_eq!(problem(&again), (!kept).then_some("response-not-stored"), "{len} in chunks of {chunk}");
            assert_eq!(world.runs(), 1);
        }
    }
}
