//! What a route may change about oncekey's own answers: statuses by profile, the base of types, fixed fields (W2, P4).

use http::{HeaderMap, HeaderValue, StatusCode};
use oncekey_core::problem::{Profile, Style};
use oncekey_tower::OwnAnswers;
use serde_json::Value;

use crate::bodies::full;
use crate::harness::*;

fn styled(style: Style) -> Setup {
    answering(OwnAnswers { style, ..OwnAnswers::default() })
}

fn answering(own_answers: OwnAnswers) -> Setup {
    let mut route = orders();
    route.own_answers = own_answers;
    Setup { routes: vec![route], ..Setup::default() }
}

/// The answer to another request under a used key.
async fn mismatch(world: &World) -> http::Response<bytes::Bytes> {
    world.send(order("k")).await;
    world.send(post("k").body(full("another")).unwrap()).await
}

/// The answer to a duplicate of a request that runs on.
async fn duplicate(setup: Setup) -> http::Response<bytes::Bytes> {
    let world = setup.start(Upstream::new(|_| std::future::pending())).await;
    let _first = world.spawn(order("k"));
    settle().await;
    world.send(order("k")).await
}

#[tokio::test(start_paused = true)]
async fn a_used_key_has_the_status_of_the_profile() {
    for (profile, status) in [(Profile::Default, 409), (Profile::Ietf, 422), (Profile::Stripe, 400)] {
        let world = styled(Style::of(profile)).start(Upstream::counting()).await;
        let refused = mismatch(&world).await;
        assert_eq!((refused.status().as_u16(), problem(&refused)), (status, Some("key-reused")));
        let body: Value = serde_json::from_slice(refused.body()).unwrap();
        assert_eq!((&body["status"], &body["retry"]), (&Value::from(status), &Value::from("new-key")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_request_is_a_conflict_with_retry_after_in_the_profiles_of_others() {
    for profile in [Profile::Ietf, Profile::Stripe] {
        let answer = duplicate(styled(Style::of(profile))).await;
        assert_eq!((answer.status().as_u16(), problem(&answer)), (409, Some("in-progress")));
        assert_eq!(lines(&answer, "Retry-After"), ["2"]);
        assert_eq!(lines(&answer, "Content-Type"), ["application/problem+json"]);
        let body: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!((&body["retry"], &body["operation_id"]), (&"same-key".into(), &id("k").to_string().into()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_may_set_the_status_of_a_running_request_itself() {
    for profile in Profile::ALL {
        for status in [202, 409, 423, 425] {
            let in_progress = StatusCode::from_u16(status).unwrap();
            let answer = duplicate(styled(Style { in_progress, ..Style::of(profile) })).await;
            assert_eq!((answer.status().as_u16(), problem(&answer)), (status, Some("in-progress")));
            assert_eq!(lines(&answer, "Retry-After"), ["2"]);
            let media_type = if status == 202 { "application/json" } else { "application/problem+json" };
            assert_eq!(lines(&answer, "Content-Type"), [media_type]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn types_begin_with_the_base_of_the_route() {
    let style = Style { type_base: "https://errors.example/".to_owned(), ..Style::default() };
    let world = styled(style).start(Upstream::counting()).await;
    let body: Value = serde_json::from_slice(mismatch(&world).await.body()).unwrap();
    assert_eq!(body["type"], "https://errors.example/key-reused");
}

#[tokio::test(start_paused = true)]
async fn fixed_fields_are_on_what_oncekey_answers_itself_and_on_nothing_else() {
    let mut fields = HeaderMap::new();
    fields.append("access-control-allow-origin", HeaderValue::from_static("https://shop.example"));
    fields.append("vary", HeaderValue::from_static("Origin"));
    fields.append("vary", HeaderValue::from_static("Accept-Language"));
    // Refused by the gateway's configuration, and of no effect in the layer.
    fields.append("retry-after", HeaderValue::from_static("3600"));
    fields.append("content-type", HeaderValue::from_static("text/html"));
    let setup = || answering(OwnAnswers { fields: fields.clone(), ..OwnAnswers::default() });

    let world = setup().start(Upstream::counting()).await;
    let refused = mismatch(&world).await;
    assert_eq!(problem(&refused), Some("key-reused"));
    let accepted = duplicate(setup()).await;
    assert_eq!(accepted.status(), 202);
    assert_eq!(lines(&accepted, "Retry-After"), ["2"]);
    let unscoped = http::Request::post("/orders").header("Idempotency-Key", "k").body(full("")).unwrap();
    for own in [&refused, &accepted, &world.send(unscoped).await] {
        assert_eq!(lines(own, "Access-Control-Allow-Origin"), ["https://shop.example"]);
        assert_eq!(lines(own, "Vary"), ["Origin", "Accept-Language"]);
        assert!(lines(own, "Content-Type")[0].ends_with("json"));
    }

    // What the upstream answered goes on as it was recorded: its own fields are there, and no second line beside them.
    let (first, replay) = (world.send(order("l")).await, world.send(order("l")).await);
    assert!(!replayed(&first) && replayed(&replay));
    for answer in [first, replay] {
        assert_eq!(lines(&answer, "Access-Control-Allow-Origin"), [""; 0]);
        assert_eq!(lines(&answer, "Vary"), [""; 0]);
    }
}
