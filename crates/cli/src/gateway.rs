//! The gateway put together: listeners, store, engine, layer, upstream; and taken apart again in order (D4).

mod assembly;
mod classes;
mod reload;
mod signals;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use oncekey_admin::{
    Access, AdminOptions, Node, Readiness, Recent, Tokens, install_metrics, keep_metrics, publish_build,
    publish_reload, router,
};
use oncekey_engine::{Engine, Settings, fault};
use oncekey_store::{Clock, Store, SystemClock};
use oncekey_tower::{Mismatches, Mismatching, ResponseBody};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::drain::Drain;
use crate::exit::Failure;
use crate::front::{self, Current, descriptors};
use crate::jwt::Verifier;
use crate::opening;
use crate::settings::{Loaded, Sources};
use crate::tls::{self, Tls};
use assembly::Assembly;
pub(crate) use assembly::upstream;
use classes::Promises;
pub(crate) use classes::{classes_of, meets_requirements};
use reload::Reload;
use signals::{Asked, Signals};

/// The program's version, as it is shown everywhere.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The part of `max_buffered` that the replay cache takes, and the part for outcomes that wait to be recorded.
const CACHE_PART: u64 = 8;

/// How long the clients of executions that were cut at the end of the drain time may take for their answers.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What a gateway listens on. Bound before anything else is done, so that a taken port is found at once.
pub(crate) struct Listeners {
    /// The proxied API's clients.
    pub(crate) front: TcpListener,
    /// Health, metrics, the admin API.
    pub(crate) admin: TcpListener,
}

impl Listeners {
    /// Binds the configured addresses.
    pub(crate) async fn bind(config: &Config) -> Result<Self, Failure> {
        let front = bind("listen", config.listen).await?;
        let admin = bind("admin.listen", config.admin.listen).await?;
        Ok(Self { front, admin })
    }
}

async fn bind(setting: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let failed = |error| Failure::failed(format_args!("{setting}: {address} can't be listened on: {error}"));
    TcpListener::bind(address).await.map_err(failed)
}

/// Runs until a signal ends it (D4); a second one ends the process at once. An error means that it did not start. `sources` are
/// read again at SIGHUP; without any, that signal ends the process as any program.
pub(crate) async fn run(
    running: Loaded,
    sources: Option<Sources>,
    admin_tokens: Tokens,
    tls: Tls,
    listeners: Listeners,
) -> Result<(), Failure> {
    let config = &running.config;
    let mut signals = Signals::listen(sources.is_some())?;
    descriptors::raise_limit();
    let metrics = install_metrics().map_err(Failure::failed)?;
    publish_build(VERSION);
    publish_reload(true);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = opening::for_serving(&config.store, Arc::clone(&clock)).await?;
    let promises = Arc::new(Promises::of(Arc::clone(&store), &config.routes).await?);
    let engine = Engine::start(Arc::clone(&store), Arc::clone(&clock), settings(config));
    let engine = engine.await.map_err(|error| opening::failure(&error))?;

    let loopback = listeners.admin.local_addr().map_err(Failure::failed)?.ip().is_loopback();
    let access = watch::Sender::new(access(admin_tokens, loopback)?);
    let (readiness, ready) = watch::channel(Readiness::Starting);
    let background = TaskTracker::new();
    let stop = CancellationToken::new();
    background.spawn(stop.clone().run_until_cancelled_owned(keep_metrics(metrics.clone())));
    let recent = Recent::new(Arc::clone(&clock));
    let sampling = Arc::clone(&recent).keep(metrics.clone(), ready.clone(), promises.watch());
    background.spawn(stop.clone().run_until_cancelled_owned(sampling));
    let mismatches = Mismatches::default();
    let admin = AdminOptions {
        recent,
        access: access.subscribe(),
        store_timeout: config.store.timeout,
        metrics,
        readiness: ready,
        classes: promises.watch(),
        node: node(&engine, mismatches.clone()),
        version: VERSION.to_owned(),
        store: engine.store(),
    };
    background.spawn(oncekey_admin::serve(listeners.admin, router(admin), stop.clone().cancelled_owned()));
    background.spawn(stop.clone().run_until_cancelled_owned(Arc::clone(&promises).keep_up_to_date()));

    let mut verifier = Verifier::new(Arc::clone(&clock), background.clone(), stop.clone());
    let tokens = verifier.prepare(config.jwt.as_ref(), config.store.start_timeout).await?;
    verifier.keep(config.jwt.as_ref(), tokens.as_ref());
    let drain = Drain::new();
    // What is left of the bound when the replay cache and the outcomes that wait to be recorded have their parts.
    let budget = config.limits.buffered / CACHE_PART * (CACHE_PART - 2);
    let assembly = Assembly::new(engine.clone(), config, budget, clock, drain.clone(), mismatches);
    let current = Current::new(assembly.serving(config, tokens.as_ref(), &tls)?);
    announce(config, &listeners.front, &*store);
    front::serve((listeners.front, tls.listener.clone()), current.clone(), &config.front, &drain);
    let tls = watch::Sender::new(tls);
    background.spawn(stop.clone().run_until_cancelled_owned(tls::keep_up_to_date(tls.subscribe())));
    readiness.send_replace(Readiness::Ready);

    let mut reload = Reload {
        sources,
        running,
        assembly,
        verifier,
        engine: engine.clone(),
        promises,
        access,
        loopback,
        tls,
        current,
    };
    while let Asked::Reload = signals.next().await {
        // A file that takes long to read holds up no end. Dropped, a reload has changed nothing.
        tokio::select! {
            biased;
            () = signals.asked_to_end() => break,
            () = reload.run() => {}
        }
    }
    tracing::info!("draining: finishing what runs; a second signal ends the process at once");
    readiness.send_replace(Readiness::Draining);
    signals.exit_at_the_next();
    end(&reload.running.config, &drain, &engine).await;
    stop.cancel();
    background.close();
    background.wait().await;
    Ok(())
}

/// Ends the connections and the executions within the one drain time (D4).
async fn end(config: &Config, drain: &Drain, engine: &Engine<Response<ResponseBody>>) {
    let limit = if fault::broken("no_drain") { Duration::ZERO } else { config.drain.limit };
    drain.begin(config.drain.delay).await;
    let over = Instant::now() + limit;
    drain.ended_within(limit).await;
    let executions = engine.shutdown(over.saturating_duration_since(Instant::now())).await;
    // Whose execution was cut is still told so: its outcome is unknown.
    drain.ended_within(LAST_ANSWERS).await;
    let connections = drain.cut_the_rest().await;
    tracing::info!(cut_connections = connections, cut_executions = executions, "drained");
}

fn settings(config: &Config) -> Settings {
    let part = config.limits.buffered / CACHE_PART;
    Settings {
        lease: config.store.lease,
        cache_for: config.store.cache_for,
        cache_bytes: part,
        store_timeout: config.store.timeout,
        record_retry: config.store.record_retry,
        unrecorded_bytes: usize::try_from(part).unwrap_or(usize::MAX),
        max_inflight: config.limits.inflight,
        max_waiters_all: config.limits.waiters,
        max_records_per_scope: (config.limits.records_per_scope > 0).then_some(config.limits.records_per_scope),
        sweep_every: config.sweep.every,
        sweep_batch: config.sweep.batch,
    }
}

/// Who may use the admin API; refuses one secret for both tokens.
pub(crate) fn access(tokens: Tokens, loopback: bool) -> Result<Access, Failure> {
    let refused = |error| Failure::usage(format_args!("admin.read_token: {error}"));
    Access::new(tokens, loopback).map_err(refused)
}

fn node(engine: &Engine<Response<ResponseBody>>, mismatches: Mismatches) -> Node {
    let (forgetful, trusting, believing) = (engine.clone(), engine.clone(), engine.clone());
    let seen = |found: Mismatching| oncekey_admin::view::Mismatching {
        scope: found.scope.value().to_owned(),
        count: found.mismatches,
        over: found.at_most_too_many,
    };
    Node {
        changed: Box::new(move |id| forgetful.forget(id)),
        trusts_clock: Box::new(move || trusting.trusts_clock()),
        believes: Box::new(move |now| believing.believes(now)),
        mismatches: Box::new(move |limit| mismatches.most(limit).into_iter().map(seen).collect()),
    }
}

fn announce(config: &Config, front: &TcpListener, store: &dyn Store) {
    let listen = front.local_addr().unwrap_or(config.listen);
    tracing::info!(%listen, tls = config.tls.is_some(), upstream = %config.upstream.url, store = store.describe(), "oncekey {VERSION} serves");
}
