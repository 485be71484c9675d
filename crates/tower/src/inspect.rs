//! What the layer would make of a request's head: for tools that explain it. Nothing is counted, claimed or answered.

use http::{HeaderValue, request};
use oncekey_core::problem::Problem;
use oncekey_core::{Identity, Namespace};

use crate::keyed::{Looked, look};
use crate::route::{Route, Routes};

/// What the layer would do with a request, as far as its head decides that.
#[derive(Debug)]
pub enum Inspection<'a> {
    /// Let it through: no route guards it (K7).
    Unguarded,
    /// Let it through: this route guards it, and it has no key and needs none (K6).
    NoKey(&'a Route),
    /// Refuse it with this problem; with its key, as sent, where it has a valid one.
    Refused(&'a Route, Problem, Option<HeaderValue>),
    /// Read it as a keyed request of this record.
    Keyed(&'a Route, Identity),
}

impl Routes {
    /// What the layer would make of a request with this head.
    pub fn inspect(&self, head: &request::Parts, namespace: &Namespace) -> Inspection<'_> {
        let Some(number) = self.find(&head.method, head.uri.path()) else { return Inspection::Unguarded };
        let route = self.get(number);
        match look(head, &route.guard, namespace) {
            Looked::NoKey => Inspection::NoKey(route),
            Looked::Refused(problem, sent) => Inspection::Refused(route, problem, sent.map(|sent| sent.value)),
            Looked::Keyed { identity, .. } => Inspection::Keyed(route, identity),
        }
    }
}
