//! The keys while the gateway runs: rotated, gone, unreadable, back again.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::super::fetch::Fetch;
use super::super::refresh::{Read, Refresh};
use super::super::start;
use super::*;

/// Publishes a key set, until it is dropped.
struct Publisher {
    address: SocketAddr,
    answer: Arc<Mutex<(u16, Vec<u8>)>>,
    _serving: JoinSet<()>,
}

impl Publisher {
    async fn at(address: SocketAddr, keys: &[Value]) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new((200, set(keys))));
        let (mut serving, given) = (JoinSet::new(), Arc::clone(&answer));
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let given = Arc::clone(&given);
                let answer = service_fn(move |_: Request<Incoming>| {
                    let (status, body) = given.lock().clone();
                    let answer = Response::builder().status(status).header("Connection", "close");
                    async move { Ok::<_, Infallible>(answer.body(Full::new(Bytes::from(body))).unwrap()) }
                });
                connections.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { address, answer, _serving: serving }
    }

    async fn of(keys: &[Value]) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), keys).await
    }

    fn publish(&self, status: u16, body: impl Into<Vec<u8>>) {
        *self.answer.lock() = (status, body.into());
    }

    fn config(&self) -> JwtConfig {
        JwtConfig { jwks: format!("http://{}/jwks", self.address).parse().unwrap(), ..config() }
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

#[tokio::test]
async fn the_last_good_keys_stay_until_there_are_others() {
    let (old, new) = (Issuer::new(Algorithm::ES256, Some("old")), Issuer::new(Algorithm::RS256, Some("new")));
    let publisher = Publisher::of(&[old.public()]).await;
    let (tokens, mut refresh) = start(&publisher.config(), clock(), Duration::ZERO).await.expect("keys");
    let (by_old, by_new) = (old.sign(&claims()), new.sign(&claims()));
    let believed = || [&by_old, &by_new].map(|token| tokens.verify(token.as_bytes()).is_ok());
    assert_eq!(refresh.read_again().await, Read::Same);
    publisher.publish(500, set(&[new.public()]));
    assert_eq!((refresh.read_again().await, believed()), (Read::Failed, [true, false]));
    for nonsense in ["", "<html>", "{\"keys\":[]}"] {
        publisher.publish(200, nonsense);
        assert_eq!((refresh.read_again().await, believed()), (Read::Failed, [true, false]), "{nonsense}");
    }
    publisher.publish(200, vec![b' '; 1024 * 1024 + 1]);
    assert_eq!((refresh.read_again().await, believed()), (Read::Failed, [true, false]), "too large");
    let address = publisher.address;
    drop(publisher);
    assert_eq!((refresh.read_again().await, believed()), (Read::Failed, [true, false]), "nobody there");
    let publisher = Publisher::at(address, &[old.public(), new.public()]).await;
    assert_eq!((refresh.read_again().await, believed()), (Read::Changed, [true, true]));
    publisher.publish(200, set(&[new.public()]));
    assert_eq!((refresh.read_again().await, believed()), (Read::Changed, [false, true]), "rotated out");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let issuer = Issuer::new(Algorithm::ES256, None);
    let elsewhere = Publisher::of(&[issuer.public()]).await;
    let publisher = Publisher::of(&[issuer.public()]).await;
    publisher.publish(302, "");
    let refused = start(&publisher.config(), clock(), Duration::ZERO).await.expect_err("no keys");
    assert!(refused.to_string().ends_with("it was answered with 302"), "{refused}");
    assert!(start(&elsewhere.config(), clock(), Duration::ZERO).await.is_ok());
}

#[tokio::test]
async fn without_keys_nothing_starts() {
    let publisher = Publisher::of(&[]).await;
    let empty = start(&publisher.config(), clock(), Duration::ZERO).await.expect_err("no keys");
    assert_eq!(empty.exit(), crate::exit::Exit::Unavailable);
    let config = publisher.config();
    drop(publisher);
    let gone = start(&config, clock(), Duration::ZERO).await.expect_err("nobody there");
    assert_eq!(gone.exit(), crate::exit::Exit::Unavailable);
    let file = JwtConfig { jwks: "file:/nowhere/jwks.json".parse().unwrap(), ..config };
    let missing = start(&file, clock(), Duration::from_mins(1)).await.expect_err("no file");
    assert_eq!(missing.exit(), crate::exit::Exit::Usage);
    assert!(missing.to_string().starts_with("jwt.jwks: file:/nowhere/jwks.json: it can't be read"), "{missing}");
}

/// A key set in a file, read by a refresh whose time is turned by the test.
struct InFile {
    directory: tempfile::TempDir,
    tokens: Arc<Tokens>,
    running: JoinSet<()>,
}

impl InFile {
    async fn of(keys: &[Value]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let jwks = Jwks::File(directory.path().join("jwks.json"));
        let Jwks::File(path) = &jwks else { unreachable!() };
        std::fs::write(path, set(keys)).unwrap();
        let (tokens, refresh) = start(&JwtConfig { jwks, ..config() }, clock(), Duration::ZERO).await.expect("keys");
        let mut running = JoinSet::new();
        running.spawn(refresh.run());
        Self { directory, tokens, running }
    }

    fn write(&self, keys: &[Value]) {
        std::fs::write(self.directory.path().join("jwks.json"), set(keys)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changed_is_read_again() {
    let (old, new) = (Issuer::new(Algorithm::ES256, None), Issuer::new(Algorithm::ES256, None));
    let file = InFile::of(&[old.public()]).await;
    let token = new.sign(&claims());
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(file.tokens.verify(token.as_bytes()).is_err(), "the control");
    file.write(&[new.public()]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(file.tokens.verify(token.as_bytes()).is_ok());
    let InFile { directory: _kept, tokens, mut running } = file;
    drop(tokens);
    running.join_next().await.expect("it ran").expect("it ends once nobody verifies tokens");
}

/// Counts how often keys are asked for, in place of whoever publishes them.
#[tokio::test(start_paused = true)]
async fn a_token_of_an_unknown_key_has_the_keys_read_again_soon_and_many_such_tokens_not_more_often() {
    let (old, new) = (Issuer::new(Algorithm::ES256, Some("old")), Issuer::new(Algorithm::ES256, Some("new")));
    let published = Arc::new(Mutex::new((0, set(&[old.public()]))));
    let fetch = {
        let published = Arc::clone(&published);
        Fetch::Test(Box::new(move || {
            let mut published = published.lock();
            published.0 += 1;
            Ok(published.1.clone())
        }))
    };
    let tokens = Arc::new(Tokens::new(&config(), KeySet::parse(&set(&[old.public()])).unwrap(), clock()));
    let mut running = JoinSet::new();
    running.spawn(Refresh::new(&tokens, fetch, set(&[old.public()])).run());
    let fetches = || published.lock().0;
    let unknown = new.sign(&claims());
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(fetches(), 0, "not yet due");

    // The key was rotated: its first token is refused, and soon after it isn't.
    published.lock().1 = set(&[old.public(), new.public()]);
    assert!(tokens.verify(unknown.as_bytes()).is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(tokens.verify(unknown.as_bytes()).is_ok());
    assert_eq!(fetches(), 1);

    // Somebody sends tokens of keys that never were, several a second for an hour.
    let nobodys = Issuer::new(Algorithm::ES256, Some("nobody's")).sign(&claims());
    for _ in 0..3600 * 4 {
        assert!(tokens.verify(nobodys.as_bytes()).is_err());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!((30..=75).contains(&fetches()), "about once a minute in an hour, not {}", fetches());
}

#[test]
fn keys_are_fetched_over_tls_or_from_this_machine() {
    for right in
        ["https://issuer.example/jwks", "http://127.0.0.1:1/j", "http://[::1]/j", "http://localhost/j", "file:j.json"]
    {
        assert_eq!(right.parse::<Jwks>().map(|jwks| jwks.to_string()).as_deref(), Ok(right));
    }
    for wrong in [
        "http://issuer.example/jwks",
        "http://10.0.0.1/jwks",
        "http://localhost.example/j",
        "https://user:secret@issuer.example/",
        "ftp://issuer.example/",
        "file:",
        "jwks.json",
        "",
    ] {
        let why = wrong.parse::<Jwks>().expect_err(wrong);
        assert!(!why.contains("secret"), "{why}");
    }
}
