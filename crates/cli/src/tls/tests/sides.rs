//! Both sides against each other, and all configurations of the program in one process.

use std::sync::Arc;

use rustls::ProtocolVersion;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (client.unwrap(), accepted.unwrap().0)
}

/// A process-wide default would be whoever's came first, and rustls panics where two providers are compiled in and none is
/// chosen. So all of the program's configurations are made here, beside those of its other libraries.
#[tokio::test]
async fn every_configuration_is_made_in_one_process_by_one_provider() {
    let files = Files::new();
    files.put("client", &files.authority.issue(&["gateway"]));
    let asking = TlsConfig { client_ca: Some(files.path("ca.pem")), ..files.listener() };
    let showing = UpstreamTlsConfig {
        cert: Some(files.path("client.pem")),
        key: Some(files.path("client.key")),
        ..files.upstream()
    };
    for listener in [files.listener(), asking] {
        for upstream in [files.upstream(), showing.clone()] {
            let (listener, _) = ListenerTls::load(&listener).unwrap();
            let (upstream, _) = UpstreamTls::load(&upstream).unwrap();
            let (client, server) = pair().await;
            let (client, server) = tokio::join!(upstream.connect(client, &[b"http/1.1"]), listener.accept(server));
            let (client, server) = (client.unwrap(), server.unwrap());
            assert_eq!(client.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_3));
            assert_eq!(server.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        }
    }
    // Without authorities of one's own the machine's are used; whether it has any isn't asked here.
    let system = UpstreamTls::load(&UpstreamTlsConfig { ca: None, ..files.upstream() });
    assert!(system.is_ok() || system.is_err_and(|finding| finding.text.contains("no certificate authorities")));
    reqwest::Client::builder().build().expect("another library's client");
    assert!(rustls::crypto::CryptoProvider::get_default().is_none(), "the program sets no default for its process");
}

#[tokio::test]
async fn a_client_that_offers_only_what_is_not_spoken_is_told_so() {
    let files = Files::new();
    let (listener, _) = ListenerTls::load(&files.listener()).unwrap();
    let (upstream, _) = UpstreamTls::load(&files.upstream()).unwrap();
    let (client, server) = pair().await;
    let (client, server) = tokio::join!(upstream.connect(client, &[b"spdy/3"]), listener.accept(server));
    assert!(client.is_err() && server.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_come_is_given_up() {
    let files = Files::new();
    let (listener, _) = ListenerTls::load(&files.listener()).unwrap();
    let (_silent, server) = pair().await;
    let error = listener.accept(server).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

/// A resumed session would bring no certificate that is checked again.
#[tokio::test]
async fn sessions_are_resumed_unless_clients_are_asked_for_certificates() {
    for (asked, resumed) in [(false, true), (true, false)] {
        let files = Files::new();
        let client_ca = asked.then(|| files.path("ca.pem"));
        let (listener, _) = ListenerTls::load(&TlsConfig { client_ca, ..files.listener() }).unwrap();
        let (upstream, _) = UpstreamTls::load(&files.upstream()).unwrap();
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let (client, server) = pair().await;
            let (client, server) = tokio::join!(upstream.connect(client, &[b"http/1.1"]), listener.accept(server));
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            // Tickets come behind the handshake; what follows them has been read when they have.
            server.write_all(b"x").await.unwrap();
            server.flush().await.unwrap();
            client.read_exact(&mut [0]).await.unwrap();
            kinds.push(server.get_ref().1.handshake_kind());
        }
        assert_eq!(kinds[1] == Some(rustls::HandshakeKind::Resumed), resumed, "{kinds:?}");
    }
}

#[test]
fn no_early_data_is_taken_or_sent() {
    let files = Files::new();
    let (listener, _) = ListenerTls::load(&files.listener()).unwrap();
    let (upstream, _) = UpstreamTls::load(&files.upstream()).unwrap();
    assert_eq!(listener.0.current().max_early_data_size, 0);
    assert!(!Arc::clone(&upstream.live.current()).enable_early_data);
}
