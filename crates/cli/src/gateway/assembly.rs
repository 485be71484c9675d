//! What answers requests, put together out of a configuration: the layer with its routes over the upstream. Made anew by each
//! reload, on one engine, one budget and one drain.

use std::sync::Arc;

use http::Response;
use oncekey_engine::Engine;
use oncekey_store::Clock;
use oncekey_tower::{Budget, Idempotency, IdempotencyLayer, Mismatches, ResponseBody, Route, Routes};
use tower::Layer;

use crate::config::{Config, GuardedRoute};
use crate::drain::Drain;
use crate::exit::Failure;
use crate::fields::Protected;
use crate::front::{Refusals, Serving};
use crate::jwt::Tokens;
use crate::probe;
use crate::tls::Tls;
use crate::traces::Traced;
use crate::upstream::{Upstream, UpstreamOptions};

/// What requests go to.
pub(super) type Service = Traced<Idempotency<Upstream>>;

/// What stays the same whatever the configuration says.
pub(super) struct Assembly {
    layer: IdempotencyLayer,
    clock: Arc<dyn Clock>,
    drain: Drain,
}

impl Assembly {
    /// `budget` is in bytes of bodies.
    pub(super) fn new(
        engine: Engine<Response<ResponseBody>>,
        config: &Config,
        budget: u64,
        clock: Arc<dyn Clock>,
        drain: Drain,
        mismatches: Mismatches,
    ) -> Self {
        let namespace = config.store.namespace.clone();
        let layer = IdempotencyLayer::noting(engine, namespace, Routes::default(), Budget::new(budget), mismatches);
        Self { layer, clock, drain }
    }

    /// What answers requests under a configuration, whose scopes `tokens` verifies. The counters of its routes are there from now on.
    pub(super) fn serving(
        &self,
        config: &Config,
        tokens: Option<&Arc<Tokens>>,
        tls: &Tls,
    ) -> Result<Serving<Service>, Failure> {
        let route = |guarded: &GuardedRoute| Ok(Route { probe: probe::of_route(guarded)?, ..guarded.readable(tokens) });
        let routes = config.routes.iter().map(route).collect::<Result<_, String>>().map_err(Failure::failed)?;
        let routes = Routes::new(routes).map_err(Failure::usage)?;
        let refusals = Refusals { own_answers: config.own_answers.clone(), retry_after: config.retry_after };
        let upstream = upstream(config, tls, Arc::clone(&self.clock), self.drain.clone());
        let service = self.layer.with_routes(routes).layer(upstream);
        Ok(Serving { service: Traced(service), refusals })
    }
}

/// The upstream of a configuration.
pub(crate) fn upstream(config: &Config, tls: &Tls, clock: Arc<dyn Clock>, drain: Drain) -> Upstream {
    let options = UpstreamOptions {
        http: config.upstream.http,
        tls: tls.upstream.clone(),
        idle: config.upstream.idle,
        connect_timeout: config.upstream.connect_timeout,
        protected: Protected::new(config.routes.iter().flat_map(GuardedRoute::naming_fields)),
        ..UpstreamOptions::at(config.upstream.url.authority.clone())
    };
    Upstream::new(options, clock, drain)
}
