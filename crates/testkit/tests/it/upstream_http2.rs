//! The counting upstream over HTTP/2: what it counts, and what its frames say.

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{Request, Response};
use oncekey_testkit::{CountingUpstream, payload};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

struct Peer {
    requests: SendRequest<Bytes>,
    _driver: JoinSet<Result<(), h2::Error>>,
}

impl Peer {
    async fn connect(upstream: &CountingUpstream) -> Self {
        let stream = TcpStream::connect(upstream.address()).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        Self { requests, _driver: driver }
    }

    async fn send(&mut self, key: &str, script: &[(&str, &str)]) -> Result<Response<RecvStream>, h2::Error> {
        let mut request =
            Request::post("http://a/orders").header("x-account-id", "acc-1").header("idempotency-key", key);
        for (name, value) in script {
            request = request.header(*name, *value);
        }
        let (answer, mut body) = self.requests.send_request(request.body(()).unwrap(), false)?;
        body.send_data(Bytes::from_static(b"{}"), true)?;
        answer.await
    }
}

async fn whole(mut body: RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        all.extend_from_slice(&data);
    }
    Ok(all)
}

#[tokio::test]
async fn it_counts_and_answers_like_the_other() {
    let upstream = CountingUpstream::start_http2().await;
    let mut peer = Peer::connect(&upstream).await;
    let answer = peer.send("k", &[("x-test-body-bytes", "200000")]).await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["x-serial"]), (201, &"1".parse().unwrap()));
    assert!(whole(answer.into_body()).await.unwrap() == payload(1, 200_000));
    let script = [("x-test-framing", "chunked"), ("x-test-trailer", "X-Sum: 9"), ("x-test-informational", "103")];
    let mut body = peer.send("k", &script).await.unwrap().into_body();
    while body.data().await.is_some() {}
    assert_eq!(body.trailers().await.unwrap().unwrap()["x-sum"], "9");
    assert_eq!(upstream.executions("acc-1", "k"), 2);
    let wrong = peer.send("k", &[("x-test-reset", "PERHAPS")]).await.unwrap();
    assert_eq!(wrong.status(), 500);
}

#[tokio::test]
async fn a_broken_exchange_counts_and_a_refused_one_does_not() {
    let upstream = CountingUpstream::start_http2().await;
    for (number, script) in [
        &[("x-test-reset", "CANCEL")][..],
        &[("x-test-reset", "NO_ERROR"), ("x-test-cut-after", "4")],
        &[("x-test-go-away", "yes")],
        &[("x-test-cut", "fin")],
        &[("x-test-cut", "rst"), ("x-test-cut-after", "4")],
    ]
    .into_iter()
    .enumerate()
    {
        let mut peer = Peer::connect(&upstream).await;
        let broken = match peer.send("k", script).await {
            Ok(answer) => whole(answer.into_body()).await.err(),
            Err(error) => Some(error),
        };
        let broken = broken.unwrap_or_else(|| panic!("{script:?} breaks"));
        assert!(!(broken.is_go_away() && broken.is_remote()), "{script:?}: {broken:?}");
        assert_eq!(upstream.executions("acc-1", "k") as usize, number + 1);
    }
    for (script, goes_away) in [("stream", false), ("go-away", true)] {
        let refused = Peer::connect(&upstream).await.send(script, &[("x-test-refuse", script)]).await.err().unwrap();
        assert!(refused.is_remote(), "{refused:?}");
        assert_eq!(refused.is_go_away(), goes_away);
        assert_eq!(refused.reason() == Some(Reason::REFUSED_STREAM), !goes_away);
        assert_eq!(upstream.executions("acc-1", script), 0);
        let again = Peer::connect(&upstream).await.send(script, &[("x-test-refuse", script)]).await.unwrap();
        assert_eq!((again.status().as_u16(), upstream.executions("acc-1", script)), (201, 1));
    }
    upstream.refused(2).await;
}
