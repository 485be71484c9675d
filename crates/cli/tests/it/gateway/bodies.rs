//! What counts in a body, end to end: forms, multipart forms, compressed bodies, and what `explain` says about them (F5–F7).

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use oncekey_testkit::{Call, CountingUpstream};
use serde_json::Value;

use super::stand::{Gateway, oncekey, order};

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).expect("encoded");
    encoder.finish().expect("encoded")
}

fn keyed(key: &str) -> Call {
    Call::post("/orders").scope("acc-1").key(key)
}

fn packed(key: &str, body: &[u8]) -> Call {
    keyed(key).header("content-encoding", "gzip").json(gzip(body))
}

fn multipart(boundary: &str, note: &str) -> Call {
    let body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\n{note}\r\n--{boundary}\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\nContent-Type: image/png\r\n\r\n\0\r\n--{boundary}--\r\n"
    );
    keyed("multipart").header("content-type", &format!("multipart/form-data; boundary={boundary}")).body(body)
}

#[tokio::test]
async fn a_retry_is_known_in_whatever_way_its_client_spells_it() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nfingerprint.ignore = [\"/at\"]\n").await;
    let form =
        |body: &str| keyed("form").header("content-type", "application/x-www-form-urlencoded").body(body.to_owned());
    let json = |body: &str| keyed("json").json(body.to_owned());
    let cases = [
        (form("b=2&a=%31"), form("a=1&b=2"), form("a=1&b=3")),
        (multipart("aaa", "hi"), multipart("bbb", "hi"), multipart("aaa", "ho")),
        (packed("packed", br#"{"amount": 1200}"#), order("packed"), packed("packed", br#"{"amount": 1201}"#)),
        (json(r#"{"at":1,"a":1}"#), json(r#"{"a":1,"at":2}"#), json(r#"{"at":1,"a":2}"#)),
    ];
    for (first, retry, other) in cases {
        assert_eq!(gateway.send(&first).await.status, 201, "{first:?}");
        assert!(gateway.send(&retry).await.is_replay(), "{retry:?}");
        assert_eq!(gateway.send(&other).await.problem(), Some("key-reused"), "{other:?}");
    }
    assert_eq!(upstream.total(), 4);
    gateway.end().await;
}

/// 100 MiB of zeros in 100 KiB, many times at once: each is refused after the one MiB that it may be.
#[tokio::test]
async fn bombs_are_refused_and_execute_nothing() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let bomb = gzip(&vec![0; 100 << 20]);
    let bombs =
        (0..16).map(|number| keyed(&format!("k-{number}")).header("content-encoding", "gzip").body(bomb.clone()));
    let answers = futures_util::future::join_all(bombs.map(|bomb| {
        let client = gateway.client();
        async move { client.call(&bomb).await.expect("an answer") }
    }));
    for answer in answers.await {
        assert_eq!((answer.status.as_u16(), answer.problem()), (413, Some("body-too-large")));
    }
    assert_eq!(upstream.total(), 0);
    assert_eq!(gateway.send(&order("k-1")).await.status, 201, "nothing was claimed");
    gateway.end().await;
}

#[tokio::test]
async fn explain_gives_the_fingerprint_that_the_record_has() {
    let upstream = CountingUpstream::start().await;
    let settings = "[defaults]\nfingerprint = { ignore = [\"/at\"], headers = [\"X-Region\"] }\n";
    let gateway = Gateway::start(&upstream.url(), settings).await;
    let directory = tempfile::tempdir().expect("a directory");
    let head = "POST /orders?b=2&a=1 HTTP/1.1\r\nHost: api\r\nX-Account-Id: acc-1\r\nIdempotency-Key: k\r\nX-Region: eu\r\n\
                Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    let body = gzip(br#"{"at": 1, "items": [{"qty": 2.0}]}"#);
    let request = [format!("{head}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
    let answer = gateway.exchange(&request).await;
    assert_eq!(answer.status, 201);

    let (file, config) = (directory.path().join("request.http"), directory.path().join("oncekey.toml"));
    std::fs::write(&file, &request).expect("written");
    std::fs::write(&config, settings).expect("written");
    let explained = oncekey().args(["explain", "--json", "--config"]).arg(&config).arg("--request").arg(&file).output();
    let explained: Value = serde_json::from_slice(&explained.expect("oncekey runs").stdout).expect("JSON");
    let record = gateway.operate(&["records", "show", "--scope", "acc-1", "--key", "k", "--json"]);
    let record: Value = serde_json::from_slice(&record.stdout).expect("JSON");
    let request = &explained["requests"][0];
    assert!(request["fingerprint"].is_string());
    assert_eq!((&request["fingerprint"], &request["operation_id"]), (&record["fingerprint"], &record["id"]));
    gateway.end().await;
}
