//! Judgements about values that are right one by one: combinations that can't work are refused, doubtful ones warned
//! about.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use oncekey_core::ScopeSource;
use oncekey_core::policy::Shortfall;

use super::address::StoreUrl;
use super::environment::Environment;
use super::place::Remark;
use super::stated::{Layer, Stated};
use super::table::{DECLARE, Level, find};
use super::value::Value;
use super::values::Values;
use crate::config::{Config, GuardedRoute};
use crate::scopes::ScopeFrom;

/// What is wrong, and what is doubtful.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The configuration is refused for these.
    pub(crate) refused: Vec<Remark>,
    /// It is used all the same.
    pub(crate) warned: Vec<Remark>,
}

/// Judges a configuration that is to be served.
pub(crate) fn check(config: &Config, stated: &Stated, environment: &Environment) -> Findings {
    let mut check = Check { config, top: Values::new([&stated.top]), findings: Findings::default() };
    check.addresses();
    check.one_host(environment);
    check.tokens();
    check.tls();
    check.promises();
    check.declared();
    let none = Layer::new();
    let owns = stated.routes.iter().map(|route| &route.own);
    let owns: Vec<_> = if stated.routes.is_empty() { vec![&none] } else { owns.collect() };
    for (own, guarded) in owns.into_iter().zip(&config.routes) {
        let values = Values::new([own, &stated.defaults]);
        check.route(&values);
        check.requirement(&values, guarded);
    }
    check.idle_probes(stated);
    // What the defaults say is found once for each route that doesn't say otherwise.
    let mut findings = check.findings;
    for remarks in [&mut findings.refused, &mut findings.warned] {
        remarks.sort();
        remarks.dedup();
    }
    findings
}

struct Check<'a> {
    config: &'a Config,
    top: Values<'a>,
    findings: Findings,
}

impl Check<'_> {
    fn refuse(&mut self, values: &Values<'_>, name: &str, text: impl Into<String>) {
        self.findings.refused.push(remark(values, name, text));
    }

    fn warn(&mut self, values: &Values<'_>, name: &str, text: impl Into<String>) {
        self.findings.warned.push(remark(values, name, text));
    }

    fn refuse_top(&mut self, name: &str, text: impl Into<String>) {
        let remark = remark(&self.top, name, text);
        self.findings.refused.push(remark);
    }

    fn warn_top(&mut self, name: &str, text: impl Into<String>) {
        let remark = remark(&self.top, name, text);
        self.findings.warned.push(remark);
    }

    fn addresses(&mut self) {
        let (listen, admin, upstream) = (self.config.listen, &self.config.admin, &self.config.upstream.url);
        if listen.port() != 0 && listen.port() == admin.listen.port() && meet(listen.ip(), admin.listen.ip()) {
            self.refuse_top("admin.listen", format!("{} is taken by `listen`", admin.listen));
        }
        if itself(listen, upstream.ip(), &upstream.host, upstream.port) {
            self.refuse_top("upstream", "it is the gateway itself (`listen`), which would call itself for ever");
        }
        if admin.token.is_none() && admin.read_token.is_none() && !admin.listen.ip().is_loopback() {
            self.warn_top(
                "admin.listen",
                "without `admin.token`, an address that isn't loopback serves health and metrics only",
            );
        }
    }

    /// Pairs that need each other, and files that nothing would look at.
    fn tls(&mut self) {
        let without = |check: &Self, name: &str| check.top.optional(name).is_none();
        for (one, other) in [("tls.cert", "tls.key"), ("upstream_tls.cert", "upstream_tls.key")] {
            for (given, needed) in [(one, other), (other, one)] {
                if !without(self, given) && without(self, needed) {
                    self.refuse_top(given, format!("it needs `{needed}` beside it"));
                }
            }
        }
        if !without(self, "client_cert.ca") {
            if self.config.tls.is_none() {
                let text = "a client certificate comes over TLS only: it needs `tls.cert` and `tls.key`";
                self.refuse_top("client_cert.ca", text);
            } else if !self.config.routes.iter().any(GuardedRoute::reads_certificates) {
                let text = "no route has `client-cert` in its `scope`: certificates are asked for in vain";
                self.warn_top("client_cert.ca", text);
            }
        }
        if self.config.upstream.tls.is_none() {
            let text = format!("`upstream` is {}, not https: it would do nothing", self.config.upstream.url);
            for name in ["upstream_tls.ca", "upstream_tls.cert", "upstream_tls.key", "upstream_tls.server_name"] {
                if !without(self, name) {
                    self.refuse_top(name, text.as_str());
                }
            }
        }
    }

    /// G5: an embedded store serves the processes of one host, and a pod may move to another.
    fn one_host(&mut self, environment: &Environment) {
        let store = &self.config.store.url;
        let is_embedded = !matches!(store, StoreUrl::Postgres(_));
        if is_embedded && environment.has("KUBERNETES_SERVICE_HOST") && !self.top.flag("single_node") {
            let text = format!(
                "{store} serves the processes of one host, and this is Kubernetes (KUBERNETES_SERVICE_HOST is set); \
                 allowed: true, which states that one host runs all of them"
            );
            self.refuse_top("single_node", text);
        }
    }

    fn tokens(&mut self) {
        let stated = |name| self.top.optional(name).is_some();
        let unused = ["jwt.issuer", "jwt.audience"].into_iter().filter(|name| stated(name)).collect::<Vec<_>>();
        if self.config.jwt.is_none() {
            for name in unused {
                self.warn_top(name, "there is no `jwks` beside it, so no token is verified");
            }
            return;
        }
        let from_token = |source: &ScopeFrom| matches!(source, ScopeFrom::Jwt(_));
        if !self.config.routes.iter().any(|guarded| guarded.scope.iter().any(from_token)) {
            self.warn_top("jwt.jwks", "no route's `scope` has a `jwt:` source");
        }
        for (name, others) in [("jwt.issuer", "of another issuer"), ("jwt.audience", "for another audience")] {
            if !unused.contains(&name) {
                self.warn_top(name, format!("not set: a token {others} is taken too, if a key of the set verifies it"));
            }
        }
    }

    fn promises(&mut self) {
        if self.config.store.url == StoreUrl::Memory {
            self.warn_top("store", "memory: forgets every record at exit; a retry after a restart executes again");
        }
        let longest = self.config.routes.iter().map(|guarded| guarded.route.policy.timing.answer_timeout).max();
        if longest.is_some_and(|longest| self.config.drain.limit < longest) {
            self.warn_top("drain", "shorter than `answer_timeout`: a stop may cut off clients that still wait (D4)");
        }
    }

    /// G4: what is stated about a server must be about this store, and one statement not rule out another.
    fn declared(&mut self) {
        let store = &self.config.store;
        if !matches!(store.url, StoreUrl::Postgres(_)) {
            let text =
                format!("is about a postgres:// store, and the store is {}, of which everything is read", store.url);
            for name in store.declared.keys() {
                self.refuse_top(&format!("{DECLARE}{name}"), text.as_str());
            }
            return;
        }
        let commit = store.declared.get("synchronous_commit");
        if let (Some(&"synchronous"), Some(commit @ (&"local" | &"off"))) = (store.declared.get("standbys"), commit) {
            let text = format!(
                "\"synchronous\" contradicts `synchronous_commit` = \"{commit}\", which waits for no standby; \
                 allowed beside it: none, asynchronous"
            );
            self.refuse_top("declare.standbys", text);
        }
    }

    fn route(&mut self, values: &Values<'_>) {
        self.sizes(values);
        self.scope(values);
        self.statuses(values);
        if values.word("on_store_error") == "open" {
            let text = "`open`: while the store can't be reached, requests are executed without a record, and each of their \
                        retries executes again (D1)";
            self.warn(values, "on_store_error", text);
        }
        self.unknowns(values);
        let (day, ttl) = (Duration::from_hours(24), values.duration("ttl"));
        if ttl < day {
            self.warn(values, "ttl", "under 24h: a retry that comes later executes again");
        } else if ttl > day * 3 {
            self.warn(values, "ttl", "over 72h: the store grows with it");
        }
        if values.duration("wait") > values.duration("answer_timeout") {
            self.warn(values, "wait", "longer than `answer_timeout`: duplicates wait longer than the first request");
        }
    }

    /// What a route requires and its own policy rules out, on whatever store (G2).
    fn requirement(&mut self, values: &Values<'_>, guarded: &GuardedRoute) {
        let Some(required) = guarded.require else { return };
        let shortfalls = guarded.route.policy.shortfalls();
        if let Some(Shortfall { class, setting }) = shortfalls.iter().find(|shortfall| shortfall.class < required) {
            self.refuse(values, "require", format!("{required} is more than {setting} promises, which is {class}"));
        }
    }

    fn sizes(&mut self, values: &Values<'_>) {
        for name in ["max_request", "max_response"] {
            if values.count(name) > self.config.limits.buffered {
                self.warn(values, name, "larger than `max_buffered`: a body that is, too, is always `overloaded` (W3)");
            }
        }
    }

    fn scope(&mut self, values: &Values<'_>) {
        let scope = values.scope("scope");
        let from_header = scope.iter().any(|source| matches!(source, ScopeFrom::Request(ScopeSource::Header(_))));
        if from_header && !self.config.listen.ip().is_loopback() {
            let text = "a header is believed as sent, and `listen` isn't loopback: whatever stands in front must set \
                        or strip it (S4)";
            self.warn(values, "scope", text);
        }
        for source in &scope {
            if matches!(source, ScopeFrom::Jwt(_)) && self.config.jwt.is_none() {
                self.refuse(
                    values,
                    "scope",
                    format!("`{source}` needs the keys to verify tokens with: `jwks` in `[jwt]`"),
                );
            }
            let credential = match source {
                ScopeFrom::Request(ScopeSource::Authorization) => "token",
                ScopeFrom::Request(ScopeSource::Cookie(_)) => "session cookie",
                ScopeFrom::Request(_) | ScopeFrom::Jwt(_) | ScopeFrom::ClientCertificate => continue,
            };
            let text = format!(
                "`{source}` changes with the {credential}: a retry with a new {credential} is a new operation (S4)"
            );
            self.warn(values, "scope", text);
        }
        let certified = self.config.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if scope.contains(&ScopeFrom::ClientCertificate) && !certified {
            self.refuse(values, "scope", "`client-cert` needs `client_cert.ca`, and `tls.cert` with `tls.key`");
        }
        let key_header = values.header("key_header");
        if values.fields("answer_headers").contains_key(&key_header) {
            self.refuse(
                values,
                "answer_headers",
                "holds the header of the key, which each answer carries as it was sent (K8)",
            );
        }
        let forwarded = values.headers("forward_key_as");
        if forwarded.contains(&key_header) {
            self.refuse(values, "forward_key_as", "the header of the key goes upstream as it was sent");
        }
        if scope.iter().filter_map(ScopeFrom::field).any(|field| forwarded.contains(&field)) {
            self.refuse(values, "forward_key_as", "the header of the scope goes upstream as it was sent");
        }
        if scope.iter().any(|source| source.field().as_ref() == Some(&key_header)) {
            self.refuse(values, "scope", "the header of the key can't be the scope as well");
        }
    }

    /// Combinations of what happens to unknown outcomes (E7).
    fn unknowns(&mut self, values: &Values<'_>) {
        let on_unknown = values.word("on_unknown");
        if on_unknown == "hold" {
            return;
        }
        if values.count("max_attempts") == 1 {
            let text = "1 leaves nothing to execute again after an unknown outcome (E7)";
            self.warn(values, "max_attempts", text);
        }
        if on_unknown == "probe" {
            self.probe(values);
        }
    }

    fn probe(&mut self, values: &Values<'_>) {
        match values.optional("probe_url") {
            Some(Value::ProbeUrl(url)) if !url.names_scope() && values.scope("scope").iter().any(names_many) => {
                let text = "names no {scope}: scopes that use one key are told of each other's operations";
                self.warn(values, "probe_url", text);
            }
            Some(_) => {}
            None => self.refuse(values, "on_unknown", "\"probe\" needs `probe_url`; allowed without it: hold, retry"),
        }
        let settle = values.optional("probe_settle");
        if matches!(settle, Some(Value::Duration(settle)) if *settle < values.duration("upstream_timeout")) {
            let text = "shorter than `upstream_timeout`: a 404 may be believed while the execution is still under way";
            self.warn(values, "probe_settle", text);
        }
    }

    /// What only a probe uses, where no route probes. In `[defaults]` it may serve some routes and not others.
    fn idle_probes(&mut self, stated: &Stated) {
        let none = Layer::new();
        let owns: Vec<_> = stated.routes.iter().map(|route| &route.own).collect();
        let probes = |own: &&Layer| Values::new([*own, &stated.defaults]).word("on_unknown") == "probe";
        let all = if owns.is_empty() { vec![&none] } else { owns };
        let idle = all.iter().filter(|own| !probes(own)).map(|own| (*own, *own));
        let defaults = (!all.iter().any(probes)).then_some((&none, &stated.defaults));
        for (own, layer) in idle.chain(defaults) {
            for name in ["probe_url", "probe_headers", "probe_settle"] {
                if layer.contains_key(name) {
                    let text = "is used with `on_unknown = \"probe\"` only";
                    self.refuse(&Values::new([own, layer]), name, text);
                }
            }
        }
    }

    fn statuses(&mut self, values: &Values<'_>) {
        let (retry, unknown) = (values.statuses("retry_status"), values.statuses("unknown_status"));
        if retry.codes().any(|code| code < 300) {
            self.warn(values, "retry_status", "holds a success: after it a retry executes again (E8)");
        }
        let both: Vec<_> = retry.codes().filter(|code| unknown.contains(*code)).map(|code| code.to_string()).collect();
        if !both.is_empty() {
            let text = format!("{} also stands in `unknown_status`, which goes first", both.join(", "));
            self.warn(values, "retry_status", text);
        }
    }
}

/// Whether a source yields more than one scope.
fn names_many(source: &ScopeFrom) -> bool {
    !matches!(source, ScopeFrom::Request(ScopeSource::Static(_)))
}

fn remark(values: &Values<'_>, name: &str, text: impl Into<String>) -> Remark {
    let key = if find(Level::Top, name).is_some() { name.to_owned() } else { values.titled(name) };
    Remark::new(values.place(name), key, text)
}

/// Whether two listeners on one port would get in each other's way.
fn meet(one: IpAddr, other: IpAddr) -> bool {
    one == other || one.is_unspecified() || other.is_unspecified()
}

/// Whether an upstream is the gateway's own listener, as far as names tell.
fn itself(listen: SocketAddr, ip: Option<IpAddr>, host: &str, port: u16) -> bool {
    let local = host.eq_ignore_ascii_case("localhost") || ip.is_some_and(|ip| ip.is_loopback() || ip.is_unspecified());
    let same = ip == Some(listen.ip()) || (local && (listen.ip().is_loopback() || listen.ip().is_unspecified()));
    listen.port() == port && same
}
