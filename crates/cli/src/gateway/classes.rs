//! The classes of promise in force: worked out at start, enforced by `require`, watched ever after (rules G).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oncekey_admin::publish_class;
use oncekey_admin::view::Classes;
use oncekey_core::PromiseClass;
use oncekey_store::{Promise, Store};
use tokio::sync::watch;

use crate::config::GuardedRoute;
use crate::exit::Failure;
use crate::opening;

/// How often the store's settings are read again (G4).
const EVERY: Duration = Duration::from_mins(1);

/// What is promised at present.
pub(super) struct Promises {
    store: Arc<dyn Store>,
    routes: Vec<String>,
    present: watch::Sender<Classes>,
    class: PromiseClass,
}

impl Promises {
    /// Works the classes out and prints them; exit 64 where a route requires more than the store promises (G2).
    pub(super) async fn of(store: Arc<dyn Store>, routes: &[GuardedRoute]) -> Result<Self, Failure> {
        let promise = store.promise().await.map_err(|error| opening::failure(&error))?;
        for guarded in routes {
            require(guarded, &promise)?;
        }
        let routes: Vec<_> = routes.iter().map(|guarded| guarded.route.policy.route.clone()).collect();
        for route in &routes {
            tracing::info!(route, class = %promise.class, "promised");
        }
        for shortfall in &promise.shortfalls {
            tracing::warn!(class = %promise.class, "{shortfall}");
        }
        let (present, _) = watch::channel(classes(&routes, promise.class));
        publish_class(promise.class);
        Ok(Self { store, routes, present, class: promise.class })
    }

    pub(super) fn watch(&self) -> watch::Receiver<Classes> {
        self.present.subscribe()
    }

    /// Reads the store's settings again and again; a class that changes is a log line and a metric, never an exit (G4).
    pub(super) async fn keep_up_to_date(mut self) {
        loop {
            tokio::time::sleep(EVERY).await;
            let promise = match self.store.promise().await {
                Ok(promise) => promise,
                Err(error) => {
                    tracing::debug!(%error, "what the store promises could not be read again");
                    continue;
                }
            };
            if promise.class == self.class {
                continue;
            }
            let shortfalls = promise.shortfalls.join(" ");
            if promise.class < self.class {
                tracing::error!(before = %self.class, now = %promise.class, shortfalls, "the promise has fallen");
            } else {
                tracing::info!(before = %self.class, now = %promise.class, "the promise has risen");
            }
            self.class = promise.class;
            self.present.send_replace(classes(&self.routes, promise.class));
            publish_class(promise.class);
        }
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
