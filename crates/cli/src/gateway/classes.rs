//! The classes of promise in force: worked out at start, enforced by `require`, watched ever after (rules G).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oncekey_admin::publish_class;
use oncekey_admin::view::Classes;
use oncekey_core::PromiseClass;
use oncekey_store::{Promise, Store};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::GuardedRoute;
use crate::exit::Failure;
use crate::opening;

/// How often the store's settings are read again (G4).
const EVERY: Duration = Duration::from_mins(1);

/// What is promised at present.
pub(super) struct Promises {
    store: Arc<dyn Store>,
    /// What the store promised when it was last asked, and the routes' labels.
    known: Mutex<(Promise, Vec<String>)>,
    present: watch::Sender<Classes>,
}

impl Promises {
    /// Works the classes out and prints them; exit 64 where a route requires more than the store promises (G2).
    pub(super) async fn of(store: Arc<dyn Store>, routes: &[GuardedRoute]) -> Result<Self, Failure> {
        let promise = store.promise().await.map_err(|error| opening::failure(&error))?;
        let (present, _) = watch::channel(classes(&[], promise.class));
        let promises = Self { store, known: Mutex::new((promise, Vec::new())), present };
        promises.reroute(routes)?;
        Ok(promises)
    }

    /// Works the classes of other routes out and prints them. Refused, with nothing changed, where a route requires more than the
    /// store promised when it was last asked (G2).
    pub(super) fn reroute(&self, routes: &[GuardedRoute]) -> Result<(), Failure> {
        let mut known = self.known.lock();
        let (promise, labels) = &mut *known;
        for guarded in routes {
            require(guarded, promise)?;
        }
        *labels = routes.iter().map(|guarded| guarded.route.policy.route.clone()).collect();
        for route in &*labels {
            tracing::info!(route, class = %promise.class, "promised");
        }
        for shortfall in &promise.shortfalls {
            tracing::warn!(class = %promise.class, "{shortfall}");
        }
        self.present.send_replace(classes(labels, promise.class));
        publish_class(promise.class);
        Ok(())
    }

    pub(super) fn watch(&self) -> watch::Receiver<Classes> {
        self.present.subscribe()
    }

    /// Reads the store's settings again and again; a class that changes is a log line and a metric, never an exit (G4).
    pub(super) async fn keep_up_to_date(self: Arc<Self>) {
        loop {
            tokio::time::sleep(EVERY).await;
            match self.store.promise().await {
                Ok(promise) => self.take_note(promise),
                Err(error) => tracing::debug!(%error, "what the store promises could not be read again"),
            }
        }
    }

    fn take_note(&self, promise: Promise) {
        let mut known = self.known.lock();
        let (before, now) = (known.0.class, promise.class);
        let shortfalls = promise.shortfalls.join(" ");
        known.0 = promise;
        if now == before {
            return;
        }
        if now < before {
            tracing::error!(%before, %now, shortfalls, "the promise has fallen");
        } else {
            tracing::info!(%before, %now, "the promise has risen");
        }
        self.present.send_replace(classes(&known.1, now));
        publish_class(now);
    }
}

/// On this version's policies (`hold`, `closed`) a route promises what its store does.
fn classes(routes: &[String], class: PromiseClass) -> Classes {
    Classes::new(class, routes.iter().map(|route| (route.clone(), class)).collect::<BTreeMap<_, _>>())
}

fn require(guarded: &GuardedRoute, promise: &Promise) -> Result<(), Failure> {
    match guarded.require {
        Some(required) if promise.class < required => Err(Failure::usage(format_args!(
            "route {}: require = \"{required}\", and the store promises {} only. {}",
            guarded.route.policy.route,
            promise.class,
            promise.shortfalls.join(" ")
        ))),
        _ => Ok(()),
    }
}
