//! Refusals word by word: what users read.

use super::{of, refusal};
use crate::settings::Environment;

/// A file, and the whole of what is said about it.
const REFUSALS: &[(&str, &str)] = &[
    ("listn = 1", "oncekey.toml:1:1: listn: no such setting; did you mean `listen`?"),
    ("\n  upstream-idle = \"1s\"", "oncekey.toml:2:3: upstream-idle: no such setting; did you mean `upstream_idle`?"),
    ("[admin]\nport = 1", "oncekey.toml:2:1: admin.port: no such setting; allowed here: listen, token, read_token"),
    ("[swep]\nevery = \"1s\"", "oncekey.toml:1:2: swep: no such setting; did you mean `sweep`?"),
    ("[[routes]]\npath = \"/\"", "oncekey.toml:1:3: routes: no such setting; did you mean `route`?"),
    (
        "[admin]\nnamespace = \"x\"",
        "oncekey.toml:2:1: admin.namespace: no such setting here; `namespace` belongs at the top of the file, before any [section]",
    ),
    ("wait = \"1s\"", "oncekey.toml:1:1: wait: no such setting here; `wait` belongs in [defaults] or a [[route]]"),
    (
        "[defaults]\npath = \"/\"",
        "oncekey.toml:2:1: defaults.path: no such setting here; `path` belongs in a [[route]]",
    ),
    ("[route]\npath = \"/\"", "oncekey.toml:1:2: route: each route is a table of its own: [[route]]"),
    ("route = [1]", "oncekey.toml:1:10: route: it must be a table: [[route]]"),
    ("defaults = 1", "oncekey.toml:1:12: defaults: it must be a table: [defaults]"),
    ("admin = \"127.0.0.1:1\"", "oncekey.toml:1:9: admin: it must be a table, not a text"),
    ("[tls]\nkeys = 1", "oncekey.toml:2:1: tls.keys: no such setting; did you mean `key`?"),
    ("[encryption]\nnonsense = 1", "oncekey.toml:1:2: encryption: not in this version"),
    (
        "[declare]\nappendfsync = \"always\"",
        "oncekey.toml:2:1: declare.appendfsync: no such setting; allowed here: fsync, full_page_writes, synchronous_commit, standbys",
    ),
    (
        "[declare]\nstandbys = \"sync\"",
        "oncekey.toml:2:12: declare.standbys: `sync` is none of them; allowed: none, synchronous, asynchronous",
    ),
    ("[defaults]\nfingerprint = []", "oncekey.toml:2:15: defaults.fingerprint: it must be a table, not a list"),
    (
        "[jwt]\njwks = \"http://issuer.example/jwks\"",
        "oncekey.toml:2:8: jwt.jwks: http:// is for this machine only: whoever can change the keys on their way can forge any scope; allowed: file:PATH, https://HOST/PATH, or http:// on this machine",
    ),
    (
        "[jwt]\naudience = [\"a\", \"\"]",
        "oncekey.toml:2:18: jwt.audience: the text is empty; allowed: a text, or a list of texts",
    ),
    (
        "[[route]]\nscope = [\"jwt:\"]",
        "oncekey.toml:2:10: route.scope: `jwt:` needs the name of a claim after the colon; allowed: a list of header:NAME, cookie:NAME, authorization, jwt:CLAIM, client-cert, static:VALUE",
    ),
    (
        "[[route]]\nforward_key_as = [\"Idempotence-Key\", \"Authorization\"]",
        "oncekey.toml:2:38: route.forward_key_as: `Authorization` has a meaning of its own; allowed: a list of header names that don't frame the message or carry a credential",
    ),
    (
        "[[route]]\nforward_key_as = [\"Oncekey-Attempt\"]",
        "oncekey.toml:2:19: route.forward_key_as: `Oncekey-Attempt` has a meaning of its own; allowed: a list of header names that don't frame the message or carry a credential",
    ),
    (
        "[[route]]\nfingerprint = { headers = [\"X-A\", \"authorization\"] }",
        "oncekey.toml:2:35: route.fingerprint.headers: Authorization can't be part of the fingerprint; allowed: a list of header names, without Authorization",
    ),
    (
        "[[route]]\nfingerprint = { ignore = [\"/a\", \"\"] }",
        "oncekey.toml:2:33: route.fingerprint.ignore: `` can't be ignored: the empty pointer means the whole body; allowed: a list of JSON pointers (RFC 6901), like \"/meta/trace\"",
    ),
    (
        "[defaults]\nfingerprint.ignore = [\"meta.trace\"]",
        "oncekey.toml:2:23: defaults.fingerprint.ignore: `meta.trace` can't be ignored: a pointer begins with `/`; allowed: a list of JSON pointers (RFC 6901), like \"/meta/trace\"",
    ),
    (
        "[defaults]\nfingerprint.ignore = [\"/a~b\"]",
        "oncekey.toml:2:23: defaults.fingerprint.ignore: `/a~b` can't be ignored: `~` is written `~0`, and `/` within a name `~1`; allowed: a list of JSON pointers (RFC 6901), like \"/meta/trace\"",
    ),
    (
        "[[route]]\nfingerprint.header = []",
        "oncekey.toml:2:13: route.fingerprint.header: no such setting; did you mean `headers`?",
    ),
    ("lease = \"999ms\"", "oncekey.toml:1:9: lease: 999ms is out of range; allowed: a duration from 1s to 1h"),
    (
        "lease = 30",
        "oncekey.toml:1:9: lease: 30 needs a unit, like \"30s\" or \"30ms\"; allowed: a duration from 1s to 1h",
    ),
    (
        "lease = \"30\"",
        "oncekey.toml:1:9: lease: `30` needs a unit: ms, s, m, h or d; allowed: a duration from 1s to 1h",
    ),
    (
        "lease = \"1 month\"",
        "oncekey.toml:1:9: lease: ` month` is no unit of time; units are ms, s, m, h and d; allowed: a duration from 1s to 1h",
    ),
    (
        "max_buffered = \"1MB/s\"",
        "oncekey.toml:1:16: max_buffered: `MB/s` is no unit of size; units are B, KB, MB, GB, KiB, MiB and GiB; allowed: a size from 64KiB to 1024GiB",
    ),
    (
        "max_inflight = 99999999999999999999",
        "oncekey.toml:1:16: max_inflight: it must be a whole number, not a number that is too large; allowed: a whole number from 1 to 1000000",
    ),
    (
        "auto_migrate = \"true\"",
        "oncekey.toml:1:16: auto_migrate: it must be true or false, not a text; allowed: true, false",
    ),
    (
        "listen = \":8080\"",
        "oncekey.toml:1:10: listen: `:8080` names no address; every address is 0.0.0.0:8080; allowed: IP:PORT, like 127.0.0.1:8080 or [::1]:8080",
    ),
    (
        "listen = \"localhost:8080\"",
        "oncekey.toml:1:10: listen: `localhost:8080` names a host; an address is needed; allowed: IP:PORT, like 127.0.0.1:8080 or [::1]:8080",
    ),
    (
        "upstream = \"ftp://api\"",
        "oncekey.toml:1:12: upstream: its scheme is no upstream's; allowed: http://HOST[:PORT] or https://HOST[:PORT]",
    ),
    ("[tls]\ncert = \"\"", "oncekey.toml:2:8: tls.cert: it is empty; allowed: the path of a file"),
    (
        "[upstream_tls]\nserver_name = \"a b\"",
        "oncekey.toml:2:15: upstream_tls.server_name: `a b` is no name of a server; allowed: a DNS name or an IP address",
    ),
    (
        "upstream = \"http://api/v1\"",
        "oncekey.toml:1:12: upstream: it can't hold a path or a query; the request's own are used; allowed: http://HOST[:PORT] or https://HOST[:PORT]",
    ),
    (
        "upstream = \"http://api?a=b\"",
        "oncekey.toml:1:12: upstream: it can't hold a path or a query; the request's own are used; allowed: http://HOST[:PORT] or https://HOST[:PORT]",
    ),
    (
        "upstream = \"http://me:s3cret@api\"",
        "oncekey.toml:1:12: upstream: it can't hold credentials; allowed: http://HOST[:PORT] or https://HOST[:PORT]",
    ),
    (
        "upstream = \"api:3000\"",
        "oncekey.toml:1:12: upstream: it needs a scheme; allowed: http://HOST[:PORT] or https://HOST[:PORT]",
    ),
    (
        "upstream = \"http://\"",
        "oncekey.toml:1:12: upstream: it is no URL; allowed: http://HOST[:PORT] or https://HOST[:PORT]",
    ),
    (
        "upstream = \"http://api:99999\"",
        "oncekey.toml:1:12: upstream: its port is none from 1 to 65535; allowed: http://HOST[:PORT] or https://HOST[:PORT]",
    ),
    (
        "store = \"postgres://me:s3cret@db/x?sslmode=s3cret\"",
        "oncekey.toml:1:9: store: sslmode is one of disable, prefer, require, verify-ca, verify-full; allowed: sqlite:PATH, postgres://HOST/DATABASE, memory:",
    ),
    (
        "store = \"postgres://me:s3cret@db/x?target_session_attrs=any\"",
        "oncekey.toml:1:9: store: target_session_attrs can only be read-write: claims never read a replica; allowed: sqlite:PATH, postgres://HOST/DATABASE, memory:",
    ),
    (
        "store = \"postgres://me:s3cret@/x\"",
        "oncekey.toml:1:9: store: it needs a host; allowed: sqlite:PATH, postgres://HOST/DATABASE, memory:",
    ),
    (
        "store = \"redis://h\"",
        "oncekey.toml:1:9: store: redis: is not in this version; allowed: sqlite:PATH, postgres://HOST/DATABASE, memory:",
    ),
    (
        "store = \"oncekey.db\"",
        "oncekey.toml:1:9: store: it needs a scheme; allowed: sqlite:PATH, postgres://HOST/DATABASE, memory:",
    ),
    (
        "store = \"mysql://h\"",
        "oncekey.toml:1:9: store: its scheme is no store's; allowed: sqlite:PATH, postgres://HOST/DATABASE, memory:",
    ),
    (
        "store = \"sqlite://oncekey.db\"",
        "oncekey.toml:1:9: store: a path stands right after `sqlite:`, without `//` (sqlite:/var/lib/oncekey.db); allowed: sqlite:PATH, postgres://HOST/DATABASE, memory:",
    ),
    (
        "store = \"sqlite:\"",
        "oncekey.toml:1:9: store: `sqlite:` needs the path of a file; allowed: sqlite:PATH, postgres://HOST/DATABASE, memory:",
    ),
    (
        "store = \"sqlite::memory:\"",
        "oncekey.toml:1:9: store: a store in memory is `memory:`; allowed: sqlite:PATH, postgres://HOST/DATABASE, memory:",
    ),
    (
        "namespace = \"a b\"",
        "oncekey.toml:1:13: namespace: a namespace has 1 to 64 characters out of A-Z a-z 0-9 . _ -; allowed: 1 to 64 characters out of A-Z a-z 0-9 . _ -",
    ),
    (
        "[admin]\ntoken = \"s3cret\"",
        "oncekey.toml:2:9: admin.token: a secret is never written here; name where it is kept; allowed: env:NAME, file:PATH",
    ),
    (
        "profile = \"strip\"",
        "oncekey.toml:1:11: profile: `strip` is none of them; did you mean `stripe`?; allowed: default, ietf, stripe",
    ),
    (
        "[[route]]\nin_progress_status = 204",
        "oncekey.toml:2:22: route.in_progress_status: 204 is none of them; allowed: 202, 409, 423, 425",
    ),
    (
        "problem_type_base = \"errors/\"",
        "oncekey.toml:1:21: problem_type_base: it is no URI; allowed: a URI or a path, to which the code is added",
    ),
    (
        "[admin]\nproblem_type_base = \"/\"",
        "oncekey.toml:2:1: admin.problem_type_base: no such setting here; `problem_type_base` belongs at the top of the file, in [defaults] or in a [[route]]",
    ),
    (
        "[defaults]\nanswer_headers = { \"Content-Length\" = \"0\" }",
        "oncekey.toml:2:18: defaults.answer_headers: `Content-Length` can't be fixed: it frames the message, or oncekey says it itself; allowed: a table of header names and values, or a list of \"NAME: VALUE\"; none that oncekey sets itself",
    ),
    (
        "[[route]]\nanswer_headers = [\"X-A: 1\", \"Oncekey-Problem: none\"]",
        "oncekey.toml:2:29: route.answer_headers: `Oncekey-Problem` can't be fixed: it frames the message, or oncekey says it itself; allowed: a table of header names and values, or a list of \"NAME: VALUE\"; none that oncekey sets itself",
    ),
    (
        "[[route]]\nanswer_headers = [\"X-A\"]",
        "oncekey.toml:2:19: route.answer_headers: `X-A` has no colon; allowed: a table of header names and values, or a list of \"NAME: VALUE\"; none that oncekey sets itself",
    ),
    (
        "[[route]]\nanswer_headers = { X-A = \"a\\r\\nX-B: b\" }",
        "oncekey.toml:2:18: route.answer_headers: `X-A` needs a value of visible ASCII characters; allowed: a table of header names and values, or a list of \"NAME: VALUE\"; none that oncekey sets itself",
    ),
    (
        "[[route]]\nanswer_headers = { X-A = 1 }",
        "oncekey.toml:2:18: route.answer_headers: `X-A`: it must be a text, not a number; allowed: a table of header names and values, or a list of \"NAME: VALUE\"; none that oncekey sets itself",
    ),
    (
        "[defaults]\nkey = \"Required\"",
        "oncekey.toml:2:7: defaults.key: `Required` is none of them; did you mean `required`?; allowed: optional, required",
    ),
    (
        "[defaults]\nkey_header = \"Authorization\"",
        "oncekey.toml:2:14: defaults.key_header: `Authorization` has a meaning of its own; allowed: a header name that doesn't frame the message or carry a credential",
    ),
    (
        "[defaults]\nretry_after = \"1500ms\"",
        "oncekey.toml:2:15: defaults.retry_after: a fraction of a second can't be sent in Retry-After; allowed: whole seconds from 0s to 1d",
    ),
    (
        "[[route]]\nscope = [\"heder:X-A\"]",
        "oncekey.toml:2:10: route.scope: `heder:X-A` is no scope source; allowed: a list of header:NAME, cookie:NAME, authorization, jwt:CLAIM, client-cert, static:VALUE",
    ),
    (
        "[[route]]\nscope = [\"header:Authorization\"]",
        "oncekey.toml:2:10: route.scope: `header:Authorization` would write credentials into records; the source is `authorization`; allowed: a list of header:NAME, cookie:NAME, authorization, jwt:CLAIM, client-cert, static:VALUE",
    ),
    (
        "[[route]]\nscope = []",
        "oncekey.toml:2:9: route.scope: the list is empty; allowed: a list of header:NAME, cookie:NAME, authorization, jwt:CLAIM, client-cert, static:VALUE",
    ),
    (
        "[[route]]\nscope = \"authorization\"",
        "oncekey.toml:2:9: route.scope: it must be a list, not a text; allowed: a list of header:NAME, cookie:NAME, authorization, jwt:CLAIM, client-cert, static:VALUE",
    ),
    (
        "[[route]]\nretry_status = [429, 600]",
        "oncekey.toml:2:22: route.retry_status: 600 is no status of an answer; allowed: a list of status codes from 200 to 599 and classes \"2xx\" to \"5xx\"",
    ),
    (
        "[[route]]\nunknown_status = [\"5XX\"]",
        "oncekey.toml:2:19: route.unknown_status: `5XX` is no class; allowed: a list of status codes from 200 to 599 and classes \"2xx\" to \"5xx\"",
    ),
    (
        "[[route]]\nmethods = [\"POST\", \"GET\"]",
        "oncekey.toml:2:20: route.methods: GET can't be guarded; it always passes; allowed: a list of methods in upper case, without GET, HEAD and OPTIONS",
    ),
    (
        "[[route]]\nmethods = [\"post\"]",
        "oncekey.toml:2:12: route.methods: `post` is no method; did you mean `POST`?; allowed: a list of methods in upper case, without GET, HEAD and OPTIONS",
    ),
    (
        "[[route]]\nmethods = [\"PSOT\"]",
        "oncekey.toml:2:12: route.methods: `PSOT` is no method; did you mean `POST`?; allowed: a list of methods in upper case, without GET, HEAD and OPTIONS",
    ),
    (
        "[[route]]\npath = \"orders\"",
        "oncekey.toml:2:8: route.path: `orders` doesn't begin with `/`; allowed: a path from `/` on; {name} takes one segment, {*rest} the tail",
    ),
    (
        "[[route]]\npath = \"/orders/*\"",
        "oncekey.toml:2:8: route.path: `/orders/*` holds a bare `*`, which would be taken as a character; the tail is {*rest}; allowed: a path from `/` on; {name} takes one segment, {*rest} the tail",
    ),
    (
        "[[route]]\npath = \"/orders/:id\"",
        "oncekey.toml:2:8: route.path: `/orders/:id` holds a `:name`, which would be taken as it stands; a segment is {name}; allowed: a path from `/` on; {name} takes one segment, {*rest} the tail",
    ),
    (
        "[[route]]\npath = \"/a\"\n[[route]]\nmethods = [\"POST\"]\npath = \"/a\"",
        "oncekey.toml:5:8: route: POST /a is guarded by two routes",
    ),
    ("[[route]]\n[[route]]\n", "oncekey.toml:2:1: route: POST * is guarded by two routes"),
    (
        "[defaults]\nrequire = \"once\"",
        "oncekey.toml:2:11: defaults.require: `once` is none of them; allowed: best_effort, at_most_once_until_failover, at_most_once, exactly_once",
    ),
    (
        "[defaults]\nwait = \"ü\"",
        "oncekey.toml:2:8: defaults.wait: `ü` is no duration; allowed: a duration from 0s to 1h",
    ),
];

#[test]
fn each_refusal_names_file_line_column_key_and_what_is_allowed() {
    for (text, expected) in REFUSALS {
        assert_eq!(&refusal(text), expected, "{text}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once_in_the_order_of_the_file() {
    let text = "lease = 1\n[defaults]\nfoo = 1\n[[route]]\nwait = true\nasync = \"always\"\n";
    let environment = Environment::from([("ONCEKEY_TTL", "2")]);
    let refusal = of(text, environment, Vec::new()).expect_err("wrong");
    let starts: Vec<_> = refusal.lines().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "oncekey.toml:1:9 lease",
        "oncekey.toml:3:1 defaults.foo",
        "oncekey.toml:5:8 route.wait",
        "oncekey.toml:6:9 route.async",
        "environment ONCEKEY_TTL ttl",
    ];
    assert_eq!(starts, expected);
}

#[test]
fn what_is_not_toml_is_refused_with_its_line_and_column() {
    for (text, place) in [
        ("lease = \"30s\"\nlisten =\n", "oncekey.toml:2:9: not TOML: "),
        ("lease = \"1s\"\nlease = \"2s\"\n", "oncekey.toml:2:1: not TOML: "),
        ("lease = \"30s\n", "oncekey.toml:1:"),
        ("[admin\n", "oncekey.toml:1:"),
    ] {
        let refusal = refusal(text);
        assert!(refusal.starts_with(place), "{refusal}");
        assert!(refusal.contains("not TOML: "), "{refusal}");
    }
}

#[test]
fn a_file_of_another_kind_is_refused_in_few_lines() {
    assert_eq!(refusal(&"# heading\nsome prose\n".repeat(500)).lines().count(), 10);
}

#[test]
fn columns_count_characters() {
    assert!(refusal("namespace = \"ü\" # ü\n").starts_with("oncekey.toml:1:13:"));
    assert!(refusal("sweep = { every = \"1s\", ü = 1 }").starts_with("oncekey.toml:1:25: not TOML"));
    assert!(refusal("sweep = { every = \"1s\", \"ü\" = 1, \"x\" = 2 }").contains("oncekey.toml:1:34: sweep.x:"));
}

#[test]
fn no_refusal_repeats_a_secret() {
    for text in [
        "store = \"postgres://me:s3cret@db:x/x\"",
        "store = \"postgres://me:s3cret@db/x?sslmode=s3cret\"",
        "store = \"s3cret\"",
        "upstream = \"http://me:s3cret@api\"",
        "upstream = \"https://me:s3cret@api\"",
        "[admin]\ntoken = \"s3cret\"",
        "fast = \"redis://:s3cret@h\"",
        "[encryption]\nkeys = [\"s3cret\"]",
    ] {
        assert!(!refusal(text).contains("s3cret"), "{text}");
    }
}
