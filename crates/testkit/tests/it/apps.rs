//! The two real applications. They need what `cargo xtask test` sets up, and fail without it.

use oncekey_testkit::{AppUpstream, Client, NodeUpstream, PythonHttp2Upstream, PythonUpstream, RawClient};

async fn counts_and_closes_idle_connections(app: AppUpstream) {
    let client = Client::new(app.address());
    for _ in 0..2 {
        let answer = client.post("/orders", "acc-1", "k1", r#"{"amount":1200}"#).await.unwrap();
        assert_eq!(answer.status, 201);
        assert_eq!((&answer.json()["amount"], &answer.json()["account_id"]), (&1200.into(), &"acc-1".into()));
    }
    client.post("/orders", "acc-1", "k2", "{}").await.unwrap();
    assert_eq!((app.count("k1").await.unwrap(), app.count("k2").await.unwrap()), (2, 1));
    assert_eq!(app.count("k3").await.unwrap(), 0);

    let mut idle = RawClient::connect(app.address()).await.unwrap();
    idle.write("GET /count?key=k1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert_eq!(idle.read_answer().await.unwrap().status, 200);
    let start = tokio::time::Instant::now();
    assert!(idle.read_to_end().await.unwrap().is_empty());
    let idled = start.elapsed().as_secs_f64();
    assert!((3.0..10.0).contains(&idled), "closed after {idled} s instead of about 5");
}

#[tokio::test]
async fn fastapi_counts_per_key_and_closes_a_connection_idle_for_five_seconds() {
    counts_and_closes_idle_connections(PythonUpstream::start().await.unwrap()).await;
}

#[tokio::test]
async fn express_counts_per_key_and_closes_a_connection_idle_for_five_seconds() {
    counts_and_closes_idle_connections(NodeUpstream::start().await.unwrap()).await;
}

#[tokio::test]
async fn fastapi_does_the_same_where_http_2_is_spoken() {
    counts_and_closes_idle_connections(PythonHttp2Upstream::start().await.unwrap()).await;
}
