//! Which requests are guarded, and how: the routes.

use std::sync::Arc;

use http::{HeaderName, Method};
use oncekey_core::policy::Policy;
use oncekey_core::{KeyFormat, Recipe, ScopeSource};

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
    /// The first source that yields a value wins (S1).
    pub scope: Vec<ScopeSource>,
    /// How fingerprints are made (F1).
    pub recipe: Recipe,
    /// Largest request body, in bytes.
    pub max_request: u64,
}

impl Default for Guard {
    /// The built-in values of the protocol.
    fn default() -> Self {
        Self {
            key_required: false,
            key_header: HeaderName::from_static("idempotency-key"),
            key_format: KeyFormat::Any,
            scope: vec![ScopeSource::Header(HeaderName::from_static("x-account-id"))],
            recipe: Recipe::default(),
            max_request: 1024 * 1024,
        }
    }
}

/// Routes that can't be used as given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// A safe method can't be guarded (K7).
    #[error("{0} can't be guarded; it always passes")]
    SafeMethod(Method),
    /// The path is no valid pattern.
    #[error("`{0}` is no path pattern: {1}")]
    Pattern(String, String),
    /// Two routes guard the same method on the same path.
    #[error("{0} {1} is guarded by two routes")]
    Overlap(Method, String),
}

/// The routes of a service, ready to be asked.
#[derive(Debug, Default)]
pub struct Routes {
    router: matchit::Router<Vec<usize>>,
    all: Vec<Route>,
    everywhere: Vec<usize>,
}

impl Routes {
    /// Checks and indexes routes. A route with a path goes before one without.
    pub fn new(routes: Vec<Route>) -> Result<Self, RouteError> {
        let mut index = Self { router: matchit::Router::new(), all: Vec::new(), everywhere: Vec::new() };
        for route in routes {
            index.add(route)?;
        }
        Ok(index)
    }

    fn add(&mut self, route: Route) -> Result<(), RouteError> {
        let safe = |method: &&Method| [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
        if let Some(method) = route.methods.iter().find(safe) {
            return Err(RouteError::SafeMethod(method.clone()));
        }
        let number = self.all.len();
        let same_path: &mut Vec<usize> = match &route.path {
            None => &mut self.everywhere,
            Some(path) => {
                // `at_mut` finds by matching, so a pattern finds itself only when it was inserted before: insert first.
                match self.router.insert(path.clone(), Vec::new()) {
                    Ok(()) | Err(matchit::InsertError::Conflict { .. }) => {}
                    Err(error) => return Err(RouteError::Pattern(path.clone(), error.to_string())),
                }
                self.router.at_mut(path).map_err(|error| RouteError::Pattern(path.clone(), error.to_string()))?.value
            }
        };
        for method in &route.methods {
            if same_path.iter().any(|other| self.all[*other].methods.contains(method)) {
                let path = route.path.clone().unwrap_or_else(|| "*".to_owned());
                return Err(RouteError::Overlap(method.clone(), path));
            }
        }
        same_path.push(number);
        self.all.push(route);
        Ok(())
    }

    /// The number of the route that guards a request, if one does.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Option<usize> {
        let at_path = self.router.at(path).map_or(&[][..], |found| found.value);
        let mut candidates = at_path.iter().chain(&self.everywhere).copied();
        candidates.find(|number| self.all[*number].methods.contains(method))
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
