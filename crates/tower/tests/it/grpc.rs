//! gRPC through the layer, with a real server and client: unary calls are executed once and replayed, statuses in trailers
//! included; what oncekey itself has to say is a gRPC status.

mod shop;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use oncekey_core::State;
use oncekey_store::{MemoryStore, Store, SystemClock};
use oncekey_tower::{Guard, Oncekey, Options, Route};
use tokio::sync::Notify;
use tonic::metadata::{BinaryMetadataValue, MetadataMap};
use tonic::{Code, Request, Response, Status};

use self::shop::{Client, Handler, Order, Placed, Shop};
use crate::harness::id;

/// A shop behind the layer, on a real socket.
struct World {
    client: Client,
    shop: Shop,
    store: Arc<MemoryStore>,
    oncekey: Oncekey,
}

impl World {
    async fn of(handler: Handler) -> Self {
        Self::guarded(Guard::default(), handler).await
    }

    async fn guarded(guard: Guard, handler: Handler) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let mut route = Route { guard, ..Route::at("/shop.Orders/Place") };
        Arc::make_mut(&mut route.policy).timing.wait = Duration::ZERO;
        let options = Options { routes: vec![route], ..Options::default() };
        let oncekey = Oncekey::start(store.clone(), options).await.unwrap();
        let shop = Shop::new(handler);
        let client = shop.clone().serve(oncekey.layer()).await;
        Self { client, shop, store, oncekey }
    }

    async fn place(&self, key: &str, sku: &str) -> Result<Response<Placed>, Status> {
        self.client.clone().place(keyed(key, sku)).await
    }

    async fn state(&self, key: &str) -> Option<State> {
        self.store.read(id(key)).await.unwrap().map(|found| found.record.state)
    }
}

fn keyed(key: &str, sku: &str) -> Request<Order> {
    let mut request = Request::new(Order { sku: sku.to_owned(), amount: 3 });
    request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
    request.metadata_mut().insert("x-account-id", "acc-1".parse().unwrap());
    request
}

fn numbering() -> Handler {
    Arc::new(|number, order| async move { Ok(Response::new(Placed { number, sku: order.sku })) }.boxed())
}

fn failing(status: impl Fn() -> Status + Send + Sync + 'static) -> Handler {
    Arc::new(move |_, _| std::future::ready(Err(status())).boxed())
}

fn replayed(metadata: &MetadataMap) -> bool {
    metadata.contains_key("idempotent-replayed")
}

fn problem(status: &Status) -> Option<&str> {
    status.metadata().get("oncekey-problem").map(|code| code.to_str().unwrap())
}

#[tokio::test]
async fn a_call_is_executed_once_and_replayed() {
    let world = World::of(numbering()).await;
    let (first, again) = (world.place("k", "tea").await.unwrap(), world.place("k", "tea").await.unwrap());
    for answer in [&first, &again] {
        assert_eq!(answer.get_ref(), &Placed { number: 1, sku: "tea".to_owned() });
        assert_eq!(answer.metadata().get("oncekey-operation-id").unwrap(), &id("k").to_string()[..]);
    }
    assert_eq!((replayed(first.metadata()), replayed(again.metadata())), (false, true));
    assert_eq!(world.place("other", "tea").await.unwrap().get_ref().number, 2);
    assert_eq!(world.shop.runs(), 2);
    world.oncekey.shutdown().await;
}

#[tokio::test]
async fn a_call_without_a_key_passes() {
    let world = World::of(numbering()).await;
    for number in 1..3 {
        let request = Request::new(Order { sku: "tea".to_owned(), amount: 1 });
        let answer = world.client.clone().place(request).await.unwrap();
        assert_eq!((answer.get_ref().number, answer.metadata().contains_key("oncekey-operation-id")), (number, false));
    }
}

/// A status in the head alone, as tonic sends it where there is no message.
#[tokio::test]
async fn a_status_is_replayed_with_its_message_its_details_and_its_metadata() {
    let status = || {
        let mut metadata = MetadataMap::new();
        metadata.insert("x-stock", "0".parse().unwrap());
        metadata.insert_bin("x-trace-bin", BinaryMetadataValue::from_bytes(&[0, 255]));
        Status::with_details_and_metadata(
            Code::NotFound,
            "no tea: 100% sold \u{2615}",
            vec![1, 2, 255].into(),
            metadata,
        )
    };
    let world = World::of(failing(status)).await;
    for again in [false, true] {
        let answer = world.place("k", "tea").await.unwrap_err();
        assert_eq!((answer.code(), answer.message()), (Code::NotFound, "no tea: 100% sold \u{2615}"));
        assert_eq!(answer.details(), [1, 2, 255]);
        assert_eq!(answer.metadata().get("x-stock").unwrap(), "0");
        assert_eq!(answer.metadata().get_bin("x-trace-bin").unwrap().to_bytes().unwrap()[..], [0, 255]);
        assert_eq!((replayed(answer.metadata()), problem(&answer)), (again, None));
    }
    assert_eq!((world.shop.runs(), world.state("k").await), (1, Some(State::Completed)));
}

/// A status after a message: only trailers tell.
#[tokio::test]
async fn a_status_in_the_trailers_is_replayed_and_judged() {
    for (code, state, runs) in [
        (Code::DataLoss, State::Completed, 1),
        (Code::PermissionDenied, State::Failed, 2),
        (Code::Aborted, State::Completed, 1),
    ] {
        let world = World::of(numbering()).await;
        world.shop.fail_after_the_message(Status::new(code, "in the end"));
        for _ in 0..2 {
            let answer = world.place("k", "tea").await.unwrap_err();
            assert_eq!((answer.code(), answer.message()), (code, "in the end"));
        }
        assert_eq!((world.shop.runs(), world.state("k").await), (runs, Some(state)), "{code:?}");
    }
}

#[tokio::test]
async fn statuses_after_which_a_retry_may_run_are_not_replayed() {
    let pushed_back = || {
        let mut status = Status::unavailable("later");
        status.metadata_mut().insert("grpc-retry-pushback-ms", "5".parse().unwrap());
        status
    };
    for status in [Status::unauthenticated("who?"), Status::permission_denied("no"), pushed_back()] {
        let code = status.code();
        let world = World::of(failing(move || status.clone())).await;
        for _ in 0..2 {
            let answer = world.place("k", "tea").await.unwrap_err();
            assert_eq!((answer.code(), replayed(answer.metadata())), (code, false));
        }
        assert_eq!((world.shop.runs(), world.state("k").await), (2, Some(State::Failed)));
    }
}

#[tokio::test]
async fn statuses_that_leave_it_open_whether_it_took_effect_leave_it_unknown() {
    for status in [Status::deadline_exceeded("late"), Status::cancelled("gone"), Status::unavailable("reset")] {
        let code = status.code();
        let world = World::of(failing(move || status.clone())).await;
        assert_eq!(world.place("k", "tea").await.unwrap_err().code(), code, "it is delivered");
        let again = world.place("k", "tea").await.unwrap_err();
        assert_eq!((again.code(), problem(&again)), (Code::Unknown, Some("outcome-unknown")));
        assert_eq!((world.shop.runs(), world.state("k").await), (1, Some(State::Unknown)));
    }
}

#[tokio::test]
async fn what_oncekey_says_itself_is_a_status_with_the_problem_as_metadata() {
    let guard = Guard { key_required: true, max_request: 64, ..Guard::default() };
    let world = World::guarded(guard, numbering()).await;
    world.place("k", "tea").await.unwrap();
    let mut scopeless = keyed("k", "tea");
    scopeless.metadata_mut().remove("x-account-id");
    let mut keyless = keyed("k", "tea");
    keyless.metadata_mut().remove("idempotency-key");
    for (request, code, name) in [
        (keyed("k", "coffee"), Code::FailedPrecondition, "key-reused"),
        (keyed("a b", "tea"), Code::InvalidArgument, "key-invalid"),
        (keyed("big", &"x".repeat(64)), Code::ResourceExhausted, "body-too-large"),
        (scopeless, Code::InvalidArgument, "scope-missing"),
        (keyless, Code::InvalidArgument, "key-missing"),
    ] {
        let answer = world.client.clone().place(request).await.unwrap_err();
        assert_eq!((answer.code(), problem(&answer)), (code, Some(name)));
        let json = answer.metadata().get("oncekey-problem-json").unwrap().to_str().unwrap();
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!((json["code"].as_str(), json["detail"].as_str()), (Some(name), Some(answer.message())));
    }
    assert_eq!(world.shop.runs(), 1);
}

#[tokio::test]
async fn a_duplicate_of_a_running_call_is_unavailable_and_the_clients_deadline_cuts_nothing() {
    let gate = Arc::new(Notify::new());
    let opens = Arc::clone(&gate);
    let world = World::of(Arc::new(move |number, order| {
        let gate = Arc::clone(&opens);
        async move {
            gate.notified().await;
            Ok(Response::new(Placed { number, sku: order.sku }))
        }
        .boxed()
    }))
    .await;
    let mut hasty = keyed("k", "tea");
    hasty.set_timeout(Duration::from_millis(50));
    assert!(world.client.clone().place(hasty).await.is_err(), "its own deadline passed");
    let duplicate = world.place("k", "tea").await.unwrap_err();
    assert_eq!((duplicate.code(), problem(&duplicate)), (Code::Unavailable, Some("in-progress")));
    assert_eq!(duplicate.metadata().get("grpc-retry-pushback-ms").unwrap(), "2000");
    assert!(
        duplicate.metadata().get("oncekey-problem-json").unwrap().to_str().unwrap().contains("\"retry\":\"same-key\"")
    );
    gate.notify_one();
    let answer = loop {
        match world.place("k", "tea").await {
            Err(status) if problem(&status) == Some("in-progress") => {}
            answer => break answer.unwrap(),
        }
    };
    assert_eq!((answer.get_ref().number, replayed(answer.metadata()), world.shop.runs()), (1, true, 1));
}

#[tokio::test]
async fn a_call_that_streams_its_request_can_not_carry_a_key() {
    let world = World::of(numbering()).await;
    let order = Order { sku: "tea".to_owned(), amount: 3 };
    let request = |orders: Vec<Order>| keyed("k", "").map(|_| futures_util::stream::iter(orders));
    let answer = world.client.clone().stream(request(vec![order.clone(), order.clone()])).await.unwrap_err();
    assert_eq!((answer.code(), problem(&answer)), (Code::InvalidArgument, Some("request-invalid")));
    assert!(answer.message().contains("can't stream its request"), "{}", answer.message());
    assert_eq!((world.shop.runs(), world.state("k").await), (0, None));
    assert_eq!(
        world.client.clone().stream(request(vec![order])).await.unwrap().get_ref().number,
        1,
        "one is as a unary call"
    );
}
