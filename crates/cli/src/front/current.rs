//! What answers requests at present: a reload replaces it whole, and a request keeps what was there when it began.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::refusal::Refusals;

/// What answers a request.
#[derive(Debug)]
pub(crate) struct Serving<S> {
    /// What requests that are right as HTTP go to.
    pub(crate) service: S,
    /// The answers of the gateway itself.
    pub(crate) refusals: Refusals,
}

/// What answers requests at present. Clones are the same one.
pub(crate) struct Current<S>(Arc<ArcSwap<Serving<S>>>);

impl<S> Clone for Current<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Current<S> {
    /// Begins with this.
    pub(crate) fn new(serving: Serving<S>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(serving)))
    }

    /// Lets all further requests be answered by this, on old connections too.
    pub(crate) fn replace(&self, serving: Serving<S>) {
        self.0.store(Arc::new(serving));
    }

    /// What a request that begins now is answered by, from beginning to end.
    pub(super) fn get(&self) -> Arc<Serving<S>> {
        self.0.load_full()
    }
}
