//! A canary in every key, scope, credential, body and query, sent down every path there is, with all logs on and spans exported:
//! nothing that the gateway says of it may hold one (P2).

use std::cell::RefCell;
use std::collections::BTreeSet;

use oncekey_testkit::{Call, CountingUpstream, Cut, FaultProxy, PATIENCE};

use super::scopes::Issuer;
use super::stand::Gateway;
use super::traces::collector::Collector;
use crate::server::{self, SERVER};

const CANARY: &str = "canary";

fn settings(upstream: &CountingUpstream, issuer: &Issuer) -> String {
    let probed = format!("{}/effects/{{scope}}/{{key}}", upstream.url());
    format!(
        "store_timeout = \"1s\"\n{jwt}
         [[route]]\npath = \"/orders\"\n
         [[route]]\npath = \"/token\"\nscope = [\"jwt:sub\"]\n
         [[route]]\npath = \"/cookie\"\nscope = [\"cookie:session\"]\n
         [[route]]\npath = \"/authorized\"\nscope = [\"authorization\"]\nforward_key_as = [\"Provider-Key\"]\n
         [[route]]\npath = \"/asked\"\non_unknown = \"probe\"\nprobe_url = \"{probed}\"\n
         [[route]]\npath = \"/unclear\"\non_unknown = \"probe\"\nprobe_url = \"http://127.0.0.1:1/{{scope}}/{{key}}\"\n
         [[route]]\npath = \"/again\"\non_unknown = \"retry\"\n
         [[route]]\npath = \"/small\"\nmax_request = \"64\"\nmax_response = \"64\"\n
         [[route]]\npath = \"/open\"\non_store_error = \"open\"\n",
        jwt = issuer.section(),
    )
}

/// A request that is full of canaries.
fn call(path: &str, key: &str) -> Call {
    Call::post(format!("{path}?q=canary-query"))
        .scope("canary-scope")
        .key(&format!("canary-key-{}-{key}", &path[1..]))
        .header("authorization", "Bearer canary.credential.x")
        .header("cookie", "session=canary-cookie")
        .header("x-test-body", "echo")
        .header("x-test-header", "Set-Cookie: answer=canary-cookie")
        .header("x-test-header", "Location: /orders/1?token=canary-location")
        .json(r#"{"secret":"canary-body"}"#)
}

/// Down every path that doesn't need the store to fail.
async fn send_everything(gateway: &Gateway, issuer: &Issuer) {
    let met = RefCell::new(BTreeSet::new());
    let told = async |call: Call| {
        let answer = gateway.send(&call).await;
        met.borrow_mut().insert(answer.problem().unwrap_or(if answer.is_replay() { "replay" } else { "" }).to_owned());
    };
    for path in ["/orders", "/cookie", "/authorized", "/again", "/asked", "/unclear", "/small", "/open", "/unguarded"] {
        // First, replay, mismatch.
        told(call(path, "a")).await;
        told(call(path, "a")).await;
        told(call(path, "a").json(r#"{"secret":"another canary"}"#)).await;
        for (number, broken) in [
            ("x-test-cut", "rst"),
            ("x-test-cut", "fin"),
            ("x-test-status", "503"),
            ("x-test-status", "504"),
            ("x-test-status", "429"),
            ("x-test-framing", "close"),
            ("x-test-header", "Oncekey-Outcome: canary"),
            ("x-test-header", "Content-Encoding: canary"),
            ("x-test-framing", "chunked"),
        ]
        .into_iter()
        .enumerate()
        {
            for _ in 0..2 {
                told(call(path, &number.to_string()).header(broken.0, broken.1)).await;
            }
        }
    }
    // An answer that is cut short within its body, and one that is too large to be kept.
    told(call("/orders", "short").header("x-test-cut", "fin").header("x-test-cut-after", "3")).await;
    told(call("/small", "large").json(r#"{"s":"canary"}"#).header("x-test-body-bytes", "4096")).await;
    told(call("/small", "large").json(r#"{"s":"canary"}"#).header("x-test-body-bytes", "4096")).await;
    told(call("/orders", &"long".repeat(100))).await;
    told(call("/orders", "upgrade").header("connection", "upgrade").header("upgrade", "canary")).await;
    told(Call::post("/orders?q=canary").key("canary-without-a-scope").json("canary")).await;
    // Tokens: no token at all, one that can't be read, one that isn't valid any more.
    told(call("/token", "garbled")).await;
    let expired = issuer.token("canary-subject", -1);
    for token in [expired, issuer.token("canary-subject", 600), issuer.token("canary-subject", 600) + "canary"] {
        let bearing = Call::post("/token").key("canary-token").header("authorization", &format!("Bearer {token}"));
        told(bearing.json("\"canary\"")).await;
    }
    let ends = [
        "",
        "replay",
        "key-reused",
        "outcome-unknown",
        "scope-invalid",
        "scope-missing",
        "key-invalid",
        "request-invalid",
        "response-not-stored",
    ];
    let missed: Vec<_> = ends.iter().filter(|end| !met.borrow().contains(**end)).collect();
    assert!(missed.is_empty(), "{missed:?} among {met:?}");
    for malformed in MALFORMED {
        let mut client = gateway.raw().await;
        client.write(malformed).await.expect("sent");
        client.finish().await.expect("sent");
        let _ = client.read_to_end().await;
    }
}

const MALFORMED: [&str; 9] = [
    "POST /orders?q=canary HTTP/1.1\r\nHost: a\r\nX-Account-Id: canary\r\nIdempotency-Key: canary key\r\nContent-Length: 6\r\n\r\ncanary",
    "POST /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: canary\r\nIdempotency-Key: canary\r\nIdempotency-Key: canary\r\nContent-Length: 0\r\n\r\n",
    "POST /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: canary\r\nX-Account-Id: canary\r\nIdempotency-Key: canary\r\nContent-Length: 0\r\n\r\n",
    "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: canary\r\nContent-Length: canary\r\n\r\n",
    "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: \"canary\r\nX-Account-Id: canary\r\nTransfer-Encoding: canary\r\n\r\n",
    "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: canary\r\nX-Account-Id: canary\r\nTransfer-Encoding: chunked\r\n\r\nzz-canary\r\n",
    "POST /orders HTTP/1.1\r\nHost: a\r\ncanary canary canary\r\n\r\n",
    "POST /orders HTTP/1.1\r\nHost: canary canary\r\nIdempotency-Key: canary\r\nX-Account-Id: canary\r\nContent-Length: 100\r\n\r\ncanary",
    "canary\r\n\r\n",
];

/// What the gateway has said with a canary in it.
async fn sung(mut gateway: Gateway, collector: &Collector) -> Vec<String> {
    let metrics = String::from_utf8(gateway.ask("/metrics").await.body.to_vec()).expect("text");
    gateway.process.terminate().expect("SIGTERM");
    assert!(gateway.process.exited(PATIENCE).await.expect("it ends").success());
    let log = gateway.process.stderr().whole().await;
    assert!(log.iter().any(|line| line.contains("\"level\":\"DEBUG\"")), "all of it is logged: {log:?}");
    let spans = collector.spans();
    assert!(["claim", "execute", "record", "replay"].iter().all(|name| spans.iter().any(|span| span.name == *name)));
    let said = log.into_iter().chain(gateway.process.stdout().whole().await).chain(metrics.lines().map(str::to_owned));
    said.chain([collector.text()]).filter(|said| said.contains(CANARY)).collect()
}

fn environment<'a>(collector: &'a str, broken: &'a str) -> [(&'a str, &'a str); 3] {
    [("OTEL_EXPORTER_OTLP_ENDPOINT", collector), ("RUST_LOG", "trace"), ("ONCEKEYTEST_BREAK", broken)]
}

#[tokio::test]
async fn on_sqlite_nothing_sings() {
    let (upstream, collector, issuer) =
        (CountingUpstream::start().await, Collector::http().await, Issuer::start().await);
    let url = collector.url();
    let settings = settings(&upstream, &issuer);
    let gateway = Gateway::within(&environment(&url, ""), &upstream.url(), &settings).await;
    send_everything(&gateway, &issuer).await;
    drop(upstream);
    gateway.send(&call("/orders", "unreachable")).await;
    gateway.send(&call("/unguarded", "unreachable")).await;
    // The operator's hands say what they are asked for on stdout, and nothing of it in the log.
    let listed = gateway.operate(&["records", "list", "--json", "--log-level", "trace"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("canary-key-orders-a"), "the canaries were there");
    assert!(!String::from_utf8_lossy(&listed.stderr).contains(CANARY));
    assert_eq!(sung(gateway, &collector).await, [""; 0]);
}

/// What is said with a store that breaks off and then falls silent; `broken` is the rule that the gateway breaks.
async fn on_postgres(broken: &str) -> Vec<String> {
    let (upstream, collector, issuer) =
        (CountingUpstream::start().await, Collector::http().await, Issuer::start().await);
    let url = collector.url();
    let proxy = FaultProxy::start(SERVER.address()).await;
    let store = oncekey_testkit::PostgresServer::url_by(proxy.address(), &server::database().await);
    let settings = settings(&upstream, &issuer);
    let gateway = Gateway::on_server_within(&environment(&url, broken), &store, &upstream.url(), &settings).await;
    send_everything(&gateway, &issuer).await;
    proxy.cut(Cut::Rst);
    gateway.send(&call("/orders", "cut")).await;
    proxy.blackhole();
    assert_eq!(gateway.send(&call("/orders", "away")).await.status, 503);
    assert_eq!(gateway.send(&call("/open", "away")).await.header("oncekey-unguarded"), Some("store-unavailable"));
    proxy.cut(Cut::Rst);
    proxy.release();
    sung(gateway, &collector).await
}

#[tokio::test]
async fn on_postgres_nothing_sings() {
    assert_eq!(on_postgres("").await, [""; 0]);
}

/// One place that forgot it is heard.
#[cfg(feature = "fault-points")]
#[tokio::test]
async fn what_is_not_held_back_sings() {
    let sung = on_postgres("log_urls").await;
    assert!(sung.iter().any(|said| said.contains("/canary-scope/canary-key-")), "{sung:?}");
}
