//! Files that change while they are in use.

use tokio::sync::watch;

use super::*;
use crate::tls::Tls;
use crate::tls::live::Checked;

/// What the listener shows to a new client.
fn shown(tls: &ListenerTls) -> usize {
    std::sync::Arc::as_ptr(&tls.0.current()) as usize
}

#[test]
fn what_is_new_is_used_and_what_is_wrong_is_refused_once() {
    let files = Files::new();
    let (tls, _) = ListenerTls::load(&files.listener()).unwrap();
    let first = shown(&tls);
    assert_eq!(tls.check(), Checked::Unchanged);

    // The certificate is replaced before its key.
    let next = files.authority.issue(&["localhost"]);
    files.write("server.pem", &next.cert);
    assert_eq!([tls.check(), tls.check()], [Checked::Refused, Checked::Unchanged]);
    assert_eq!(shown(&tls), first);
    files.write("server.key", &next.key);
    assert_eq!(tls.check(), Checked::Renewed);
    let second = shown(&tls);
    assert_ne!(second, first);

    // A file that is gone for a moment.
    std::fs::remove_file(files.path("server.key")).unwrap();
    assert_eq!([tls.check(), tls.check()], [Checked::Refused, Checked::Unchanged]);
    assert_eq!(shown(&tls), second);
    files.write("server.key", &next.key);
    assert_eq!(tls.check(), Checked::Renewed);
}

#[test]
fn the_authorities_of_clients_and_the_upstreams_files_are_renewed_too() {
    let files = Files::new();
    files.put("client", &files.authority.issue(&["gateway"]));
    let listener = TlsConfig { client_ca: Some(files.path("ca.pem")), ..files.listener() };
    let (listener, _) = ListenerTls::load(&listener).unwrap();
    let upstream = UpstreamTlsConfig {
        cert: Some(files.path("client.pem")),
        key: Some(files.path("client.key")),
        ..files.upstream()
    };
    let (upstream, _) = UpstreamTls::load(&upstream).unwrap();
    let tls = Tls { listener: Some(listener.into()), upstream: Some(upstream.into()) };
    assert_eq!(tls.check(), [Checked::Unchanged, Checked::Unchanged]);
    files.put("client", &files.authority.issue(&["gateway"]));
    assert_eq!(tls.check(), [Checked::Unchanged, Checked::Renewed]);
    files.write("ca.pem", Authority::new("next").pem());
    assert_eq!(tls.check(), [Checked::Renewed, Checked::Renewed]);
}

#[tokio::test(start_paused = true)]
async fn files_are_looked_at_each_minute() {
    let files = Files::new();
    let (listener, _) = ListenerTls::load(&files.listener()).unwrap();
    let listener = std::sync::Arc::new(listener);
    let first = shown(&listener);
    files.put("server", &files.authority.issue(&["localhost"]));
    let tls = watch::Sender::new(Tls { listener: Some(listener.clone()), upstream: None });
    let renewed = async {
        while shown(&listener) == first {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = crate::tls::keep_up_to_date(tls.subscribe()) => panic!("it goes on"),
        () = renewed => {}
    }
}

#[test]
fn what_a_reload_read_goes_on_in_the_listener_that_runs() {
    let files = Files::new();
    let load = || Some(std::sync::Arc::new(ListenerTls::load(&files.listener()).unwrap().0));
    let mut running = Tls { listener: load(), upstream: None };
    let listener = running.listener.clone().unwrap();
    let first = shown(&listener);
    files.put("server", &files.authority.issue(&["localhost"]));
    let (upstream, _) = UpstreamTls::load(&files.upstream()).unwrap();
    running.take_over(Tls { listener: load(), upstream: Some(upstream.into()) });
    assert_ne!(shown(&listener), first);
    assert_eq!(running.check(), [Checked::Unchanged, Checked::Unchanged]);
    assert!(running.upstream.is_some());
    // To speak TLS no more takes a restart.
    running.take_over(Tls::default());
    assert!(running.listener.is_some() && running.upstream.is_none());
}
