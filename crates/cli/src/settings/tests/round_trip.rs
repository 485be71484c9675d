//! What `check-config` prints is a configuration that says the same.

use super::{of, of_file};
use crate::settings::table::{Level, SETTINGS, Setting, Since};
use crate::settings::{Environment, Flag};

/// The example of the documentation, as far as this version has it.
const EXAMPLE: &str = include_str!("../../../../../docs/oncekey.example.toml");

/// A file in which little is as it is built in.
const UNUSUAL: &str = r#"
listen = "[::1]:18080"
store = 'sqlite:C:\data "x".db'
lease = "1m30s"
max_buffered = 1000000000
single_node = true
sweep = { every = "90s", batch = 5 }
admin.token = "file:/run/secrets/token"
upstream = "https://api.internal"

[jwt]
jwks = "file:/etc/oncekey/keys.json"
issuer = "https://issuer.example"
audience = ["orders", "pay"]
leeway = "5s"

[tls]
cert = "server.pem"
key = "server.key"

[client_cert]
ca = "clients.pem"

[upstream_tls]
ca = "upstream.pem"
server_name = "api.example"

[defaults]
scope = ["jwt:sub", "header:x-merchant-id", "static:a,b # c"]
retry_status = [429, "5xx"]
drop_headers = []
async = "never"
fingerprint.headers = ["Accept-Language"]
fingerprint.ignore = ["/meta/trace id", "/a~1b,\"c\""]

[[route]]
path = "/orders/{id}/{*rest}"
methods = ["POST"]
fingerprint = { ignore = [], headers = [] }

[[route]]
scope = ["jwt:sub", "client-cert"]
stream = true
on_unknown = "probe"
probe_url = "https://api.example/{scope}/{key}"
probe_headers = { X-Asks = "oncekey", Authorization = "env:PROBE_TOKEN" }
probe_settle = "20m"
forward_key_as = ["Idempotence-Key"]
"#;

/// The printed form without its comments.
fn said(shown: &str) -> Vec<String> {
    shown.lines().map(|line| line.rsplit_once("  # ").map_or(line, |(said, _)| said).trim_end().to_owned()).collect()
}

#[test]
fn what_is_printed_parses_back_to_the_same() {
    for text in ["", EXAMPLE, UNUSUAL] {
        let first = of_file(text).expect(text);
        let shown = first.show();
        let second = of_file(&shown).expect(&shown);
        assert_eq!(said(&first.show()), said(&second.show()));
        assert_eq!(format!("{:?}", first.config), format!("{:?}", second.config));
    }
}

#[test]
fn what_flags_and_the_environment_say_is_printed_as_a_file_would_say_it() {
    let flags = vec![Flag { name: "--admin", setting: "admin.listen", text: "127.0.0.1:1".to_owned() }];
    let environment = Environment::from([("ONCEKEY_STREAM", "true"), ("ONCEKEY_UNKNOWN_STATUS", "504,4xx")]);
    let first = of("", environment, flags).expect("right");
    let second = of_file(&first.show()).expect("right");
    assert_eq!(format!("{:?}", first.config), format!("{:?}", second.config));
}

#[test]
fn the_example_states_what_is_built_in_and_one_route() {
    let example = of_file(EXAMPLE).expect("right");
    let built_in = of_file("[[route]]\nmethods = [\"POST\"]\npath = \"/orders\"\nkey = \"required\"\n").expect("right");
    let without_token = |config: &crate::config::Config| {
        let mut config = config.clone();
        config.admin.token = None;
        format!("{config:?}")
    };
    assert_eq!(without_token(&example.config), without_token(&built_in.config));
    assert!(example.warnings.is_empty());
}

#[test]
fn every_setting_is_printed_also_what_nobody_set() {
    let shown = of_file("").expect("right").show();
    let printed = shown.lines().filter(|line| line.contains(" = ") || line.contains(" is not set ")).count();
    let printable = |setting: &&Setting| setting.since == Since::Now && setting.level != Level::OneRoute;
    assert_eq!(printed, SETTINGS.iter().filter(printable).count(), "{shown}");
}

#[test]
fn every_line_says_where_its_value_came_from() {
    let shown = of_file(UNUSUAL).expect("right").show();
    for line in shown.lines().filter(|line| line.contains(" = ")) {
        let origin = line.rsplit_once("  # ").expect(line).1;
        assert!(origin == "default" || origin.starts_with("file oncekey.toml:"), "{line}");
    }
    assert!(shown.contains("\n[[route]]  # file oncekey.toml:"), "{shown}");
}

#[test]
fn the_password_of_a_store_is_never_shown() {
    let shown = of_file("store = \"postgres://me:s3cret@db,other:5433/x?password=s3cret\"").expect("right").show();
    assert!(shown.contains("store = \"postgres://db:5432,other:5433/x\""), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains("me:"), "{shown}");
}
