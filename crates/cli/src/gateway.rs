//! The gateway put together: listeners, store, engine, layer, upstream; and taken apart again in order (D4).

mod classes;
mod signals;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use oncekey_admin::{Access, AdminOptions, AdminToken, Node, Readiness, install_metrics, publish_build, router};
use oncekey_engine::{Engine, Settings, fault};
use oncekey_store::{Clock, Store, SystemClock};
use oncekey_tower::{Budget, IdempotencyLayer, ResponseBody, Routes};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Layer;

use crate::config::{Config, GuardedRoute};
use crate::drain::Drain;
use crate::exit::Failure;
use crate::fields::Protected;
use crate::front::{self, Current, FrontOptions, Refusals, Serving, descriptors};
use crate::opening;
use crate::settings::Secret;
use crate::upstream::{Upstream, UpstreamOptions};
use classes::Promises;
use signals::Signals;

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

/// Runs until a signal ends it (D4); a second one ends the process at once. An error means that it did not start.
pub(crate) async fn run(config: Config, token: Option<Secret>, listeners: Listeners) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    descriptors::raise_limit();
    let metrics = install_metrics().map_err(Failure::failed)?;
    publish_build(VERSION);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = opening::for_serving(&config.store, Arc::clone(&clock)).await?;
    let promises = Promises::of(Arc::clone(&store), &config.routes).await?;
    let engine = Engine::start(Arc::clone(&store), Arc::clone(&clock), settings(&config));
    let engine = engine.await.map_err(|error| opening::failure(&error))?;

    let (readiness, ready) = watch::channel(Readiness::Starting);
    let background = TaskTracker::new();
    let stop = CancellationToken::new();
    let admin = AdminOptions {
        access: access(token, &listeners.admin)?,
        store_timeout: config.store.timeout,
        metrics,
        readiness: ready,
        classes: promises.watch(),
        node: node(&engine),
        version: VERSION.to_owned(),
        store: Arc::clone(&store),
    };
    background.spawn(oncekey_admin::serve(listeners.admin, router(admin), stop.clone().cancelled_owned()));
    background.spawn(stop.clone().run_until_cancelled_owned(promises.keep_up_to_date()));

    let drain = Drain::new();
    let service = layer(&engine, &config)?.layer(upstream(&config, clock, &drain));
    announce(&config, &listeners.front, &*store);
    let refusals = Refusals { own_answers: config.own_answers.clone(), retry_after: config.retry_after };
    let current = Current::new(Serving { service, refusals });
    front::serve(listeners.front, current, &FrontOptions::default(), &drain);
    readiness.send_replace(Readiness::Ready);

    signals.asked_to_end().await;
    tracing::info!("draining: finishing what runs; a second signal ends the process at once");
    readiness.send_replace(Readiness::Draining);
    signals.exit_at_the_next();
    end(&config, &drain, &engine).await;
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
        sweep_every: config.sweep.every,
        sweep_batch: config.sweep.batch,
    }
}

fn layer(engine: &Engine<Response<ResponseBody>>, config: &Config) -> Result<IdempotencyLayer, Failure> {
    let routes = config.routes.iter().map(GuardedRoute::readable).collect();
    let routes = Routes::new(routes).map_err(Failure::usage)?;
    // What is left of the bound when the replay cache and the outcomes that wait to be recorded have their parts.
    let budget = Budget::new(config.limits.buffered / CACHE_PART * (CACHE_PART - 2));
    Ok(IdempotencyLayer::new(engine.clone(), config.store.namespace.clone(), routes, budget))
}

fn upstream(config: &Config, clock: Arc<dyn Clock>, drain: &Drain) -> Upstream {
    let options = UpstreamOptions {
        http: config.upstream.http,
        idle: config.upstream.idle,
        connect_timeout: config.upstream.connect_timeout,
        protected: Protected::new(config.routes.iter().flat_map(GuardedRoute::naming_fields)),
        ..UpstreamOptions::at(config.upstream.url.authority.clone())
    };
    Upstream::new(options, clock, drain.clone())
}

fn access(token: Option<Secret>, admin: &TcpListener) -> Result<Access, Failure> {
    let loopback = admin.local_addr().map_err(Failure::failed)?.ip().is_loopback();
    let token = token.map(|secret| AdminToken::new(secret.expose())).transpose().map_err(Failure::usage)?;
    Ok(Access::new(token, loopback))
}

fn node(engine: &Engine<Response<ResponseBody>>) -> Node {
    let (forgetful, trusting) = (engine.clone(), engine.clone());
    Node { changed: Box::new(move |id| forgetful.forget(id)), trusts_clock: Box::new(move || trusting.trusts_clock()) }
}

fn announce(config: &Config, front: &TcpListener, store: &dyn Store) {
    let listen = front.local_addr().unwrap_or(config.listen);
    tracing::info!(%listen, upstream = %config.upstream.url, store = store.describe(), "oncekey {VERSION} serves");
}
