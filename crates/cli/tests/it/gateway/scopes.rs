//! Whose request it is, end to end: verified tokens, with the keys that come and go, and cookies; and how many records a
//! scope may have.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use oncekey_testkit::{Answer, Call, CountingUpstream, free_address, scratch_dir};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::stand::{Gateway, oncekey, order, until};

/// Whoever makes tokens and publishes the keys to verify them with, until it is dropped.
pub(super) struct Issuer {
    address: SocketAddr,
    keys: Arc<Mutex<Vec<(&'static str, EncodingKey)>>>,
    _serving: JoinSet<()>,
}

impl Issuer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let keys: Arc<Mutex<Vec<(&'static str, EncodingKey)>>> = Arc::default();
        let (mut serving, published) = (JoinSet::new(), Arc::clone(&keys));
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let published = Arc::clone(&published);
                let answer = service_fn(move |_: Request<Incoming>| {
                    let set = json!({ "keys": published.lock().expect("keys").iter().map(public).collect::<Vec<_>>() });
                    async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(set.to_string())))) }
                });
                connections.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        let issuer = Self { address, keys, _serving: serving };
        issuer.rotate("first");
        issuer
    }

    /// Publishes a new key in place of those before.
    fn rotate(&self, id: &'static str) {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        *self.keys.lock().expect("keys") = vec![(id, EncodingKey::from_ec_der(&pair.serialize_der()))];
    }

    /// A token of the present key that is valid `seconds` longer.
    pub(super) fn token(&self, subject: &str, seconds: i64) -> String {
        #[expect(clippy::disallowed_methods, reason = "the program under test reads the machine's clock")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let expires = i64::try_from(now).expect("a time") + seconds;
        let claims = json!({ "sub": subject, "exp": expires, "iss": "issuer", "aud": "orders" });
        let keys = self.keys.lock().expect("keys");
        let (id, key) = &keys[0];
        let header = Header { kid: Some((*id).to_owned()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, &claims, key).expect("a token")
    }

    /// The section of a configuration that has tokens verified by its keys.
    pub(super) fn section(&self) -> String {
        let address = self.address;
        format!(
            "[jwt]\njwks = \"http://{address}/jwks\"\nissuer = \"issuer\"\naudience = [\"orders\"]\nleeway = \"0s\"\n"
        )
    }

    fn settings(&self) -> String {
        self.section() + "[defaults]\nscope = [\"jwt:sub\", \"header:X-Account-Id\"]\n"
    }
}

fn public((id, key): &(&'static str, EncodingKey)) -> Value {
    let mut public = serde_json::to_value(Jwk::from_encoding_key(key, Algorithm::ES256).expect("a key")).expect("JSON");
    public["kid"] = json!(id);
    public
}

fn bearing(token: &str, key: &str) -> Call {
    Call::post("/orders").key(key).header("authorization", &format!("Bearer {token}")).json("{}")
}

fn scope_source(gateway: &Gateway) -> Vec<(String, String)> {
    let listed = gateway.operate(&["records", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let text = |record: &Value, name: &str| record[name].as_str().expect(name).to_owned();
    let records = listed["records"].as_array().expect("records");
    records.iter().map(|record| (text(record, "scope_source"), text(record, "scope"))).collect()
}

#[tokio::test]
async fn a_verified_token_says_whose_request_it_is_also_after_it_was_renewed() {
    let (upstream, issuer) = (CountingUpstream::start().await, Issuer::start().await);
    let gateway = Gateway::start(&upstream.url(), &issuer.settings()).await;
    let token = issuer.token("acc-1", 600);
    assert!(!gateway.send(&bearing(&token, "k")).await.is_replay());
    assert!(
        gateway.send(&bearing(&issuer.token("acc-1", 700), "k")).await.is_replay(),
        "a new token, the same account"
    );
    assert!(!gateway.send(&bearing(&issuer.token("acc-2", 600), "k")).await.is_replay());
    let forged = bearing(&format!("{}x", issuer.token("acc-1", 600)), "k").scope("acc-1");
    let expired = bearing(&issuer.token("acc-1", -1), "k").scope("acc-1");
    for (call, why) in [(forged, "no key that is known here verifies it"), (expired, "it has expired")] {
        let answer = gateway.send(&call).await;
        assert_eq!(answer.problem(), Some("scope-invalid"), "no weaker source in its place");
        assert!(answer.json()["detail"].as_str().expect("a detail").contains(why));
        assert_eq!(answer.json()["retry"], "same-key", "a retry whose token has expired is no new operation");
    }
    assert!(!gateway.send(&order("k")).await.is_replay(), "without a token: another source, another scope");
    assert_eq!(upstream.total(), 3);
    let mut scopes = scope_source(&gateway);
    scopes.sort();
    let named = |source: &str, scope: &str| (source.to_owned(), scope.to_owned());
    assert_eq!(scopes, [named("header:X-Account-Id", "acc-1"), named("jwt:sub", "acc-1"), named("jwt:sub", "acc-2")]);
    let logs = gateway.process.stderr().all().join("\n");
    assert!(!logs.contains(&token) && !logs.contains(token.rsplit('.').next().expect("a signature")), "{logs}");
}

#[tokio::test]
async fn keys_are_rotated_and_their_issuer_goes_away_while_the_gateway_serves() {
    let (upstream, issuer) = (CountingUpstream::start().await, Issuer::start().await);
    let gateway = Gateway::start(&upstream.url(), &issuer.settings()).await;
    let old = issuer.token("acc-1", 600);
    assert_eq!(gateway.send(&bearing(&old, "k-1")).await.problem(), None);
    issuer.rotate("second");
    let (gateway, new) = (&gateway, &issuer.token("acc-1", 600));
    until("the new key", || async move {
        let answer = gateway.send(&bearing(new, "k-2")).await;
        match answer.problem() {
            None => Some(()),
            problem => {
                assert_eq!(problem, Some("scope-invalid"));
                None
            }
        }
    })
    .await;
    assert_eq!(gateway.send(&bearing(&old, "k-1")).await.problem(), Some("scope-invalid"), "its key was withdrawn");
    drop(issuer);
    assert!(gateway.send(&bearing(new, "k-2")).await.is_replay(), "the last keys stay");
    assert_eq!(upstream.total(), 2);
}

#[tokio::test]
async fn keys_stay_through_a_reload_and_others_must_be_there_before_they_count() {
    let (upstream, issuer) = (CountingUpstream::start().await, Issuer::start().await);
    let mut gateway = Gateway::start(&upstream.url(), &issuer.settings()).await;
    let token = issuer.token("acc-1", 600);
    assert!(!gateway.send(&bearing(&token, "k")).await.is_replay());
    let (settings, other) = (issuer.settings(), Issuer::start().await);
    drop(issuer);
    let (reloaded, said) = gateway.reload(&format!("{settings}wait = \"3s\"\n")).await;
    assert!(reloaded, "an issuer that is away holds up no reload: {said:?}");
    assert!(gateway.send(&bearing(&token, "k")).await.is_replay());
    let (reloaded, said) = gateway.reload(&other.settings()).await;
    assert!(reloaded, "{said:?}");
    assert_eq!(
        gateway.send(&bearing(&token, "k")).await.problem(),
        Some("scope-invalid"),
        "its issuer is none any more"
    );
    assert!(gateway.send(&bearing(&other.token("acc-1", 600), "k")).await.is_replay());
    let (reloaded, said) = gateway.reload("[jwt]\njwks = \"file:absent\"\n[defaults]\nscope = [\"jwt:sub\"]\n").await;
    assert!(!reloaded && said.iter().any(|line| line.contains("jwt.jwks: file:absent")), "{said:?}");
    assert!(gateway.send(&bearing(&other.token("acc-1", 600), "k")).await.is_replay());
}

#[tokio::test]
async fn without_the_keys_it_does_not_start() {
    let nobody = free_address().expect("a port");
    let directory = scratch_dir().expect("a directory");
    let exits = |jwks: &str| {
        let settings = format!("start_timeout = \"0s\"\n[jwt]\njwks = \"{jwks}\"\n[defaults]\nscope = [\"jwt:sub\"]\n");
        let file = directory.path().join("oncekey.toml");
        std::fs::write(&file, settings).expect("written");
        let (listen, admin) = (free_address().expect("a port"), free_address().expect("a port"));
        let mut command = oncekey();
        command.current_dir(directory.path()).arg("serve").arg("--config").arg(&file);
        command.args(["--listen", &listen.to_string(), "--admin", &admin.to_string()]);
        let output = command.output().expect("oncekey runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (jwks, code) in [(format!("http://{nobody}/jwks"), 69), ("file:absent.json".to_owned(), 64)] {
        let (exit, said) = exits(&jwks);
        assert_eq!(exit, Some(code), "{said}");
        assert!(said.contains(&format!("jwt.jwks: {jwks}: ")), "{said}");
    }
}

#[tokio::test]
async fn a_cookie_is_a_scope_and_nobody_can_name_it_away() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nscope = [\"cookie:sid\"]\n").await;
    let with = |cookie: &str| Call::post("/orders").key("k").header("cookie", cookie).json("{}");
    assert!(!gateway.send(&with("theme=dark; sid=secret-1")).await.is_replay());
    assert!(gateway.send(&with("sid=secret-1")).await.is_replay());
    assert!(!gateway.send(&with("sid=secret-2").header("connection", "cookie")).await.is_replay());
    assert_eq!(gateway.send(&with("sid=secret-1; sid=secret-2")).await.problem(), Some("scope-invalid"));
    assert_eq!(upstream.arrivals()[1].headers["cookie"], "sid=secret-2", "the upstream sees what the gateway saw");
    let kept = format!("{:?} {}", scope_source(&gateway), gateway.process.stderr().all().join("\n"));
    assert!(!kept.contains("secret"), "{kept}");
}

#[tokio::test]
async fn a_derived_key_goes_upstream_and_nobody_can_name_it_away() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nforward_key_as = [\"Idempotence-Key\"]\n").await;
    let call = order("abc").header("idempotence-key", "mine").header("connection", "idempotence-key");
    assert_eq!(gateway.send(&call).await.problem(), None);
    let arrived = &upstream.arrivals()[0].headers;
    let keys: Vec<_> = arrived.get_all("idempotence-key").iter().collect();
    assert_eq!(keys, ["0461b51f-6dcf-4c20-a31d-d3b5d0381b4e"]);
    assert_eq!(arrived["idempotency-key"], "abc");
}

#[tokio::test]
async fn a_scope_has_no_more_records_than_its_quota() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "max_records_per_scope = 2\n").await;
    let problem = async |call: Call| gateway.send(&call).await.problem().map(str::to_owned);
    assert_eq!((problem(order("a")).await, problem(order("b")).await), (None, None));
    let refused: Answer = gateway.send(&order("c")).await;
    assert_eq!((refused.status.as_u16(), refused.problem()), (429, Some("quota-exceeded")));
    assert_eq!((refused.header("retry-after"), refused.header("oncekey-operation-id")), (Some("2"), None));
    assert_eq!(refused.json()["retry"], "same-key");
    assert!(gateway.send(&order("a")).await.is_replay());
    let other = Call::post("/orders").scope("acc-2").key("c").json("{}");
    assert_eq!(problem(other).await, None);
    assert_eq!(upstream.total(), 3);
    let purged = gateway.operate(&["records", "purge", "--key", "a", "--yes"]);
    assert!(purged.status.success(), "{}", String::from_utf8_lossy(&purged.stderr));
    let gateway = &gateway;
    until("room", || async move { gateway.send(&order("c")).await.problem().is_none().then_some(()) }).await;
}

#[tokio::test]
async fn an_open_route_serves_while_the_store_is_away_and_a_closed_one_does_not() {
    let upstream = CountingUpstream::start().await;
    let settings = "store_timeout = \"100ms\"\n[[route]]\npath = \"/orders\"\non_store_error = \"open\"\n\
                    [[route]]\npath = \"/payments\"\n";
    let gateway = Gateway::start(&upstream.url(), settings).await;
    assert_eq!(gateway.send(&order("before")).await.header("oncekey-unguarded"), None);
    // Another program keeps the database busy: no claim gets through, and none can be known not to.
    let database = rusqlite::Connection::open(gateway.store_file()).expect("the store's file");
    database.execute_batch("BEGIN IMMEDIATE").expect("busy");
    let payment = Call::post("/payments").scope("acc-1").key("k").json("{}");
    assert_eq!(gateway.send(&payment).await.problem(), Some("store-unavailable"));
    assert_eq!(upstream.total(), 1, "closed: nothing is executed");
    for executions in [1, 2] {
        let answer = gateway.send(&order("k").header("oncekey-attempt", "9")).await;
        assert_eq!((answer.problem(), answer.header("oncekey-unguarded")), (None, Some("store-unavailable")));
        assert_eq!(upstream.executions("acc-1", "k"), executions);
    }
    assert!(upstream.arrivals().last().expect("the last").headers.get("oncekey-attempt").is_none());
    let metrics = gateway.ask("/metrics").await;
    let counted = "oncekey_requests_total{route=\"/orders\",outcome=\"unguarded\"} 2";
    assert!(String::from_utf8_lossy(&metrics.body).contains(counted));
    database.execute_batch("ROLLBACK").expect("free again");
    let gateway = &gateway;
    until("the store", || async move {
        let answer = gateway.send(&order("after")).await;
        (answer.problem().is_none() && answer.header("oncekey-unguarded").is_none()).then_some(())
    })
    .await;
    assert!(gateway.send(&order("after")).await.is_replay());
}
