//! Encrypted connections, by each `sslmode`.

use std::fs;

use oncekey_store::{Store, StoreError};
use oncekey_store_postgres::{PostgresStore, migrate};
use oncekey_store_test::{granted, samples};
use oncekey_testkit::{PostgresServer, Release, scratch_dir};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::task::spawn_blocking;

use crate::place::{NEW, OLD, migrated, options};

/// An authority of the test's own.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

#[tokio::test]
async fn each_mode_looks_at_what_it_promises_to_look_at() {
    for release in [Release::V15, Release::V18] {
        each_mode_on(release).await;
    }
}

/// A server whose certificate is `localhost`'s.
async fn each_mode_on(release: Release) {
    let (ours, other) = (authority(), authority());
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, &ours).expect("a certificate");
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    let server = spawn_blocking(move || {
        let files = [("server.crt", certificate.as_bytes()), ("server.key", key.as_bytes())];
        PostgresServer::start_with(release, "ssl = on", &files)
    });
    let server = server.await.expect("no panic").expect("starts");
    let directory = scratch_dir().expect("a directory");
    for (name, authority) in [("ours.pem", &ours), ("other.pem", &other)] {
        fs::write(directory.path().join(name), authority.pem()).expect("written");
    }
    fs::write(directory.path().join("none.pem"), "").expect("written");
    let root = |name: &str| directory.path().join(name).display().to_string();
    let database = migrated(&server).await;
    let port = server.address().port();
    let url = |host: &str, parameters: &str| format!("postgres://postgres@{host}:{port}/{database}?{parameters}");

    let (ours, other, none) = (root("ours.pem"), root("other.pem"), root("none.pem"));
    let encrypted = async |host: &str, parameters: &str| {
        let store = PostgresStore::open(options(&url(host, parameters))).await?;
        let sql = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND datname = current_database()";
        let raw = tokio_postgres::connect(&server.url(&database), tokio_postgres::NoTls).await.expect("connects");
        let (client, connection) = raw;
        let counted = tokio::select! {
            row = client.query_one(sql, &[]) => row.expect("a row").get::<_, i64>(0),
            _ = connection => 0,
        };
        drop(store);
        Ok::<_, StoreError>(counted > 0)
    };
    for (host, parameters, is_encrypted) in [
        ("127.0.0.1", "sslmode=disable".to_owned(), false),
        ("127.0.0.1", "sslmode=prefer".to_owned(), true),
        ("127.0.0.1", String::new(), true),
        ("127.0.0.1", "sslmode=require".to_owned(), true),
        // The name on the certificate isn't looked at.
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ours}"), true),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={ours}"), true),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ours}"), true),
    ] {
        assert_eq!(encrypted(host, &parameters).await.expect(&parameters), is_encrypted, "{host} {parameters}");
    }
    for (host, parameters) in [
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ours}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={other}")),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={other}")),
        ("localhost", format!("sslmode=require&sslrootcert={other}")),
        ("localhost", "sslmode=verify-full".to_owned()),
        ("localhost", format!("sslmode=verify-full&sslrootcert={none}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={}", root("absent.pem"))),
    ] {
        let refused = PostgresStore::open(options(&url(host, &parameters))).await;
        assert!(matches!(refused, Err(StoreError::Misconfigured(_))), "{host} {parameters}: {refused:?}");
    }
    let full = options(&url("localhost", &format!("sslmode=verify-full&sslrootcert={ours}")));
    migrate(&full).await.expect("migrated");
    let store = PostgresStore::open(full).await.expect("opens");
    granted(&store.claim(samples::claim(&samples::identity("acc-1", "k"), samples::owner())).await);
}

/// A server without TLS: `prefer` goes without, what asks for it gets none.
#[tokio::test]
async fn a_server_without_tls_is_used_only_where_that_is_allowed() {
    for server in [&OLD, &NEW] {
        let database = migrated(server).await;
        for (mode, is_allowed) in [("disable", true), ("prefer", true), ("require", false), ("verify-full", false)] {
            let opened = PostgresStore::open(options(&format!("{}?sslmode={mode}", server.url(&database)))).await;
            assert_eq!(opened.is_ok(), is_allowed, "{mode}: {opened:?}");
        }
    }
}
