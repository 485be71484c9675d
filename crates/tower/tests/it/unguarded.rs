//! `on_store_error = "open"`: what a request is that is let through while the store can't be reached (D1).

use http::{HeaderName, Request, Response};
use oncekey_core::policy::OnStoreError;
use oncekey_engine::{Attempt, NotExecuted};
use oncekey_store_test::{Fault, Op};

use crate::bodies::full;
use crate::harness::*;

async fn open(upstream: Upstream) -> World {
    let mut route = governed("/orders", |policy| policy.on_store_error = OnStoreError::Open);
    route.guard.forward_key_as = vec![HeaderName::from_static("idempotence-key")];
    let world = Setup { routes: vec![route], ..Setup::default() }.start(upstream).await;
    world.store.fail_always(Op::Claim, Fault::NotApplied);
    world
}

fn marks<B>(answer: &Response<B>) -> Vec<&str> {
    lines(answer, "Oncekey-Unguarded")
}

#[tokio::test(start_paused = true)]
async fn it_is_answered_and_marked_and_guarded_again_when_the_store_is_back() {
    let world = open(Upstream::counting()).await;
    for run in ["run 1", "run 2"] {
        let answer = world.send(order("\"k\"")).await;
        assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (201, run.as_bytes()));
        assert_eq!(marks(&answer), ["store-unavailable"]);
        assert_eq!(lines(&answer, "Idempotency-Key"), ["\"k\""]);
        assert!(!replayed(&answer));
        assert!(lines(&answer, "Oncekey-Operation-Id").is_empty(), "no record, no id");
    }
    let unguarded = [(("/orders".to_owned(), "unguarded".to_owned()), 2)];
    assert_eq!(world.counted_both(), (unguarded.into(), Counts::new()));
    world.store.heal(Op::Claim);
    let answer = world.send(order("\"k\"")).await;
    assert_eq!((answer.body().as_ref(), marks(&answer)), (&b"run 3"[..], vec![]));
    assert!(replayed(&world.send(order("k")).await));
}

#[tokio::test(start_paused = true)]
async fn a_closed_route_executes_nothing() {
    let world = World::of(Upstream::counting()).await;
    world.store.fail_always(Op::Claim, Fault::NotApplied);
    let answer = world.send(order("k")).await;
    assert_eq!((problem(&answer), marks(&answer), world.runs()), (Some("store-unavailable"), vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn the_inner_service_gets_it_as_it_was_sent_but_for_fields_that_look_like_oncekeys() {
    let world = open(Upstream::counting()).await;
    let request = post("abc").header("Accept-Encoding", "br").header("X-Twice", "1").header("X-Twice", "2");
    let own = ["Oncekey-Operation-Id", "Oncekey-Attempt", "Oncekey-Outcome", "Oncekey-Anything"];
    let request = own.iter().fold(request, |request, name| request.header(*name, "mine"));
    world.send(request.header("Idempotence-Key", "mine").body(full("body")).unwrap()).await;
    let seen = world.seen.lock();
    let sent = |name: &str| seen[0].headers().get_all(name).iter().cloned().collect::<Vec<_>>();
    for name in own {
        assert!(sent(name).is_empty(), "{name}");
    }
    assert_eq!(sent("Idempotency-Key"), ["abc"]);
    assert_eq!(sent("Idempotence-Key"), ["0461b51f-6dcf-4c20-a31d-d3b5d0381b4e"], "its provider may still know it");
    assert_eq!(
        (sent("Accept-Encoding"), sent("X-Twice")),
        (vec!["br".parse().unwrap()], vec!["1".parse().unwrap(), "2".parse().unwrap()])
    );
    assert_eq!(seen[0].body(), "body");
    assert!(seen[0].extensions().get::<Attempt>().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_the_inner_service_says_of_oncekey_goes_no_further() {
    let lying = || {
        let answer =
            Response::builder().header("Oncekey-Unguarded", "upstream").header("Oncekey-Problem", "overloaded");
        answer.header("Idempotent-Replayed", "true").header("X-Own", "1").body(full("")).unwrap()
    };
    let world = open(Upstream::answering(lying)).await;
    let answer = world.send(order("k")).await;
    assert_eq!((marks(&answer), problem(&answer), replayed(&answer)), (vec!["store-unavailable"], None, false));
    assert_eq!(lines(&answer, "X-Own"), ["1"]);
    world.store.heal(Op::Claim);
    assert!(marks(&world.send(order("k")).await).is_empty(), "a first answer");
    assert!(marks(&world.send(order("k")).await).is_empty(), "a replay");
    for unguarded in [Request::get("/orders"), Request::post("/orders"), Request::post("/other")] {
        let answer = world.send(unguarded.body(full("")).unwrap()).await;
        assert!(marks(&answer).is_empty());
        assert_eq!(lines(&answer, "X-Own"), ["1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_it_is_a_problem_that_says_what_is_known() {
    let world = open(Upstream::new(|number| async move {
        Err(if number == 0 { NotExecuted::because("the test says so").into() } else { "reset".into() })
    }))
    .await;
    for code in ["upstream-unreachable", "outcome-unknown"] {
        let answer = world.send(order("k")).await;
        assert_eq!((problem(&answer), marks(&answer)), (Some(code), vec!["store-unavailable"]));
        assert_eq!(lines(&answer, "Idempotency-Key"), ["k"]);
        let (requests, problems) = world.counted_both();
        assert_eq!(requests, [(("/orders".to_owned(), "unguarded".to_owned()), 1)].into());
        assert_eq!(problems, [(("/orders".to_owned(), code.to_owned()), 1)].into());
    }
    assert_eq!(world.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_store_to_be_refused_is_refused_all_the_same() {
    let world = open(Upstream::counting()).await;
    let unscoped = Request::post("/orders").header("Idempotency-Key", "k").body(full("")).unwrap();
    assert_eq!(problem(&world.send(unscoped).await), Some("scope-missing"));
    assert_eq!(problem(&world.send(order("")).await), Some("key-invalid"));
    assert_eq!(world.runs(), 0);
}
