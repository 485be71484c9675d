//! Trailers of answers: recorded, delivered with the first answer and with each replay, announced to whom they reach so (R6).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Version};
use http_body::Body;
use http_body_util::{BodyExt, Collected};
use oncekey_core::State;
use proptest::prelude::*;

use crate::bodies::{TestBody, followed_by, full, with_trailers};
use crate::harness::*;

fn fields(lines: &[(&str, &str)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in lines {
        fields.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    fields
}

async fn collected(world: &World, request: Request<TestBody>) -> (HeaderMap, Collected<Bytes>) {
    let (head, body) = world.head(request).await.into_parts();
    (head.headers, body.collect().await.unwrap())
}

fn lines_of(trailers: Option<&HeaderMap>) -> Vec<(String, Vec<u8>)> {
    let lines = trailers.into_iter().flatten();
    lines.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// A request like [`order`] of a client that takes trailers.
fn taking_trailers(version: Version) -> Request<TestBody> {
    let mut request = order("k");
    request.headers_mut().insert("te", HeaderValue::from_static("gzip, Trailers"));
    *request.version_mut() = version;
    request
}

#[tokio::test(start_paused = true)]
async fn only_the_trailers_that_may_go_on_do_so_on_both() {
    let sent = [
        ("X-Sum", "2"),
        ("Content-Length", "7"),
        ("Transfer-Encoding", "chunked"),
        ("Set-Cookie", "a=1"),
        ("Idempotent-Replayed", "true"),
        ("Oncekey-Outcome", "failed"),
        ("Idempotency-Key", "theirs"),
        ("X-Sum", "1"),
    ];
    for stream in [false, true] {
        let answer = move || Response::new(followed_by("body", fields(&sent)));
        let world = Setup::governed(|policy| policy.recording.stream = stream).start(Upstream::answering(answer)).await;
        for _ in 0..2 {
            let (_, answer) = collected(&world, order("k")).await;
            if !stream || answer.trailers().is_some() {
                assert_eq!(answer.trailers(), Some(&fields(&[("X-Sum", "2"), ("X-Sum", "1")])));
            }
        }
        assert_eq!(world.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn trailers_are_announced_over_http_1_to_those_who_take_them() {
    for announced in [false, true] {
        let answer = move || {
            let builder =
                if announced { Response::builder().header("Trailer", "X-Other") } else { Response::builder() };
            builder.body(followed_by("body", fields(&[("X-Sum", "1"), ("X-B", "2"), ("X-Sum", "3")]))).unwrap()
        };
        let world = World::of(Upstream::answering(answer)).await;
        for _ in 0..2 {
            assert!(!collected(&world, order("k")).await.0.contains_key("trailer"));
            assert!(!collected(&world, taking_trailers(Version::HTTP_2)).await.0.contains_key("trailer"));
            assert_eq!(collected(&world, taking_trailers(Version::HTTP_11)).await.0["trailer"], "x-sum, x-b");
        }
    }
    let world =
        World::of(Upstream::answering(|| Response::builder().header("Trailer", "X").body(full("")).unwrap())).await;
    assert!(!collected(&world, taking_trailers(Version::HTTP_11)).await.0.contains_key("trailer"), "there are none");
}

#[tokio::test(start_paused = true)]
async fn a_body_with_trailers_is_not_framed_by_its_length() {
    let world = World::of(Upstream::answering(|| Response::new(with_trailers("body")))).await;
    for _ in 0..2 {
        let answer = world.head(order("k")).await;
        assert_eq!((answer.body().size_hint().exact(), answer.body().size_hint().lower()), (None, 4));
        assert!(!answer.body().is_end_stream());
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_answer_keeps_its_announcement_and_its_trailers() {
    let answer = || Response::builder().header("Trailer", "X-Sum").body(with_trailers("body")).unwrap();
    let world = Setup::governed(|policy| policy.recording.stream = true).start(Upstream::answering(answer)).await;
    let (headers, answer) = collected(&world, order("k")).await;
    assert_eq!(
        (&headers["trailer"], &answer.trailers().unwrap()["x-sum"]),
        (&"X-Sum".parse().unwrap(), &"1".parse().unwrap())
    );
    assert_eq!(problem(&world.send(order("k")).await), Some("response-not-stored"));
}

#[tokio::test(start_paused = true)]
async fn trailers_count_for_max_response() {
    for (value, kept) in [(95, true), (96, false)] {
        let answer = move || Response::new(followed_by("body", fields(&[("x", &"v".repeat(value))])));
        let limit = |policy: &mut oncekey_core::policy::Policy| policy.recording.max_response = 100;
        let world = Setup::governed(limit).start(Upstream::answering(answer)).await;
        let (_, first) = collected(&world, order("k")).await;
        assert_eq!(first.trailers().unwrap()["x"].len(), value, "the first client gets all of it");
        assert_eq!(first.to_bytes(), "body");
        let again = world.send(order("k")).await;
        assert_eq!(problem(&again), (!kept).then_some("response-not-stored"), "{value}");
        assert_eq!(world.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn trailers_of_a_request_are_not_part_of_it() {
    let world = World::of(Upstream::counting()).await;
    for request in [post("k").body(with_trailers("{}")).unwrap(), post("k").body(full("{}")).unwrap()] {
        assert_eq!(world.send(request).await.body(), "run 1");
    }
    assert_eq!(world.state("k").await, Some(State::Completed));
}

/// Header lines, a body and trailers, such as any service may send.
fn answers() -> impl Strategy<Value = (HeaderMap, Vec<u8>, HeaderMap)> {
    let name = prop_oneof!["[a-c]", "x-[a-z0-9]{1,6}", Just("grpc-status".to_owned())];
    let value = "[ -~]{0,8}";
    let lines = prop::collection::vec((name, value), 0..6).prop_map(|lines| {
        let lines: Vec<_> = lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        fields(&lines)
    });
    (lines.clone(), prop::collection::vec(any::<u8>(), 0..40), lines)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_replay_is_its_first_answer_trailers_included((headers, body, trailers) in answers()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let sent = (headers.clone(), Bytes::from(body.clone()), trailers.clone());
            let world = World::of(Upstream::answering(move || {
                let mut answer = Response::new(followed_by(sent.1.clone(), sent.2.clone()));
                *answer.headers_mut() = sent.0.clone();
                answer
            })).await;
            let (first, first_rest) = collected(&world, taking_trailers(Version::HTTP_11)).await;
            let (mut again, again_rest) = collected(&world, taking_trailers(Version::HTTP_11)).await;
            prop_assert_eq!(again.remove("idempotent-replayed"), Some(HeaderValue::from_static("true")));
            prop_assert_eq!(lines_of(Some(&first)), lines_of(Some(&again)), "in their order");
            prop_assert_eq!(lines_of(first_rest.trailers()), lines_of(Some(&trailers)));
            prop_assert_eq!(lines_of(first_rest.trailers()), lines_of(again_rest.trailers()));
            prop_assert_eq!(first_rest.to_bytes(), Bytes::from(body.clone()));
            prop_assert_eq!(again_rest.to_bytes(), Bytes::from(body));
            prop_assert_eq!(world.runs(), 1);
            Ok(())
        })?;
    }
}
