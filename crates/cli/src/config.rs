//! The configuration as the program uses it: plain values, all of them right. How it comes about is the matter of
//! [`crate::settings`].

mod build;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use oncekey_core::{Namespace, PromiseClass};
use oncekey_tower::{Guard, OwnAnswers, Route};

use crate::front::FrontOptions;
use crate::jwt::{JwtConfig, Tokens};
use crate::scopes::ScopeFrom;
use crate::settings::{ProbeHeaders, ProbeUrl, SecretRef, StoreUrl, Upstream};

/// What `oncekey` runs on.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where the gateway listens.
    pub(crate) listen: SocketAddr,
    /// How its connections are bounded.
    pub(crate) front: FrontOptions,
    /// TLS on that listener, if it speaks it.
    pub(crate) tls: Option<TlsConfig>,
    /// The proxied API.
    pub(crate) upstream: UpstreamConfig,
    /// The admin listener.
    pub(crate) admin: AdminConfig,
    /// What keeps the records.
    pub(crate) store: StoreConfig,
    /// Sweeping (D5).
    pub(crate) sweep: SweepConfig,
    /// Bounds of this node (W3).
    pub(crate) limits: Limits,
    /// What happens after SIGTERM (D4).
    pub(crate) drain: Drain,
    /// How the gateway's own answers look where no route is known.
    pub(crate) own_answers: OwnAnswers,
    /// What `Retry-After` says in them.
    pub(crate) retry_after: Duration,
    /// What tokens must be that scopes are read from; `None`: no scope is.
    pub(crate) jwt: Option<JwtConfig>,
    /// The guarded routes; at least one.
    pub(crate) routes: Vec<GuardedRoute>,
}

/// TLS on the listener.
#[derive(Clone, Debug)]
pub(crate) struct TlsConfig {
    /// The certificate and the chain behind it.
    pub(crate) cert: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
    /// The authorities of client certificates; `None`: clients aren't asked for one.
    pub(crate) client_ca: Option<PathBuf>,
}

/// TLS towards the upstream.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamTlsConfig {
    /// The authorities to check its certificate by; `None`: the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The certificate to show it.
    pub(crate) cert: Option<PathBuf>,
    /// The private key of that certificate; there if the certificate is.
    pub(crate) key: Option<PathBuf>,
    /// The name that its certificate must hold.
    pub(crate) server_name: String,
}

/// The proxied API, and how it is reached.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamConfig {
    /// Where it is.
    pub(crate) url: Upstream,
    /// Which HTTP is spoken with it.
    pub(crate) http: UpstreamHttp,
    /// TLS towards it, if it is https.
    pub(crate) tls: Option<UpstreamTlsConfig>,
    /// A keyed request takes a pooled connection only if that was idle for less (E12).
    pub(crate) idle: Duration,
    /// How long connecting may take for requests that no route guards; a guarded one has its route's.
    pub(crate) connect_timeout: Duration,
}

/// Which HTTP is spoken with the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamHttp {
    /// HTTP/1.1, except where TLS lets the upstream choose HTTP/2.
    Auto,
    /// HTTP/1.1.
    One,
    /// HTTP/2: without TLS from the first byte on, with TLS only if the upstream chooses it.
    Two,
}

/// The admin listener.
#[derive(Clone, Debug)]
pub(crate) struct AdminConfig {
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// Where its token is kept; `None`: no token.
    pub(crate) token: Option<SecretRef>,
    /// Where the token is kept of those who may only look.
    pub(crate) read_token: Option<SecretRef>,
}

/// The store, and how long things may take there.
#[derive(Clone, Debug)]
pub(crate) struct StoreConfig {
    /// Which one.
    pub(crate) url: StoreUrl,
    /// Part of every record's identity (S5).
    pub(crate) namespace: Namespace,
    /// How long a silent node counts as alive (E4).
    pub(crate) lease: Duration,
    /// How long the store may take over a claim (D1).
    pub(crate) timeout: Duration,
    /// Connections to it, where it is a server.
    pub(crate) connections: u32,
    /// What is stated about the server where it can't be read (G4).
    pub(crate) declared: BTreeMap<&'static str, &'static str>,
    /// How long to wait for the store at start.
    pub(crate) start_timeout: Duration,
    /// Whether `serve` upgrades the schema.
    pub(crate) auto_migrate: bool,
    /// How long to keep trying to record an outcome (D3).
    pub(crate) record_retry: Duration,
    /// How long a completed record may be replayed from memory (R8).
    pub(crate) cache_for: Duration,
}

/// Sweeping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepConfig {
    /// How often.
    pub(crate) every: Duration,
    /// How many records a step deletes at most.
    pub(crate) batch: u32,
}

/// Bounds of this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Keyed requests that execute at a time.
    pub(crate) inflight: usize,
    /// Bytes of bodies in memory.
    pub(crate) buffered: u64,
    /// Duplicates that wait, all keys together.
    pub(crate) waiters: usize,
    /// Records that a scope may have; 0: as many as it likes.
    pub(crate) records_per_scope: u64,
}

/// Draining.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// How long to go on accepting.
    pub(crate) delay: Duration,
    /// How long executions may finish after that.
    pub(crate) limit: Duration,
}

/// A route, and what it needs at start: readers of its scope, and the least that it wants promised.
#[derive(Clone, Debug)]
pub(crate) struct GuardedRoute {
    /// What is guarded, and how; its guard has no scope yet.
    pub(crate) route: Route,
    /// Where its scope is read from.
    pub(crate) scope: Vec<ScopeFrom>,
    /// How its unknown outcomes are asked about, if they are (E7).
    pub(crate) probe: Option<ProbeConfig>,
    /// Refuse to start on less (G2).
    pub(crate) require: Option<PromiseClass>,
}

/// How unknown outcomes are asked about.
#[derive(Clone, Debug)]
pub(crate) struct ProbeConfig {
    /// Where.
    pub(crate) url: ProbeUrl,
    /// With which fields, and where their secrets are kept.
    pub(crate) headers: ProbeHeaders,
    /// Those fields once their secrets were read; empty before.
    pub(crate) fields: HeaderMap,
}

impl GuardedRoute {
    /// The route as the layer takes it; `tokens` if any scope is read from one.
    pub(crate) fn readable(&self, tokens: Option<&Arc<Tokens>>) -> Route {
        let scope = self.scope.iter().map(|source| source.reader(tokens)).collect();
        Route { guard: Guard { scope, ..self.route.guard.clone() }, ..self.route.clone() }
    }

    /// The route without the means to verify: a source that needs them yields no value.
    pub(crate) fn unverified(&self) -> Route {
        let scope = self.scope.iter().map(ScopeFrom::unverified).collect();
        Route { guard: Guard { scope, ..self.route.guard.clone() }, ..self.route.clone() }
    }

    /// Whether its scope may come from a client certificate.
    pub(crate) fn reads_certificates(&self) -> bool {
        self.scope.contains(&ScopeFrom::ClientCertificate)
    }

    /// The request fields that decide which record a request names, here or further on (H2).
    pub(crate) fn naming_fields(&self) -> Vec<HeaderName> {
        let Guard { key_header, forward_key_as, .. } = &self.route.guard;
        let keys = [key_header].into_iter().chain(forward_key_as).cloned();
        self.scope.iter().filter_map(ScopeFrom::field).chain(keys).collect()
    }
}
