//! Counting, gates and the ledger of the counting upstream.

use oncekey_testkit::{Call, Client, CountingUpstream, Options, RawClient, scratch_dir};

#[tokio::test]
async fn executions_are_counted_per_scope_and_key() {
    let upstream = CountingUpstream::start().await;
    let client = Client::new(upstream.address());
    for (scope, key) in [("a", "1"), ("a", "1"), ("a", "2"), ("b", "1")] {
        client.post("/orders", scope, key, "{}").await.unwrap();
    }
    client.call(&Call::get("/")).await.unwrap();

    assert_eq!(upstream.executions("a", "1"), 2);
    assert_eq!(upstream.executions("a", "2"), 1);
    assert_eq!(upstream.executions("b", "1"), 1);
    assert_eq!(upstream.executions("b", "2"), 0);
    assert_eq!(upstream.executions("", ""), 1);
    assert_eq!(upstream.total(), 5);
}

#[tokio::test]
async fn two_executions_of_one_operation_have_different_answers() {
    let upstream = CountingUpstream::start().await;
    let client = Client::new(upstream.address());
    let first = client.post("/orders", "a", "1", "{}").await.unwrap();
    let second = client.post("/orders", "a", "1", "{}").await.unwrap();

    assert_eq!(first.status, 201);
    assert_eq!(first.json(), serde_json::json!({"serial": 1, "execution": 1, "scope": "a", "key": "1"}));
    assert_eq!(second.json(), serde_json::json!({"serial": 2, "execution": 2, "scope": "a", "key": "1"}));
    assert_eq!((first.header("x-serial"), second.header("x-serial")), (Some("1"), Some("2")));
}

#[tokio::test]
async fn a_request_counts_before_its_body_has_arrived() {
    let upstream = CountingUpstream::start().await;
    let mut raw = RawClient::connect(upstream.address()).await.unwrap();
    raw.write("POST / HTTP/1.1\r\nHost: a\r\nX-Account-Id: a\r\nIdempotency-Key: 1\r\nContent-Length: 2\r\n\r\n")
        .await
        .unwrap();
    upstream.arrived(1).await;
    assert_eq!(upstream.executions("a", "1"), 1);

    raw.write("{}").await.unwrap();
    upstream.received(1).await;
    assert_eq!(raw.read_answer().await.unwrap().status, 201);
    assert_eq!(upstream.total(), 1);
}

#[tokio::test]
async fn arrivals_tell_method_target_and_headers() {
    let upstream = CountingUpstream::start().await;
    let call = Call::post("/orders?dry=1").scope("a").key("\"1\"").header("x-more", "yes");
    Client::new(upstream.address()).call(&call).await.unwrap();

    let arrivals = upstream.arrivals();
    let [arrival] = &arrivals[..] else { panic!("one request came") };
    assert_eq!((arrival.method.as_str(), arrival.target.as_str()), ("POST", "/orders?dry=1"));
    assert_eq!((arrival.scope.as_str(), arrival.key.as_str()), ("a", "\"1\""));
    assert_eq!(arrival.headers["x-more"], "yes");
}

#[tokio::test]
async fn a_gate_holds_the_answer_until_the_test_opens_it() {
    let upstream = CountingUpstream::start().await;
    let client = Client::new(upstream.address());
    let call = Call::post("/").scope("a").key("1").header("x-test-gate", "g");
    let mut answer = std::pin::pin!(client.call(&call));
    tokio::select! {
        _ = &mut answer => panic!("the gate is closed"),
        () = upstream.arrived(1) => {}
    }
    assert_eq!(upstream.executions("a", "1"), 1);
    upstream.open("other");
    upstream.received(1).await;
    assert!(futures_util::poll!(&mut answer).is_pending());

    upstream.open("g");
    assert_eq!(answer.await.unwrap().status, 201);
    // An open gate stays open.
    assert_eq!(client.call(&call).await.unwrap().status, 201);
}

#[tokio::test]
async fn a_read_gate_leaves_the_body_unread() {
    let upstream = CountingUpstream::start().await;
    let client = Client::new(upstream.address());
    // More than the sockets' buffers hold, so that sending can't end while nobody reads.
    let call = Call::post("/").header("x-test-read-gate", "g").body(vec![b'x'; 32 << 20]);
    let mut answer = std::pin::pin!(client.call(&call));
    tokio::select! {
        _ = &mut answer => panic!("the gate is closed"),
        () = upstream.arrived(1) => {}
    }
    assert!(futures_util::poll!(std::pin::pin!(upstream.received(1))).is_pending());

    upstream.open("g");
    assert_eq!(answer.await.unwrap().status, 201);
    upstream.received(1).await;
}

#[tokio::test]
async fn the_ledger_has_a_line_per_execution_and_is_appended_to() {
    let directory = scratch_dir().unwrap();
    let path = directory.path().join("ledger");
    for _ in 0..2 {
        let options = Options { ledger: Some(path.clone()), ..Options::default() };
        let upstream = CountingUpstream::start_with(options).await.unwrap();
        Client::new(upstream.address()).post("/", "a", "1", "{}").await.unwrap();
    }
    let line = r#"{"execution":1,"key":"1","scope":"a","serial":1}"#;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{line}\n{line}\n"));
}

#[tokio::test]
async fn scope_and_key_may_travel_under_other_names() {
    let options = Options {
        scope_header: "x-tenant".to_owned(),
        key_header: "x-idempotency-key".to_owned(),
        ..Options::default()
    };
    let upstream = CountingUpstream::start_with(options).await.unwrap();
    let call = Call::post("/").header("x-tenant", "t").header("x-idempotency-key", "k");
    Client::new(upstream.address()).call(&call).await.unwrap();
    assert_eq!(upstream.executions("t", "k"), 1);
}

fn keyed(gate: Option<&str>) -> Call {
    let call = Call::post("/orders").scope("a").key("1").json("{}");
    gate.into_iter().fold(call, |call, gate| call.header("x-test-effect-gate", gate))
}

#[tokio::test]
async fn every_execution_takes_effect_unless_the_upstream_is_idempotent() {
    for (idempotent, effects, serials) in [(false, 2, ["1", "2"]), (true, 1, ["1", "1"])] {
        let upstream = CountingUpstream::start_with(Options { idempotent, ..Options::default() }).await.unwrap();
        let client = Client::new(upstream.address());
        let first = client.call(&keyed(None)).await.unwrap();
        let second = client.call(&keyed(None)).await.unwrap();
        assert_eq!([first.header("x-serial"), second.header("x-serial")], serials.map(Some));
        assert_eq!(first.body == second.body, idempotent);
        assert_eq!((upstream.executions("a", "1"), upstream.effects("a", "1")), (2, effects));
        client.post("/orders", "a", "2", "{}").await.unwrap();
        assert_eq!((upstream.effects("a", "2"), upstream.effects("b", "1")), (1, 0));
    }
}

#[tokio::test]
async fn an_effect_comes_when_its_gate_opens_although_its_client_has_left() {
    let upstream = CountingUpstream::start().await;
    let client = Client::new(upstream.address());
    {
        let call = keyed(Some("effect"));
        let asked = client.call(&call);
        tokio::select! {
            answer = asked => panic!("the gate is shut: {answer:?}"),
            () = upstream.received(1) => {}
        }
    }
    let asking = Client::new(upstream.address());
    let ask = Call::get("/effects/a/1");
    assert_eq!((asking.call(&ask).await.unwrap().status, upstream.effects("a", "1")), (http::StatusCode::NOT_FOUND, 0));
    upstream.open("effect");
    upstream.took_effect(1).await;
    let told = asking.call(&ask).await.unwrap();
    assert_eq!((told.status, told.header("x-serial")), (http::StatusCode::CREATED, Some("1")));
    assert_eq!(told.json(), serde_json::json!({"serial": 1, "execution": 1, "scope": "a", "key": "1"}));
    assert_eq!((upstream.total(), upstream.asked()), (1, 2));
}
