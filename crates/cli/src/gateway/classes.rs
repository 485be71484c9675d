//! The classes of promise in force: worked out at start, enforced by `require`, watched ever after (rules G).

use std::sync::Arc;
use std::time::Duration;

use oncekey_admin::view::Classes;
use oncekey_admin::{publish_class, publish_declared};
use oncekey_core::PromiseClass;
use oncekey_core::policy::Shortfall;
use oncekey_store::{Promise, Store};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::GuardedRoute;
use crate::exit::Failure;
use crate::opening;

/// How often the store's settings are read again (G4).
const EVERY: Duration = Duration::from_secs(10);

/// What is promised at present.
pub(super) struct Promises {
    store: Arc<dyn Store>,
    /// What the store promised when it was last asked, and what the routes make of that.
    known: Mutex<(Promise, Vec<Ceiling>)>,
    present: watch::Sender<Classes>,
}

/// A route, and the most that its policy lets it promise (G1).
struct Ceiling {
    route: String,
    shortfalls: Vec<Shortfall>,
}

impl Ceiling {
    fn of(guarded: &GuardedRoute) -> Self {
        let policy = &guarded.route.policy;
        Self { route: policy.route.clone(), shortfalls: policy.shortfalls() }
    }

    /// What the route promises on a store that promises `store`.
    fn class(&self, store: PromiseClass) -> PromiseClass {
        self.shortfalls.iter().map(|shortfall| shortfall.class).chain([store]).min().unwrap_or(store)
    }
}

impl Promises {
    /// Works the classes out and prints them; exit 64 where a route requires more than the store promises (G2).
    pub(super) async fn of(store: Arc<dyn Store>, routes: &[GuardedRoute]) -> Result<Self, Failure> {
        let promise = store.promise().await.map_err(|error| opening::failure(&error))?;
        let (present, _) = watch::channel(classes(&[], &promise));
        let promises = Self { store, known: Mutex::new((promise, Vec::new())), present };
        promises.reroute(routes)?;
        Ok(promises)
    }

    /// Works the classes of other routes out and prints them. Refused, with nothing changed, where a route requires more than it
    /// gets from the store as it promised when it was last asked (G2).
    pub(super) fn reroute(&self, routes: &[GuardedRoute]) -> Result<(), Failure> {
        let mut known = self.known.lock();
        let (promise, ceilings) = &mut *known;
        let new: Vec<_> = routes.iter().map(Ceiling::of).collect();
        meets_requirements(routes, promise)?;
        *ceilings = new;
        for ceiling in &*ceilings {
            let (route, class) = (&ceiling.route, ceiling.class(promise.class));
            tracing::info!(route, %class, "promised");
            for Shortfall { class, setting } in &ceiling.shortfalls {
                tracing::warn!(route, %class, "with {setting} a route promises no more than this");
            }
        }
        for (setting, value) in &promise.declared {
            tracing::info!("`{setting}` of the store is {value}, which was declared and not read");
        }
        for shortfall in &promise.shortfalls {
            tracing::warn!(class = %promise.class, "{shortfall}");
        }
        self.publish(classes(ceilings, promise));
        Ok(())
    }

    fn publish(&self, classes: Classes) {
        publish_class(classes.lowest());
        for setting in self.present.borrow().declared().keys() {
            publish_declared(setting, classes.declared().contains_key(setting));
        }
        for setting in classes.declared().keys() {
            publish_declared(setting, true);
        }
        self.present.send_replace(classes);
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
        if now < before {
            let shortfalls = promise.shortfalls.join(" ");
            tracing::error!(%before, %now, shortfalls, "the store's promise has fallen");
        } else if now > before {
            tracing::info!(%before, %now, "the store's promise has risen");
        }
        self.publish(classes(&known.1, &promise));
        known.0 = promise;
    }
}

/// What routes promise on a store that promises this.
pub(crate) fn classes_of(routes: &[GuardedRoute], store: &Promise) -> Classes {
    let ceilings: Vec<_> = routes.iter().map(Ceiling::of).collect();
    classes(&ceilings, store)
}

fn classes(routes: &[Ceiling], store: &Promise) -> Classes {
    let of_routes = routes.iter().map(|ceiling| (ceiling.route.clone(), ceiling.class(store.class)));
    Classes::new(store.class, of_routes.collect()).resting_on(store.declared.clone())
}

/// Refuses the first route that gets less than it requires (G2).
pub(crate) fn meets_requirements(routes: &[GuardedRoute], promise: &Promise) -> Result<(), Failure> {
    routes.iter().try_for_each(|guarded| require(guarded.require, &Ceiling::of(guarded), promise))
}

/// Refuses a route that gets less than it requires, naming what keeps it from that: the store's settings, or its own.
fn require(required: Option<PromiseClass>, ceiling: &Ceiling, promise: &Promise) -> Result<(), Failure> {
    let route = &ceiling.route;
    let Some(required) = required else { return Ok(()) };
    if promise.class < required {
        return Err(Failure::usage(format_args!(
            "route {route}: require = \"{required}\", and the store promises {} only. {}",
            promise.class,
            promise.shortfalls.join(" ")
        )));
    }
    match ceiling.shortfalls.iter().find(|shortfall| shortfall.class < required) {
        Some(Shortfall { class, setting }) => Err(Failure::usage(format_args!(
            "route {route}: require = \"{required}\", and with {setting} no more than {class} is promised"
        ))),
        None => Ok(()),
    }
}
