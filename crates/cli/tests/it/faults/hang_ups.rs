//! A client ends its connection, in order or by a reset, at every phase of its request. What it sent whole is executed,
//! recorded and replayed; what it didn't is as if it had never come (E3).

use std::net::SocketAddr;

use oncekey_testkit::{RawClient, payload};

use super::history::{BODY, History, SCOPE, Tally, assert_caught};
use super::site::{Gateway, Site};

/// How a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It ends its side and reads on.
    HalfClose,
    /// It closes the connection in order.
    Close,
    /// It resets the connection.
    Reset,
}

const WAYS: [Way; 3] = [Way::HalfClose, Way::Close, Way::Reset];

/// A gateway, its upstream, and what clients saw of them.
struct Scene {
    site: Site,
    history: History,
    gateway: Gateway,
}

impl Scene {
    async fn new(broken: &str) -> Self {
        let site = Site::new().await;
        let gateway = site.gateway().breaking(broken).start().await;
        Self { site, history: History::default(), gateway }
    }

    /// A client that has sent these bytes.
    async fn client(&self, bytes: impl AsRef<[u8]>) -> RawClient {
        let mut client = RawClient::connect(self.gateway.front).await.expect("it connects");
        client.write(bytes).await.expect("it sends");
        client
    }

    /// The client goes. One that reads on is given back.
    async fn leave(&self, mut client: RawClient, key: &str, way: Way) -> Option<RawClient> {
        match way {
            Way::HalfClose => {
                client.finish().await.expect("it ends its side");
                return Some(client);
            }
            Way::Close => drop(client),
            Way::Reset => client.reset().expect("it resets"),
        }
        self.history.left(key);
        None
    }

    /// Reads the answer of a client that reads on.
    async fn answered(&self, client: Option<RawClient>, key: &str) {
        if let Some(mut client) = client {
            let answer = client.read_answer().await.expect("who only ended its side is answered");
            assert_eq!(answer.status, 201, "{answer:?}");
            self.history.saw(key, &answer);
        }
    }

    async fn retry(&self, key: &str) {
        for _ in 0..2 {
            self.history.send(self.gateway.front, key, &[]).await;
        }
    }

    async fn end(self) -> Result<Tally, String> {
        self.history.check(&self.site.upstream, &self.gateway.records().await)
    }
}

/// A whole request, with further field lines.
fn whole(to: SocketAddr, key: &str, lines: &str) -> String {
    let length = BODY.len();
    format!(
        "POST /orders HTTP/1.1\r\nHost: {to}\r\nX-Account-Id: {SCOPE}\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{lines}\r\n{BODY}"
    )
}

#[tokio::test]
async fn a_request_that_breaks_off_is_as_if_it_had_never_come() {
    let scene = Scene::new("").await;
    for way in WAYS {
        let key = format!("head-{way:?}");
        let request = whole(scene.gateway.front, &key, "");
        let client = scene.client(&request[..request.len() / 2]).await;
        if let Some(mut client) = scene.leave(client, &key, way).await {
            client.read_to_end().await.expect("the gateway ends the connection");
            scene.history.left(&key);
        }

        let key = format!("body-{way:?}");
        let request = whole(scene.gateway.front, &key, "Expect: 100-continue\r\n");
        let head = request.len() - BODY.len();
        let mut client = scene.client(&request[..head]).await;
        assert_eq!(client.read_answer().await.expect("it is told to go on").status, 100);
        client.write(&request[head..request.len() - 1]).await.expect("it sends all but the last byte");
        if let Some(mut client) = scene.leave(client, &key, way).await {
            client.read_to_end().await.expect("the gateway ends the connection");
            scene.history.left(&key);
        }
    }
    assert!(scene.gateway.records().await.0.is_empty(), "something was recorded");
    assert_eq!(scene.site.upstream.total(), 0, "something was executed");
    for way in WAYS {
        scene.retry(&format!("head-{way:?}")).await;
        scene.retry(&format!("body-{way:?}")).await;
    }
    let tally = scene.end().await.expect("nothing is wrong");
    eprintln!("requests that broke off: {tally}");
    assert_eq!((tally.executions, tally.completed), (6, 6));
}

#[tokio::test]
async fn a_client_that_leaves_right_after_its_request_changes_nothing() {
    let scene = Scene::new("").await;
    for round in 0..20 {
        for way in WAYS {
            let key = format!("{way:?}-{round}");
            let client = scene.client(whole(scene.gateway.front, &key, "")).await;
            let left = scene.leave(client, &key, way).await;
            scene.answered(left, &key).await;
            scene.retry(&key).await;
        }
    }
    let tally = scene.end().await.expect("nothing is wrong");
    eprintln!("clients that left right after their request: {tally}");
    assert_eq!((tally.executions, tally.completed), (60, 60));
}

/// The client leaves while the upstream works.
async fn left_while_it_runs(broken: &str, ways: &[Way]) -> Result<Tally, String> {
    let scene = Scene::new(broken).await;
    for (number, way) in (1..).zip(ways) {
        let key = format!("{way:?}");
        let client = scene.client(whole(scene.gateway.front, &key, &format!("X-Test-Gate: {key}\r\n"))).await;
        scene.site.upstream.arrived(2 * number - 1).await;
        let left = scene.leave(client, &key, *way).await;
        // Another request on another connection: the gateway has had the time to see what there was to see.
        scene.retry(&format!("{key}-later")).await;
        scene.site.upstream.open(&key);
        scene.answered(left, &key).await;
        scene.retry(&key).await;
    }
    scene.end().await?.all_completed()
}

#[tokio::test]
async fn a_client_that_leaves_while_its_request_runs_changes_nothing() {
    let tally = left_while_it_runs("", &WAYS).await.expect("nothing is wrong");
    eprintln!("clients that left while their request ran: {tally}");
    assert_eq!((tally.executions, tally.completed, tally.called_unknown), (6, 6, 0));
}

#[tokio::test]
async fn control_an_execution_that_ends_with_its_client_is_caught() {
    for way in [Way::Close, Way::Reset] {
        assert_caught(left_while_it_runs("tie_to_client", &[way]).await, "did not complete");
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_its_answer_is_delivered_changes_nothing() {
    const LENGTH: u64 = 1 << 20;
    let scene = Scene::new("").await;
    for (serial, way) in (1..).zip(WAYS) {
        let key = format!("{way:?}");
        let lines = format!("X-Test-Body-Bytes: {LENGTH}\r\n");
        let mut client = scene.client(whole(scene.gateway.front, &key, &lines)).await;
        // Nearly all of the answer is still on its way when the client goes.
        client.read_until("\r\n\r\n").await.expect("the answer begins");
        if let Some(mut client) = scene.leave(client, &key, way).await {
            let rest = client.read_to_end().await.expect("who only ended its side gets all of it");
            assert_eq!(rest, payload(serial, LENGTH));
            scene.history.left(&key);
        }
        scene.retry(&key).await;
        let replay = scene.history.send(scene.gateway.front, &key, &[]).await.expect("a replay");
        assert_eq!(replay.body, payload(serial, LENGTH), "{way:?}");
    }
    let tally = scene.end().await.expect("nothing is wrong");
    eprintln!("clients that left while their answer was delivered: {tally}");
    assert_eq!((tally.executions, tally.completed), (3, 3));
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_changes_nothing() {
    let scene = Scene::new("").await;
    for way in WAYS {
        let key = format!("{way:?}");
        let lines = format!("X-Test-Body: sse\r\nX-Test-Body-Gate: {key}\r\n");
        let mut client = scene.client(whole(scene.gateway.front, &key, &lines)).await;
        client.read_until("event 1").await.expect("the first event arrives");
        let left = scene.leave(client, &key, way).await;
        scene.site.upstream.open(&key);
        if let Some(mut client) = left {
            client.read_until("event 3").await.expect("who only ended its side gets all of it");
        }
        let retry = scene.history.send(scene.gateway.front, &key, &[]).await.expect("an answer");
        assert_eq!((retry.status.as_u16(), retry.problem()), (409, Some("response-not-stored")), "{way:?}");
        assert_eq!(scene.site.upstream.executions(SCOPE, &key), 1, "{way:?}");
    }
}

#[tokio::test]
async fn a_waiter_that_leaves_changes_nothing_for_the_others() {
    let scene = Scene::new("").await;
    for (number, way) in (1..).zip(WAYS) {
        let key = format!("{way:?}");
        let front = scene.gateway.front;
        let gated = [("x-test-gate", key.as_str())];
        let leader = scene.history.send(front, &key, &gated);
        let others = async {
            scene.site.upstream.arrived(2 * number - 1).await;
            let waiter = scene.client(whole(front, &key, "")).await;
            let left = scene.leave(waiter, &key, way).await;
            // Not a duplicate, and answered after the waiter's request has come in.
            scene.retry(&format!("{key}-later")).await;
            let (_, ()) = tokio::join!(scene.history.send(front, &key, &[]), async {
                scene.retry(&format!("{key}-later")).await;
                scene.site.upstream.open(&key);
            });
            scene.answered(left, &key).await;
        };
        tokio::join!(leader, others);
        scene.retry(&key).await;
    }
    let tally = scene.end().await.expect("nothing is wrong");
    eprintln!("waiters that left: {tally}");
    assert_eq!((tally.executions, tally.completed), (6, 6));
}
