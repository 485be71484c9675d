//! The one table of all settings: every name that the protocol and the surface know, where it stands, what it takes, what
//! it is when nobody says, and whether this version has it. Parsing, environment variables, `check-config` and the
//! reference in `docs/configuration.md` are all read off it.

use super::kind::Kind;

/// Where a setting stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// At the top of the file, or in a section if its name holds a dot.
    Top,
    /// In `[defaults]` and in each `[[route]]`.
    Route,
    /// At the top of the file, in `[defaults]` and in each `[[route]]`; what stands closer to a route wins.
    Everywhere,
    /// In a `[[route]]` only.
    OneRoute,
}

/// Whether this version has a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// It has.
    Now,
    /// It hasn't: any use is refused.
    Later,
    /// It hasn't, but this value (in TOML), which states what this version does anyway, is accepted.
    LaterBut(&'static str),
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Its name; one in a section or a table of its own has a dot.
    pub(crate) name: &'static str,
    /// Where it stands.
    pub(crate) level: Level,
    /// What it takes.
    pub(crate) kind: Kind,
    /// Its value when nobody says, as an environment variable would spell it; `None`: nothing.
    pub(crate) default: Option<&'static str>,
    /// Whether this version has it.
    pub(crate) since: Since,
    /// What it is, for the reference.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test that holds the reference to the table"))]
    pub(crate) about: &'static str,
}

impl Setting {
    /// The environment variable that sets it; none sets what belongs to one route alone.
    pub(crate) fn variable(&self) -> Option<String> {
        (self.level != Level::OneRoute).then(|| format!("ONCEKEY_{}", self.name.replace('.', "_").to_ascii_uppercase()))
    }
}

/// What the names of settings begin with that state something about the store (G4).
pub(crate) const DECLARE: &str = "declare.";

/// The setting of that name at that level.
pub(crate) fn find(level: Level, name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.level == level && setting.name == name)
}

const fn setting(name: &'static str, level: Level, kind: Kind, about: &'static str) -> Setting {
    Setting { name, level, kind, default: None, since: Since::Now, about }
}

const fn top(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    Setting { default: Some(default), ..setting(name, Level::Top, kind, about) }
}

const fn route(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    Setting { default: Some(default), ..setting(name, Level::Route, kind, about) }
}

const fn later(name: &'static str, level: Level) -> Setting {
    Setting { since: Since::Later, ..setting(name, level, Kind::Any, "") }
}

const fn later_but(name: &'static str, level: Level, kind: Kind, stated: &'static str) -> Setting {
    Setting { since: Since::LaterBut(stated), ..setting(name, level, kind, "") }
}

use Kind::{Count, Duration, Flag, Seconds, Size, Word};
use Level::{Everywhere, OneRoute, Route, Top};

/// All settings, in the order in which they are shown.
#[rustfmt::skip]
pub(crate) const SETTINGS: &[Setting] = &[
    top("listen", Kind::Address, "127.0.0.1:8080", "Where the gateway listens."),
    top("upstream", Kind::Upstream, "http://127.0.0.1:3000", "The API behind it."),
    top("store", Kind::Store, "sqlite:oncekey.db", "What keeps the records. A relative path is relative to the working directory."),
    top("profile", Word(&["default", "ietf", "stripe"]), "default", "Whose statuses problems have: see [problems](problems/README.md)."),
    top("namespace", Kind::Namespace, "default", "Part of every record's identity (S5): services that share a store need one each."),
    top("lease", Duration("1s", "1h"), "30s", "How long a silent node counts as alive (E4)."),
    top("upstream_idle", Duration("0s", "1h"), "1s", "A keyed request takes a pooled connection only if that was idle for less (E12)."),
    top("upstream_http", Word(&["auto", "1.1", "2"]), "auto", "Which HTTP is spoken with the upstream: what it chooses over TLS and 1.1 without (`auto`), always 1.1, or always 2 (without TLS by prior knowledge)."),
    top("cache_for", Duration("0s", "1h"), "1s", "How long a completed record may be replayed from memory; a purge on another node is seen within it (R8)."),
    top("store_timeout", Duration("10ms", "10m"), "5s", "How long the store may take over a claim (D1)."),
    top("store_connections", Count(4, 1000), "4", "Connections to a `postgres://` store: one for claims, one for outcomes, one for what takes long, the rest for reading."),
    top("start_timeout", Duration("0s", "1d"), "60s", "How long to wait for the store at start before exit 69."),
    top("auto_migrate", Flag, "true", "Create or upgrade the schema at start; off, an old schema is exit 69."),
    top("single_node", Flag, "false", "States that all processes that use the store run on one host; needed in Kubernetes (G5)."),
    top("record_retry", Duration("0s", "7d"), "10m", "How long oncekey keeps trying to record an outcome that the store didn't take (D3)."),
    top("drain", Duration("0s", "1d"), "70s", "How long executions may finish after SIGTERM (D4)."),
    top("drain_delay", Duration("0s", "1h"), "0s", "How long to go on accepting after SIGTERM (D4)."),
    top("max_inflight", Count(1, 1_000_000), "4096", "Keyed requests that execute at a time (W3)."),
    top("max_buffered", Size("64KiB", "1024GiB"), "256MiB", "Bodies held in memory, all requests together (W3)."),
    top("max_waiters_all", Count(0, 10_000_000), "10000", "Duplicates that wait at a time, all keys together (W3)."),
    top("max_records_per_scope", Count(0, 100_000_000), "0", "Records that one scope may have, approximately (`quota-exceeded`); 0: no quota."),
    top("max_connections", Count(1, 1_000_000), "10000", "Client connections at a time. Past them the one that is idle for longest goes; while none is idle, new ones wait."),
    top("max_streams", Count(1, 10_000), "100", "Requests at a time on one connection of HTTP/2."),
    top("max_header_bytes", Size("8KiB", "1MiB"), "16KiB", "Longest head of a request, all its fields together (431)."),
    top("max_headers", Count(10, 10_000), "100", "Most field lines of a request (431, in HTTP/2 400)."),
    top("head_timeout", Duration("10ms", "1h"), "30s", "How long a client may take for the head of a request, from its first byte."),
    top("body_timeout", Duration("10ms", "1h"), "30s", "How long nothing may come of a request's body before its answer begins (`request-invalid`)."),
    top("write_timeout", Duration("10ms", "1h"), "60s", "How long a client may take nothing of an answer before it is cut."),
    top("idle_timeout", Duration("10ms", "1d"), "75s", "How long a client connection may stay without a request. Longer than the load balancer in front keeps its own."),
    setting("tls.cert", Top, Kind::File, "The listener's certificate and the chain behind it, in PEM; with it `listen` speaks TLS. Read again when it changes."),
    setting("tls.key", Top, Kind::File, "The private key of that certificate, in PEM, without a passphrase."),
    setting("client_cert.ca", Top, Kind::File, "The authorities, in PEM, that client certificates are checked against; for the scope source `client-cert` (S1)."),
    setting("upstream_tls.ca", Top, Kind::File, "The authorities, in PEM, that an https upstream's certificate is checked against, instead of the system's."),
    setting("upstream_tls.cert", Top, Kind::File, "The certificate shown to an https upstream that asks for one, in PEM."),
    setting("upstream_tls.key", Top, Kind::File, "The private key of that certificate, in PEM, without a passphrase."),
    setting("upstream_tls.server_name", Top, Kind::ServerName, "The name that an https upstream's certificate must hold, if it isn't the host of `upstream`."),
    top("admin.listen", Kind::Address, "127.0.0.1:9464", "Where health, metrics and the admin API are. Without a token, any address but loopback serves health and metrics only."),
    setting("admin.token", Top, Kind::Secret, "Where the admin API's token is kept. `ONCEKEY_ADMIN_TOKEN` may hold the token itself."),
    setting("admin.read_token", Top, Kind::Secret, "Where a second token is kept, whose holders may look and not change. Alone, nobody may change anything by the API."),
    setting("jwt.jwks", Top, Kind::Jwks, "The keys that tokens of `jwt:` scopes are verified with (S1)."),
    setting("jwt.issuer", Top, Kind::Text, "What `iss` of a token must be."),
    setting("jwt.audience", Top, Kind::Texts, "What must stand in `aud` of a token: one of these."),
    top("jwt.leeway", Duration("0s", "1h"), "60s", "How far the clocks of issuer and gateway may be apart, for `exp` and `nbf`."),
    top("sweep.every", Duration("100ms", "1d"), "1m", "How often expired records are deleted (D5)."),
    top("sweep.batch", Count(1, 100_000), "1000", "How many records one step deletes at most (D5)."),
    setting("declare.fsync", Top, Word(&["on", "off"]), "What a `postgres://` server's `fsync` is, where that can't be read (G4)."),
    setting("declare.full_page_writes", Top, Word(&["on", "off"]), "The same of its `full_page_writes`."),
    setting("declare.synchronous_commit", Top, Word(&["remote_apply", "on", "remote_write", "local", "off"]), "The same of its `synchronous_commit`."),
    setting("declare.standbys", Top, Word(&["none", "synchronous", "asynchronous"]), "What a failover may go to, where that can't be read: no standby, one that has every acknowledged commit, or one that may lack the last of them."),

    Setting { default: Some("urn:oncekey:problem:"), ..setting("problem_type_base", Everywhere, Kind::TypeBase, "What stands before the code in a problem's `type` (P).") },

    setting("path", OneRoute, Kind::Path, "Which paths. Absent: every path that no other route takes."),
    Setting { default: Some("POST,PUT,PATCH,DELETE"), ..setting("methods", OneRoute, Kind::Methods, "Which methods (K7).") },
    route("key", Word(&["optional", "required"]), "optional", "Whether a request without a key passes or is `key-missing` (K6)."),
    route("key_header", Kind::KeyHeader, "Idempotency-Key", "The field that carries the key (K1)."),
    route("key_format", Word(&["any", "uuid", "uuid4"]), "any", "Which keys are taken (K5)."),
    route("scope", Kind::Scope, "header:X-Account-Id", "Whose key it is: the first source that yields a value (S1, S4)."),
    route("ttl", Duration("100ms", "3650d"), "48h", "How long a record is kept once `completed` or `failed` (E9)."),
    route("unknown_ttl", Duration("100ms", "3650d"), "30d", "How long a record is kept once `unknown` (E9)."),
    route("wait", Duration("0s", "1h"), "1s", "How long a duplicate waits for the outcome (W1)."),
    route("retry_after", Seconds("0s", "1d"), "2s", "What `Retry-After` says (W2)."),
    route("retry_status", Kind::Statuses, "401,403,408,425,429", "Answers after which a retry runs again (E8)."),
    route("unknown_status", Kind::Statuses, "502,504", "Answers that leave the outcome unknown (E7)."),
    setting("in_progress_status", Route, Kind::Number(&[202, 409, 423, 425]), "The status of an answer to a request that still runs; unset, 202 in profile `default` and 409 in `ietf` and `stripe` (W2)."),
    route("answer_headers", Kind::AnswerHeaders, "", "Fixed fields of oncekey's own answers, for CORS above all (P4)."),
    route("on_store_error", Word(&["closed", "open"]), "closed", "Whether a request is refused or let through unguarded while the store can't be reached (D1)."),
    route("on_unknown", Word(&["hold", "retry", "probe"]), "hold", "What happens to an unknown outcome: nothing, the next retry executes again, or it asks `probe_url` (E7)."),
    setting("probe_url", Route, Kind::ProbeUrl, "Where an operation's outcome is asked for under `probe`."),
    setting("probe_headers", Route, Kind::ProbeHeaders, "The fields that it is asked with; no others go along."),
    setting("probe_settle", Route, Duration("0s", "30d"), "How long after the claim a 404 of `probe_url` means that nothing was executed. Absent: `upstream_timeout`."),
    route("max_attempts", Count(1, 1000), "5", "An unknown outcome is followed by another execution while there were fewer than this many (E7)."),
    route("trust_outcome", Flag, "false", "Believe the upstream's own verdict in `Oncekey-Outcome` (E11)."),
    setting("require", Route, Word(&["best_effort", "at_most_once_until_failover", "at_most_once", "exactly_once"]), "Refuse to start on a store that promises less (G2)."),
    route("max_request", Size("0B", "4GiB"), "1MiB", "Largest body of a keyed request (`body-too-large`)."),
    route("max_response", Size("0B", "4GiB"), "1MiB", "Largest body that is recorded (R5)."),
    route("max_waiters", Count(0, 1_000_000), "64", "Duplicates of one key that wait at a time (W3)."),
    route("connect_timeout", Duration("10ms", "1h"), "5s", "How long connecting to the upstream may take (E6)."),
    route("answer_timeout", Duration("10ms", "1d"), "60s", "How long the first client waits (W1)."),
    route("upstream_timeout", Duration("10ms", "7d"), "10m", "How long an execution may take (E7)."),
    route("record_timeout", Duration("10ms", "1h"), "5s", "How long an answer is held back for its recording (D3)."),
    route("forward_key_as", Kind::KeyHeaders, "", "Further request fields that carry upstream a key derived from scope and key (E11)."),
    route("stream", Flag, "false", "Pass every response on as it arrives and record none of the bodies (R7)."),
    route("store_set_cookie", Flag, "false", "Record `Set-Cookie` too (R3)."),
    route("drop_headers", Kind::Headers, "", "Further response fields that are not recorded (R3)."),
    route("fingerprint.ignore", Kind::Pointers, "", "What of a JSON body doesn't make two requests differ: a client's clock, a trace id (F7)."),
    route("fingerprint.headers", Kind::FingerprintHeaders, "", "Request fields that are part of what makes two requests the same (F1)."),

    later("fast", Top),
    later("async_workers", Top),
    later("operations_path", Top),
    later("fast_mode", Top),
    later("wait_replicas", Top),
    later("encryption.keys", Top),
    later_but("async", Route, Word(&["never", "allowed", "always"]), "\"never\""),
    later_but("mode", Route, Word(&["enforce", "shadow"]), "\"enforce\""),
];
