//! What is wrong with a file, word by word.

use super::*;

#[test]
fn a_certificate_with_its_key_is_taken_without_doubts() {
    let (_, doubts) = ListenerTls::load(&Files::new().listener()).unwrap();
    assert_eq!(doubts, []);
}

#[test]
fn files_that_cannot_be_read_at_all_are_told_apart() {
    let files = Files::new();
    std::fs::remove_file(files.path("server.key")).unwrap();
    let finding = ListenerTls::load(&files.listener()).unwrap_err();
    assert!(finding.absent);
    assert_eq!(
        files.without_directory(&finding),
        "tls.key: server.key: can't be read: No such file or directory (os error 2)"
    );
}

#[test]
fn each_wrong_certificate_file_is_told_by_what_is_wrong() {
    let files = Files::new();
    let issued = files.authority.issue(&["localhost"]);
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (content, expected) in [
        ("", "holds no certificate; it isn't PEM (-----BEGIN …), which is needed"),
        ("\u{30}\u{3}binary", "holds no certificate; it isn't PEM (-----BEGIN …), which is needed"),
        (&issued.key, "holds a private key and no certificate"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "holds no certificate"),
        (garbage, "its certificate 1 can't be read"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n", "a section has no -----END line"),
        ("-----BEGIN CERTIFICATE-----\n*!\n-----END CERTIFICATE-----\n", "a section isn't base64"),
        (&"x".repeat(1024 * 1024 + 1), "is larger than 1 MiB"),
    ] {
        files.write("server.pem", content);
        assert_eq!(files.refusal(), format!("tls.cert: server.pem: {expected}"));
    }
}

#[test]
fn each_wrong_key_file_is_told_by_what_is_wrong() {
    let files = Files::new();
    let other = files.authority.issue(&["localhost"]);
    let encrypted = "its private key is encrypted; one without a passphrase is needed (openssl pkey -in OLD -out NEW)";
    for (content, expected) in [
        (other.key.as_str(), format!("its private key isn't that of the certificate in {}", "server.pem")),
        (&other.cert, "holds a certificate and no private key".to_owned()),
        ("", "holds no private key; it isn't PEM (-----BEGIN …), which is needed".to_owned()),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", encrypted.to_owned()),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
            encrypted.to_owned(),
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "its private key can't be used; RSA from 2048 bits, ECDSA and Ed25519 can".to_owned(),
        ),
    ] {
        files.write("server.key", content);
        assert_eq!(files.refusal(), format!("tls.key: server.key: {expected}"));
    }
}

#[test]
fn a_chain_in_the_wrong_order_is_refused_as_such() {
    let files = Files::new();
    let own = std::fs::read_to_string(files.path("server.pem")).unwrap();
    files.write("server.pem", files.authority.pem() + &own);
    assert_eq!(
        files.refusal(),
        "tls.cert: server.pem: its certificates stand in the wrong order: the key's own must be the first, its issuer \
         the next"
    );
    files.write("server.pem", own + &files.authority.pem());
    assert_eq!(ListenerTls::load(&files.listener()).unwrap().1, []);
}

#[test]
fn a_certificate_out_of_its_time_or_beside_its_issuer_is_doubtful() {
    let files = Files::new();
    let doubts = |issued: &Issued| {
        files.put("server", issued);
        let (_, doubts) = ListenerTls::load(&files.listener()).unwrap();
        doubts.iter().map(|doubt| files.without_directory(doubt)).collect::<Vec<_>>()
    };
    let expired = doubts(&files.authority.issue_expired(&["localhost"]));
    assert!(
        expired[0].starts_with("tls.cert: server.pem: its certificate 1 expired on Jan  1 00:00:00 2021"),
        "{expired:?}"
    );
    let early = files.authority.issue_with(&["localhost"], |params| {
        params.not_before = oncekey_testkit::tls::rcgen::date_time_ymd(2100, 1, 1);
        params.not_after = oncekey_testkit::tls::rcgen::date_time_ymd(2101, 1, 1);
    });
    assert!(doubts(&early)[0].contains("its certificate 1 is not valid before Jan  1 00:00:00 2100"));
    let mut stranger = files.authority.issue(&["localhost"]);
    stranger.cert += &Authority::new("another").pem();
    assert!(doubts(&stranger)[0].contains("its certificate 1 isn't issued by the next one"));
}

#[test]
fn an_authoritys_file_without_an_authority_is_refused() {
    let files = Files::new();
    let with_ca =
        || UpstreamTls::load(&files.upstream()).map(drop).map_err(|finding| files.without_directory(&finding));
    assert_eq!(with_ca(), Ok(()));
    files.write("ca.pem", "");
    assert!(with_ca().unwrap_err().starts_with("upstream_tls.ca: ca.pem: holds no certificate"));
    let client_ca = TlsConfig { client_ca: Some(files.path("ca.pem")), ..files.listener() };
    let finding = ListenerTls::load(&client_ca).unwrap_err();
    assert!(files.without_directory(&finding).starts_with("client_cert.ca: ca.pem: holds no certificate"));
}

#[test]
fn a_host_that_no_certificate_can_hold_needs_a_server_name() {
    let files = Files::new();
    let named = |name: &str| UpstreamTls::load(&UpstreamTlsConfig { server_name: name.to_owned(), ..files.upstream() });
    assert!(named("api_1").is_ok(), "underscores are usual in the names of containers");
    assert!(named("::1").is_ok() && named("127.0.0.1").is_ok());
    assert_eq!(named("a..b").unwrap_err().setting, "upstream");
}
