//! The faults of the code that oncekey grew from, each as a test against the gateway on PostgreSQL; and its table, taken over
//! and served.
//!
//! That code kept keys in PostgreSQL around the handler: it inserted a row, ran the handler, updated the row, in one transaction.

use std::sync::LazyLock;

use oncekey_testkit::{Answer, Call, CountingUpstream, PostgresServer, Release, SEED_TABLE};
use tokio::task::JoinSet;

use super::stand::{Gateway, order};

static SERVER: LazyLock<PostgresServer> =
    LazyLock::new(|| PostgresServer::start(Release::V15).expect("PostgreSQL 15 starts"));

async fn gateway(upstream: &CountingUpstream, settings: &str) -> (String, Gateway) {
    let database = SERVER.database().await.expect("a new database");
    let gateway = Gateway::on_server(&SERVER.url(&database), &upstream.url(), settings).await;
    (database, gateway)
}

fn seen(answer: &Answer) -> (u16, bool, Option<&str>) {
    (answer.status.as_u16(), answer.is_replay(), answer.problem())
}

/// `INSERT 0 1` and `INSERT 0 0` were both taken for having claimed.
#[tokio::test]
async fn every_duplicate_executes() {
    let upstream = CountingUpstream::start().await;
    let (_, gateway) = gateway(&upstream, "").await;
    let first = gateway.send(&order("k")).await;
    assert_eq!(seen(&first), (201, false, None));
    let mut duplicates = JoinSet::new();
    for _ in 0..20 {
        let client = gateway.client();
        duplicates.spawn(async move { client.call(&order("k")).await.expect("an answer") });
    }
    for duplicate in duplicates.join_all().await {
        assert_eq!((seen(&duplicate), &duplicate.body), ((201, true, None), &first.body));
    }
    assert_eq!(upstream.executions("acc-1", "k"), 1);
}

/// A duplicate waited within its INSERT, on a connection of the pool, for as long as the first one's handler ran.
#[tokio::test]
async fn waiting_holds_the_pool_and_delays_other_keys() {
    let upstream = CountingUpstream::start().await;
    let (database, gateway) = gateway(&upstream, "[defaults]\nwait = \"20s\"\nmax_waiters = 64\n").await;
    let slow = order("slow").header("x-test-gate", "slow");
    let mut asking = JoinSet::new();
    for _ in 0..51 {
        let (client, slow) = (gateway.client(), slow.clone());
        asking.spawn(async move { client.call(&slow).await.expect("an answer") });
    }
    upstream.arrived(1).await;
    // All of fifty other keys get through while they wait, and no statement or transaction is open on the server.
    for n in 0..50 {
        assert_eq!(seen(&gateway.send(&order(&format!("other-{n}"))).await), (201, false, None));
    }
    let open = format!(
        "DO $$ BEGIN IF EXISTS (SELECT FROM pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid() \
         AND state LIKE 'idle in transaction%') OR EXISTS (SELECT FROM pg_stat_activity WHERE datname = '{database}' \
         AND wait_event_type = 'Lock') THEN RAISE 'something waits on the server'; END IF; END $$"
    );
    SERVER.execute(&database, &open).await.expect("nothing waits on the server");
    let connections = format!(
        "DO $$ BEGIN IF (SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid()) > 8 \
         THEN RAISE 'a waiter holds a connection'; END IF; END $$"
    );
    SERVER.execute(&database, &connections).await.expect("few connections");
    assert!(asking.try_join_next().is_none(), "all of them still wait");
    upstream.open("slow");
    let answers = asking.join_all().await;
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.body == answers[0].body));
    assert_eq!(upstream.executions("acc-1", "slow"), 1);
}

/// `expires_at` was written and never read: a key lived until a purge came by.
#[tokio::test]
async fn expiry_is_never_read() {
    let upstream = CountingUpstream::start().await;
    let (database, gateway) = gateway(&upstream, "cache_for = \"0s\"\n[sweep]\nevery = \"1h\"\n").await;
    assert_eq!(seen(&gateway.send(&order("k")).await), (201, false, None));
    assert_eq!(seen(&gateway.send(&order("k")).await), (201, true, None));
    let past = "UPDATE idempotency_keys SET expires_at = now() - interval '1 second'";
    SERVER.execute(&database, past).await.expect("two days pass");
    assert_eq!(seen(&gateway.send(&order("k")).await), (201, false, None));
    assert_eq!(upstream.executions("acc-1", "k"), 2);
}

/// The fingerprint was of path and body.
#[tokio::test]
async fn the_query_is_not_in_the_fingerprint() {
    let upstream = CountingUpstream::start().await;
    let (_, gateway) = gateway(&upstream, "").await;
    let pay = |query: &str| Call::post(format!("/orders?{query}")).scope("acc-1").key("k").json(r#"{"amount":1}"#);
    assert_eq!(seen(&gateway.send(&pay("currency=EUR")).await), (201, false, None));
    assert_eq!(seen(&gateway.send(&pay("currency=USD")).await), (409, false, Some("key-reused")));
    assert_eq!(seen(&gateway.send(&pay("currency=EUR")).await), (201, true, None));
    assert_eq!(upstream.executions("acc-1", "k"), 1);
}

/// JSONB refuses the character: the handler had run, and its answer was lost with a 500.
#[tokio::test]
async fn a_nul_in_json_loses_the_answer() {
    let upstream = CountingUpstream::start().await;
    let (_, gateway) = gateway(&upstream, "").await;
    let nul =
        Call::post("/orders").scope("acc-1").key("k").json(r#"{"note":"a\u0000b"}"#).header("x-test-body", "echo");
    let first = gateway.send(&nul).await;
    assert_eq!((seen(&first), &first.body[..]), ((201, false, None), &br#"{"note":"a\u0000b"}"#[..]));
    let again = gateway.send(&nul).await;
    assert_eq!((seen(&again), &again.body), ((201, true, None), &first.body));
    assert_eq!(upstream.executions("acc-1", "k"), 1);
}

/// JSONB gave back another spelling: 1.0, members of one name, letters, the order of members.
#[tokio::test]
async fn bytes_change_on_replay() {
    let upstream = CountingUpstream::start().await;
    let (_, gateway) = gateway(&upstream, "").await;
    for (n, body) in [
        r#"{"b": 1.0, "a": 1e2}"#,
        r#"{"a":1,"a":2}"#,
        "{\"name\":\"Zoë \\u00e9 😀\"}",
        r#"{"z":1,"y":2, "n":12345678901234567890.0}"#,
        "no JSON at all\n",
    ]
    .into_iter()
    .enumerate()
    {
        let echo = Call::post("/orders").scope("acc-1").key(&format!("k-{n}")).json(body).header("x-test-body", "echo");
        let (first, again) = (gateway.send(&echo).await, gateway.send(&echo).await);
        assert_eq!((seen(&first), &first.body[..]), ((201, false, None), body.as_bytes()));
        assert_eq!((seen(&again), &again.body[..]), ((201, true, None), body.as_bytes()));
        assert_eq!(again.header("content-type"), first.header("content-type"));
    }
}

/// `failed` was written in the transaction that the handler's error rolled back: no row, and so no fingerprint.
#[tokio::test]
async fn failed_is_rolled_back() {
    let upstream = CountingUpstream::start().await;
    let (_, gateway) = gateway(&upstream, "").await;
    assert_eq!(seen(&gateway.send(&order("k").header("x-test-status", "429")).await), (429, false, None));
    let listed = gateway.operate(&["records", "list", "--state", "failed", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed["records"].as_array().map(Vec::len), Some(1), "{listed}");
    let other = Call::post("/orders").scope("acc-1").key("k").json(r#"{"amount":999}"#);
    assert_eq!(seen(&gateway.send(&other).await), (409, false, Some("key-reused")));
    assert_eq!(seen(&gateway.send(&order("k")).await), (201, false, None));
    assert_eq!(upstream.executions("acc-1", "k"), 2);
}

/// `DELETE … WHERE expires_at < now()` took rows of running requests along, whose retries then ran beside them.
#[tokio::test]
async fn a_purge_deletes_live_rows() {
    let upstream = CountingUpstream::start().await;
    let (database, gateway) = gateway(&upstream, "[defaults]\nwait = \"0s\"\n").await;
    let slow = order("slow").header("x-test-gate", "slow");
    let (client, sent) = (gateway.client(), slow.clone());
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.call(&sent).await.expect("an answer") });
    upstream.arrived(1).await;
    // As long ago as may be, as far as any row's own times tell.
    let old = "UPDATE idempotency_keys SET created_at = now() - interval '99 days', started_at = now() - interval '99 days', \
               sweep_at = now() - interval '90 days'";
    SERVER.execute(&database, old).await.expect("it runs for days");
    let swept = gateway.operate(&["sweep"]);
    assert!(swept.status.success(), "{}", String::from_utf8_lossy(&swept.stderr));
    assert_eq!(gateway.send(&slow).await.status, 202);
    upstream.open("slow");
    assert_eq!(seen(&asking.join_next().await.expect("one").expect("no panic")), (201, false, None));
    assert_eq!(seen(&gateway.send(&slow).await), (201, true, None));
    assert_eq!(upstream.executions("acc-1", "slow"), 1);
}

/// The table is there, with rows of each state; two nodes start on it at once.
#[tokio::test]
async fn its_table_is_taken_over_and_served() {
    let upstream = CountingUpstream::start().await;
    let database = SERVER.database().await.expect("a new database");
    // SHA-256 of {"amount":1200}, by itself and as POST:/orders:{"amount":1200}.
    let sql = format!(
        "{SEED_TABLE}; INSERT INTO idempotency_keys \
             (account_id, idempotency_key, request_hash, status, response_status, response_body, expires_at) \
         SELECT 'acc-1', k, encode(sha256(convert_to(h, 'UTF8')), 'hex'), s, c, b::jsonb, now() + e * interval '1 hour' \
         FROM (VALUES \
             ('done', '{{\"amount\":1200}}', 'completed', 201, '{{\"order\": 7}}', 1), \
             ('joined', 'POST:/orders:{{\"amount\":1200}}', 'completed', 201, '{{\"order\": 8}}', 1), \
             ('strange', 'of another formula', 'completed', 201, '{{\"order\": 9}}', 1), \
             ('failed', '{{\"amount\":1200}}', 'failed', 500, NULL, 1), \
             ('failed-otherwise', 'of another formula', 'failed', NULL, NULL, 1), \
             ('running', '{{\"amount\":1200}}', 'processing', NULL, NULL, 1), \
             ('old', '{{\"amount\":1200}}', 'completed', 201, '{{}}', -1)) AS rows (k, h, s, c, b, e)"
    );
    SERVER.execute(&database, &sql).await.expect("a table of the seed's");
    let (store, url) = (SERVER.url(&database), upstream.url());
    let (one, two) = tokio::join!(Gateway::on_server(&store, &url, ""), Gateway::on_server(&store, &url, ""));
    for gateway in [&one, &two] {
        for (key, body) in [("done", r#"{"order": 7}"#), ("joined", r#"{"order": 8}"#)] {
            let replay = gateway.send(&order(key)).await;
            assert_eq!((seen(&replay), &replay.body[..]), ((201, true, None), body.as_bytes()), "{key}");
            assert_eq!(replay.header("content-type"), Some("application/json"));
        }
        let respelled = Call::post("/orders").scope("acc-1").key("done").json(" { \"amount\" : 1200 } ");
        assert_eq!(seen(&gateway.send(&respelled).await), (201, true, None));
        let other = Call::post("/orders").scope("acc-1").key("done").json(r#"{"amount":1201}"#);
        assert_eq!(seen(&gateway.send(&other).await), (409, false, Some("key-reused")));
        for key in ["strange", "failed-otherwise"] {
            assert_eq!(seen(&gateway.send(&order(key)).await), (409, false, Some("key-reused")), "{key}");
        }
        assert_eq!(seen(&gateway.send(&order("running")).await), (504, false, Some("outcome-unknown")));
    }
    for key in ["done", "joined", "strange", "failed-otherwise", "running"] {
        assert_eq!(upstream.executions("acc-1", key), 0, "{key}");
    }
    // What failed, and what has expired, runs again, once.
    for key in ["failed", "old"] {
        assert_eq!(seen(&one.send(&order(key)).await), (201, false, None), "{key}");
        assert_eq!(seen(&two.send(&order(key)).await), (201, true, None), "{key}");
        assert_eq!(upstream.executions("acc-1", key), 1);
    }
    // Another account's key of that name is another's.
    let another = Call::post("/orders").scope("acc-2").key("done").json(r#"{"amount":1200}"#);
    assert_eq!(seen(&one.send(&another).await), (201, false, None));
}
