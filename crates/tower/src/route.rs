//! Which requests are guarded, and how: the routes.

use std::sync::Arc;

use http::{HeaderName, Method};
use oncekey_core::policy::{OnStoreError, Policy};
use oncekey_core::{KeyFormat, Recipe, Scope, ScopeSource};
use oncekey_engine::Probe;
use oncekey_store::Transactions;

use crate::scope::ScopeReader;

use crate::own_answers::OwnAnswers;

/// A guarded set of requests.
#[derive(Clone, Debug)]
pub struct Route {
    /// The guarded methods; GET, HEAD and OPTIONS are refused (K7).
    pub methods: Vec<Method>,
    /// The path: exact, `{name}` takes one segment, `{*rest}` the tail. `None` guards every path.
    pub path: Option<String>,
    /// How a request becomes an operation.
    pub guard: Guard,
    /// What happens to the operation.
    pub policy: Arc<Policy>,
    /// How oncekey's own answers look.
    pub own_answers: OwnAnswers,
    /// Asks the upstream about unknown outcomes, where the policy says so (E7).
    pub probe: Option<Probe>,
    /// Transactional mode (G3): handlers work in the transaction in which their answers are recorded.
    pub transactions: Option<Arc<dyn Transactions>>,
}

impl Default for Route {
    /// Every POST, PUT, PATCH and DELETE, under the built-in values of the protocol.
    fn default() -> Self {
        let methods = vec![Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        Self {
            methods,
            path: None,
            guard: Guard::default(),
            policy: Arc::default(),
            own_answers: OwnAnswers::default(),
            probe: None,
            transactions: None,
        }
    }
}

impl Route {
    /// The same on one path: exact, `{name}` takes one segment, `{*rest}` the tail.
    pub fn at(path: impl Into<String>) -> Self {
        let path = path.into();
        let policy = Policy { route: path.clone(), ..Policy::default() };
        Self { path: Some(path), policy: Arc::new(policy), ..Self::default() }
    }

    /// In transactional mode (G3): its handlers find the transaction by the extractor of the store that `transactions` are of,
    /// which has to be the one that oncekey is started with.
    #[must_use]
    pub fn within(self, transactions: Arc<dyn Transactions>) -> Self {
        Self { transactions: Some(transactions), ..self }
    }
}

/// How a request of a route becomes an operation: where its key and scope are, what counts as the same request.
#[derive(Clone, Debug)]
pub struct Guard {
    /// A request without a key is `key-missing` (K6); otherwise it passes.
    pub key_required: bool,
    /// The field that carries the key (K1).
    pub key_header: HeaderName,
    /// Which keys are taken (K5).
    pub key_format: KeyFormat,
    /// The first reader that yields a value wins (S1).
    pub scope: Vec<ScopeReader>,
    /// How fingerprints are made (F1).
    pub recipe: Recipe,
    /// Largest request body, in bytes.
    pub max_request: u64,
    /// Further request fields that carry a key upstream, derived from namespace, scope and key (E11).
    pub forward_key_as: Vec<HeaderName>,
}

impl Default for Guard {
    /// The built-in values of the protocol.
    fn default() -> Self {
        Self {
            key_required: false,
            key_header: HeaderName::from_static("idempotency-key"),
            key_format: KeyFormat::Any,
            scope: vec![ScopeSource::Header(HeaderName::from_static("x-account-id")).into()],
            recipe: Recipe::default(),
            max_request: 1024 * 1024,
            forward_key_as: Vec::new(),
        }
    }
}

/// Routes that can't be used as given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// A safe method can't be guarded (K7).
    #[error("{0} can't be guarded; it always passes")]
    SafeMethod(Method),
    /// A request that is let through without a claim has no transaction to work in.
    #[error("{0} can't let requests through without a claim (`on_store_error = \"open\"`) in transactional mode")]
    OpenTransaction(String),
    /// The path is no valid pattern.
    #[error("`{0}` is no path pattern: {1}")]
    Pattern(String, String),
    /// The name of a scope's source stands in records.
    #[error("`{0}` can't name a scope's source: it takes 1 to 255 characters, and no control characters")]
    ScopeSource(String),
    /// Two routes guard the same method on the same path.
    #[error("{0} {1} is guarded by two routes")]
    Overlap(Method, String),
    /// Two routes guard the same method on patterns of which neither goes before the other.
    #[error("{0} {1} and {2} can't both be guarded: neither is the more exact one")]
    Ambiguous(Method, String, String),
}

/// The routes of a service, ready to be asked.
#[derive(Debug, Default)]
pub struct Routes {
    all: Vec<Route>,
    methods: Vec<(Method, MethodRoutes)>,
}

/// The routes of one method, by their numbers. Each method has a router of its own, so that the more exact path of another
/// method's route never hides the route of this one.
#[derive(Debug, Default)]
struct MethodRoutes {
    at: matchit::Router<usize>,
    everywhere: Option<usize>,
}

impl Routes {
    /// Checks and indexes routes. The more exact path goes first, any path before none.
    pub fn new(routes: Vec<Route>) -> Result<Self, RouteError> {
        let mut index = Self::default();
        for route in routes {
            if route.transactions.is_some() && route.policy.on_store_error == OnStoreError::Open {
                return Err(RouteError::OpenTransaction(route.policy.route.clone()));
            }
            for reader in &route.guard.scope {
                // A source's name is kept as its values are.
                Scope::new("source", reader.source())
                    .map_err(|_| RouteError::ScopeSource(reader.source().to_owned()))?;
            }
            for method in &route.methods {
                index.add(method, route.path.as_deref())?;
            }
            index.all.push(route);
        }
        Ok(index)
    }

    fn add(&mut self, method: &Method, path: Option<&str>) -> Result<(), RouteError> {
        if [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) {
            return Err(RouteError::SafeMethod(method.clone()));
        }
        let number = self.all.len();
        let guarded = self.of_method(method);
        let Some(path) = path else {
            let taken = guarded.everywhere.replace(number).is_some();
            return if taken { Err(RouteError::Overlap(method.clone(), "*".to_owned())) } else { Ok(()) };
        };
        guarded.at.insert(path, number).map_err(|error| match error {
            matchit::InsertError::Conflict { with } if with == path => {
                RouteError::Overlap(method.clone(), path.to_owned())
            }
            matchit::InsertError::Conflict { with } => RouteError::Ambiguous(method.clone(), with, path.to_owned()),
            error => RouteError::Pattern(path.to_owned(), error.to_string()),
        })
    }

    fn of_method(&mut self, method: &Method) -> &mut MethodRoutes {
        let found = self.methods.iter().position(|(known, _)| known == method);
        let index = found.unwrap_or_else(|| {
            self.methods.push((method.clone(), MethodRoutes::default()));
            self.methods.len() - 1
        });
        &mut self.methods[index].1
    }

    /// The number of the route that guards a request, if one does.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Option<usize> {
        let (_, guarded) = self.methods.iter().find(|(known, _)| known == method)?;
        guarded.at.at(path).ok().map(|found| *found.value).or(guarded.everywhere)
    }

    /// A route by the number that [`Routes::find`] gave.
    pub(crate) fn get(&self, number: usize) -> &Route {
        &self.all[number]
    }

    /// All routes.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.all.iter()
    }
}
