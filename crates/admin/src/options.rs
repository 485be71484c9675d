//! What the admin listener needs of its process, and the bounds on what it asks of the store.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use metrics_exporter_prometheus::PrometheusHandle;
use oncekey_core::{RecordId, Timestamp};
use oncekey_store::{Store, StoreError};
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::access::Access;
use crate::answer::Refused;
use crate::recent::Recent;
use crate::view::Classes;
use crate::view::Mismatching;

/// API calls at work at once; more wait. Each may hold a body of up to 16 MiB, and none may crowd out guarded traffic.
const CALLS_AT_ONCE: usize = 16;
/// How long an API call may take, its body and its wait for a place included.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// What the admin listener needs of its process.
pub struct AdminOptions {
    /// Where the records are.
    pub store: Arc<dyn Store>,
    /// How long one call of the store may take; past it the answer is 503.
    pub store_timeout: Duration,
    /// The recorder that `/metrics` shows; see [`crate::install_metrics`].
    pub metrics: PrometheusHandle,
    /// Whether this node takes traffic (D4).
    pub readiness: watch::Receiver<Readiness>,
    /// The classes in force (G1).
    pub classes: watch::Receiver<Classes>,
    /// Who may ask.
    pub access: watch::Receiver<Access>,
    /// What the counters said lately.
    pub recent: Arc<Recent>,
    /// What the listener asks of its node.
    pub node: Node,
    /// This program's version.
    pub version: String,
}

/// Whether this node takes traffic (D4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    /// Not yet.
    Starting,
    /// Yes.
    Ready,
    /// Not any more.
    Draining,
}

/// What the listener asks of the node it belongs to.
pub struct Node {
    /// Called after every attempt to change a record, so that this node's own replay cache forgets it at once (R8).
    pub changed: Box<dyn Fn(RecordId) + Send + Sync>,
    /// Whether the node trusts the store's clock; while it doesn't, nothing counts as expired and nothing is swept (E9).
    pub trusts_clock: Box<dyn Fn() -> bool + Send + Sync>,
    /// Whether it trusts this reading of the store's clock, just made: the node may not have seen yet that the clock has jumped.
    pub believes: Box<dyn Fn(Timestamp) -> bool + Send + Sync>,
    /// The scopes with most mismatches since the start, at most so many, most first.
    pub mismatches: Box<dyn Fn(usize) -> Vec<Mismatching> + Send + Sync>,
}

/// The state behind all handlers.
pub(crate) struct Admin {
    pub(crate) options: AdminOptions,
    places: Semaphore,
}

impl Admin {
    pub(crate) fn new(options: AdminOptions) -> Self {
        Self { options, places: Semaphore::new(CALLS_AT_ONCE) }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.options.store.as_ref()
    }

    pub(crate) fn trusts_clock(&self) -> bool {
        (self.options.node.trusts_clock)()
    }

    pub(crate) fn believes(&self, now: Timestamp) -> bool {
        (self.options.node.believes)(now)
    }

    /// Waits for the store, but not longer than it may take.
    pub(crate) async fn ask<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, Refused> {
        self.ask_within(self.options.store_timeout, call).await
    }

    /// As [`Admin::ask`], for what makes several calls of the store.
    pub(crate) async fn ask_within<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Refused> {
        match timeout(limit, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the store failed an admin call");
                Err(refused_by(&error))
            }
            Err(_) => {
                tracing::warn!("the store took too long for an admin call");
                Err(Refused::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "The store took too long. A change may have been applied: look at the record before repeating it.",
                ))
            }
        }
    }
}

/// The store's own words stay in the log: they may name its host or a file.
fn refused_by(error: &StoreError) -> Refused {
    match error {
        StoreError::NotApplied(_) => {
            Refused::new(StatusCode::SERVICE_UNAVAILABLE, "The store is not available; nothing was changed. Repeat it.")
        }
        StoreError::MayHaveBeenApplied(_) => Refused::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "The store failed, and the change may have been applied: look at the record before repeating it.",
        ),
        StoreError::Corrupt(_) => Refused::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The record is there and can't be read; the log says why. It is never taken for absent.",
        ),
        StoreError::Misconfigured(_) => Refused::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The store can't be used as configured; the log says why. Repeating won't help.",
        ),
    }
}

/// Bounds the API calls at work at once and the time of each. Health and metrics stay outside: they must answer above all
/// when the API is busy.
pub(crate) async fn admit(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    let call = async {
        // Nobody closes the semaphore, so there is always a place in the end.
        let _place = admin.places.acquire().await;
        next.run(request).await
    };
    timeout(CALL_TIMEOUT, call).await.unwrap_or_else(|_| {
        Refused::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "The call took too long and was given up. A change may have been applied: look before repeating it.",
        )
        .into_response()
    })
}
