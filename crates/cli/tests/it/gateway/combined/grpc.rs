//! gRPC from a real client to a real server, with the gateway between: unary calls with a key are executed once and replayed
//! with their trailers, in the clear and through TLS; streams without a key pass in both directions.

mod shop;

use std::time::Duration;

use futures_util::StreamExt;
use oncekey_testkit::tls::TlsFront;
use tokio::task::JoinSet;
use tonic::{Code, Request, Status};

use self::shop::{Client, Order, Shop};
use super::super::stand::Gateway;
use super::super::tls::{Authority, Ground};

const ROUTES: &str = "[[route]]\npath = \"/shop.Orders/Place\"\nmethods = [\"POST\"]\nkey = \"optional\"\n";

fn keyed(key: &str, sku: &str) -> Request<Order> {
    let mut request = Request::new(Order { sku: sku.to_owned() });
    request.metadata_mut().insert("idempotency-key", key.parse().expect("ASCII"));
    request.metadata_mut().insert("x-account-id", "acc-1".parse().expect("ASCII"));
    request
}

fn problem(status: &Status) -> Option<&str> {
    status.metadata().get("oncekey-problem").and_then(|code| code.to_str().ok())
}

/// A shop, a gateway in front of it, and a client of that.
struct World {
    shop: Shop,
    gateway: Gateway,
    client: Client,
    _server: JoinSet<()>,
    _front: Option<TlsFront>,
}

impl World {
    async fn plain() -> Self {
        let shop = Shop::default();
        let (address, server) = shop.clone().serve().await;
        let settings = format!("upstream = \"http://{address}\"\nupstream_http = \"2\"\n{ROUTES}");
        let gateway = Gateway::start("", &settings).await;
        let client = Client::connect(gateway.address, None).await;
        Self { shop, gateway, client, _server: server, _front: None }
    }

    async fn secured(ground: &Ground) -> Self {
        let shop = Shop::default();
        let mut config = Authority::server(&ground.authority.issue(&["localhost"]), None);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (address, server) = shop.clone().serve().await;
        let front = TlsFront::start(address, config).await;
        let tls = [ground.upstream_tls(), ground.tls()].concat();
        let gateway = Gateway::start("", &format!("upstream = \"{}\"\n{tls}{ROUTES}", front.local_url())).await;
        let client = Client::connect(gateway.address, Some(ground.trust())).await;
        Self { shop, gateway, client, _server: server, _front: Some(front) }
    }
}

#[tokio::test]
async fn a_call_with_a_key_is_executed_once_and_replayed_with_its_trailers() {
    let ground = Ground::new();
    for world in [World::plain().await, World::secured(&ground).await] {
        let World { shop, gateway, mut client, _server, _front } = world;
        let (first, replay) = (client.place(keyed("k", "tea")).await, client.place(keyed("k", "tea")).await);
        for (answer, replayed) in [(first, false), (replay, true)] {
            let answer = answer.expect("it is placed");
            assert_eq!((answer.get_ref().number, &*answer.get_ref().sku), (1, "tea"));
            assert_eq!(answer.metadata().contains_key("idempotent-replayed"), replayed);
            // The client puts trailers among the metadata.
            assert_eq!(answer.metadata().get("x-sum").expect("a trailer"), "42");
        }
        let mismatch = client.place(keyed("k", "coffee")).await.expect_err("another order");
        assert_eq!((mismatch.code(), problem(&mismatch)), (Code::FailedPrecondition, Some("key-reused")));
        // A status instead of a message, and a deadline that is the client's alone.
        for _ in 0..2 {
            let refused = client.place(keyed("none", "none")).await.expect_err("there is none");
            assert_eq!((refused.code(), refused.message()), (Code::NotFound, "no such thing: 100%"));
        }
        let mut late = keyed("late", "wait");
        late.set_timeout(Duration::from_millis(50));
        client.place(late).await.expect_err("it is late");
        shop.open();
        let answer = client.place(keyed("late", "wait")).await.expect("the outcome");
        assert!(answer.metadata().contains_key("idempotent-replayed"));
        assert_eq!(shop.runs(), 3);
        gateway.end().await;
    }
}

#[tokio::test]
async fn streams_pass_in_both_directions() {
    let ground = Ground::new();
    for world in [World::plain().await, World::secured(&ground).await] {
        let World { gateway, mut client, _server, _front, .. } = world;
        let (orders, receiver) = orders_to_send();
        let mut placed = client.place_all(receiver).await.expect("a stream").into_inner();
        for sku in ["tea", "coffee"] {
            orders.send(Order { sku: sku.to_owned() }).expect("it is read");
            // Each answer comes before the next order is sent.
            assert_eq!(placed.next().await.expect("an answer").expect("a message").sku, sku);
        }
        drop(orders);
        assert!(placed.next().await.is_none());
        let trailers = placed.trailers().await.expect("the end").expect("trailers");
        assert_eq!(trailers.get("x-sum").expect("a trailer"), "42");
        gateway.end().await;
    }
}

fn orders_to_send() -> (tokio::sync::mpsc::UnboundedSender<Order>, shop::Orders) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    (sender, shop::Orders(receiver))
}
