//! TLS to the upstream, where its moments matter: what was refused before a byte of a request left, and what after; which
//! connection serves again; which HTTP is spoken.

use std::sync::atomic::{AtomicUsize, Ordering};

use oncekey_testkit::tls::rustls::{ServerConfig, ServerConnection};
use oncekey_testkit::tls::{Authority, TlsFront};
use oncekey_testkit::{CountingUpstream, TempDir};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::config::UpstreamTlsConfig;
use crate::tls::UpstreamTls;
use crate::upstream::lines::Line;
use crate::upstream::secure::Offer;

struct Ground {
    authority: Authority,
    directory: TempDir,
}

impl Ground {
    fn new() -> Self {
        Self { authority: Authority::new("root"), directory: oncekey_testkit::scratch_dir().unwrap() }
    }

    /// What a server runs on that insists on certificates of an authority which has issued none to the gateway.
    fn insisting(&self) -> ServerConfig {
        Authority::server(&self.authority.issue(&["localhost"]), Some(&Authority::new("clients")))
    }

    fn server(&self, protocols: &[&[u8]]) -> ServerConfig {
        let mut config = Authority::server(&self.authority.issue(&["localhost"]), None);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config
    }

    fn subject(&self, port: u16, http: UpstreamHttp) -> Subject {
        let ca = self.directory.path().join("ca.pem");
        std::fs::write(&ca, self.authority.pem()).unwrap();
        let config = UpstreamTlsConfig { ca: Some(ca), cert: None, key: None, server_name: "localhost".to_owned() };
        let (tls, _) = UpstreamTls::load(&config).unwrap();
        Subject::with(&format!("127.0.0.1:{port}"), |options| {
            options.tls = Some(Arc::new(tls));
            options.http = http;
            options.connect_timeout = Duration::from_secs(20);
        })
    }
}

/// The server's part of a handshake in TLS 1.3, up to where the client believes that it is over.
async fn half_way(stream: &mut TcpStream, config: ServerConfig) -> ServerConnection {
    let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
    while tls.is_handshaking() && !tls.wants_write() {
        read(stream, &mut tls).await.unwrap();
    }
    write(stream, &mut tls).await;
    tls
}

async fn read(stream: &TcpStream, tls: &mut ServerConnection) -> Result<(), oncekey_testkit::tls::rustls::Error> {
    loop {
        stream.readable().await.unwrap();
        let mut bytes = [0; 4096];
        match stream.try_read(&mut bytes) {
            Ok(read) => {
                assert!(read > 0, "the client goes on");
                let mut read = &bytes[..read];
                while !read.is_empty() {
                    tls.read_tls(&mut read).unwrap();
                    tls.process_new_packets()?;
                }
                return Ok(());
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn write(stream: &mut TcpStream, tls: &mut ServerConnection) {
    let mut bytes = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut bytes).unwrap();
    }
    stream.write_all(&bytes).await.unwrap();
}

/// Goes on until the client's certificate, which isn't there, is refused, and tells the client.
async fn refuse(mut stream: TcpStream, mut tls: ServerConnection) {
    while read(&stream, &mut tls).await.is_ok() {}
    write(&mut stream, &mut tls).await;
    stream.shutdown().await.unwrap();
}

/// Waits until so many bytes are there that haven't been read.
async fn received(stream: &TcpStream, least: usize) {
    let mut bytes = vec![0; least];
    while stream.peek(&mut bytes).await.unwrap() < least {
        tokio::task::yield_now().await;
    }
}

/// The client's part of the handshake alone is much smaller.
const REQUEST: usize = 16 * 1024;

#[tokio::test]
async fn a_client_certificate_refused_after_the_request_was_sent_leaves_it_unknown() {
    let ground = Ground::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let subject = ground.subject(listener.local_addr().unwrap().port(), UpstreamHttp::One);
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let tls = half_way(&mut stream, ground.insisting()).await;
        received(&stream, REQUEST).await;
        refuse(stream, tls).await;
    };
    let mut request = unguarded(Method::POST, RequestBody::whole(vec![b'x'; REQUEST].into()));
    request.extensions_mut().insert(running().await.attempt);
    let (sent, ()) = tokio::join!(subject.send(request), within(server));
    let error = sent.err().unwrap();
    assert!(matches!(error, UpstreamError::Broken(_)), "{error:?}");
}

#[tokio::test]
async fn a_client_certificate_refused_before_a_byte_of_the_request_left_is_proof_that_nothing_was_executed() {
    let ground = Ground::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let subject = ground.subject(listener.local_addr().unwrap().port(), UpstreamHttp::One);
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let tls = half_way(&mut stream, ground.insisting()).await;
        refuse(stream, tls).await;
        // Nobody serves a second connection.
        drop(listener);
    };
    let shared = &subject.upstream.0;
    let (line, ()) = within(async { tokio::join!(shared.lines.line(Offer::One, None), server) }).await;
    let line = line.expect("for the client the handshake is over");
    let Line::One(sender) = &line else { panic!("HTTP/1.1 was offered") };
    within(async {
        while !sender.is_closed() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let attempt = running().await.attempt;
    let sent = within(shared.send(Some(line), keyed(attempt.clone()), Some(&attempt), Offer::One)).await;
    assert!(is_not_sent(sent));
}

/// E12 through TLS: the end that the upstream announces is seen before the next request.
#[tokio::test]
async fn an_idle_connection_that_the_upstream_ended_by_a_close_notify_is_not_used() {
    let ground = Ground::new();
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let plain = upstream(move |_, mut peer| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            peer.message().await;
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        }
    })
    .await;
    let front = TlsFront::start(plain, ground.server(&[])).await;
    let subject = ground.subject(front.address().port(), UpstreamHttp::Auto);
    for number in 1..=20 {
        whole(subject.post().await.expect("an answer")).await.unwrap();
        within(subject.upstream.0.lines.pool.all_closed()).await;
        assert_eq!(opened.load(Ordering::Relaxed), number);
    }
}

#[tokio::test]
async fn a_connection_through_tls_serves_again_and_its_next_resumes_the_session() {
    let ground = Ground::new();
    let counting = CountingUpstream::start().await;
    let front = TlsFront::start(counting.address(), ground.server(&[b"http/1.1"])).await;
    let subject = ground.subject(front.address().port(), UpstreamHttp::Auto);
    for (idle, established) in [(0, 1), (999, 1), (1000, 2)] {
        subject.clock.advance(Duration::from_millis(idle));
        whole(subject.post().await.unwrap()).await.unwrap();
        assert_eq!(front.established(), established);
    }
    assert_eq!((front.resumed(), counting.total()), (1, 3));
}

#[tokio::test]
async fn the_upstream_chooses_the_http_unless_the_setting_does() {
    let ground = Ground::new();
    let (counting, counting_two) = (CountingUpstream::start().await, CountingUpstream::start_http2().await);
    for (spoken, set, via) in [
        (&[&b"h2"[..], b"http/1.1"][..], UpstreamHttp::Auto, Some("h2")),
        (&[b"http/1.1"], UpstreamHttp::Auto, Some("http/1.1")),
        (&[], UpstreamHttp::Auto, None),
        (&[b"h2", b"http/1.1"], UpstreamHttp::One, Some("http/1.1")),
        (&[b"h2", b"http/1.1"], UpstreamHttp::Two, Some("h2")),
    ] {
        let behind = if via == Some("h2") { &counting_two } else { &counting };
        let front = TlsFront::start(behind.address(), ground.server(spoken)).await;
        let answer = ground.subject(front.address().port(), set).post().await.unwrap();
        assert_eq!(answer.status(), 201, "{spoken:?} {set:?}");
        assert_eq!(front.chosen().as_deref(), via.map(str::as_bytes), "{spoken:?} {set:?}");
    }
    // What isn't spoken there was never sent.
    for spoken in [&[&b"http/1.1"[..]][..], &[]] {
        let front = TlsFront::start(counting.address(), ground.server(spoken)).await;
        assert!(is_not_sent(ground.subject(front.address().port(), UpstreamHttp::Two).post().await));
    }
    assert_eq!((counting.total(), counting_two.total()), (3, 2));
}
