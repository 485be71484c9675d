//! A keyed request: what it is to the engine, and how it goes in to the inner service.

use std::sync::Arc;

use http::header::ACCEPT_ENCODING;
use http::{HeaderName, HeaderValue, Request, request};
use oncekey_core::Identity;
use oncekey_core::fingerprint::{Body, Fingerprint, Operation, Recipe, TooLarge};
use oncekey_core::record::Origin;
use oncekey_core::response::retain;
use oncekey_engine::Attempt;

use crate::answer::{OPERATION_ID, ascii};
use crate::body::RequestBody;
use crate::grpc;
use crate::intake::Intake;

const ATTEMPT: HeaderName = HeaderName::from_static("oncekey-attempt");

/// A keyed request, whole. Shared between its execution, which may have to be begun again, and its fingerprint.
pub(crate) struct KeyedRequest {
    pub(crate) head: request::Parts,
    pub(crate) body: Intake,
    /// The most bytes that its body may decode to.
    pub(crate) max_decoded: u64,
    /// Fields that the inner service gets in place of the client's of the same names.
    pub(crate) forwarded: Vec<(HeaderName, HeaderValue)>,
}

/// The fields that carry a key derived from the request's identity (E11).
pub(crate) fn forwarded_key(names: &[HeaderName], identity: &Identity) -> Vec<(HeaderName, HeaderValue)> {
    if names.is_empty() {
        return Vec::new();
    }
    let key = ascii(identity.forwarded_key());
    names.iter().map(|name| (name.clone(), key.clone())).collect()
}

impl KeyedRequest {
    /// Its fingerprint under a recipe. A body under a content coding is decoded for the time that this takes (F6): the
    /// upstream gets it as sent, so nothing of it is kept.
    pub(crate) fn fingerprint(&self, recipe: &Recipe) -> Result<Fingerprint, TooLarge> {
        let operation = Operation {
            method: &self.head.method,
            path: self.head.uri.path(),
            query: self.head.uri.query(),
            headers: &self.head.headers,
            body: &Body::decode(&self.head.headers, &self.body.bytes, self.max_decoded)?,
        };
        Ok(Fingerprint::of(&operation, recipe))
    }

    /// What operators see of it; `route` is the configured path.
    pub(crate) fn origin(&self, route: &str) -> Origin {
        Origin { route: route.to_owned(), method: self.head.method.to_string(), path: self.head.uri.path().to_owned() }
    }

    /// The request as it is let through without a claim (D1): it has no operation id and no attempt to tell, and the
    /// client's own fields that look like oncekey's are removed.
    pub(crate) fn unguarded(&self) -> Request<RequestBody> {
        let mut head = self.head.clone();
        retain(&mut head.headers, |name| !name.as_str().starts_with("oncekey-"));
        self.add_forwarded(&mut head);
        Request::from_parts(head, self.body())
    }

    /// The request of one attempt. The client's own lines of oncekey's fields are replaced (E11). The attempt's transaction is
    /// an extension of its own, so that whoever keeps the attempt doesn't keep that.
    pub(crate) fn build(&self, mut attempt: Attempt) -> Request<RequestBody> {
        let mut head = self.head.clone();
        head.headers.insert(OPERATION_ID, ascii(attempt.id));
        head.headers.insert(ATTEMPT, HeaderValue::from(attempt.number));
        self.add_forwarded(&mut head);
        head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity")); // R4
        head.headers.remove(grpc::TIMEOUT);
        if let Some(transaction) = attempt.transaction.take() {
            head.extensions.insert(transaction);
        }
        if let Some(fence) = attempt.fence() {
            head.extensions.insert(fence);
        }
        head.extensions.insert(attempt);
        Request::from_parts(head, self.body())
    }

    fn add_forwarded(&self, head: &mut request::Parts) {
        for (name, key) in &self.forwarded {
            head.headers.insert(name, key.clone());
        }
    }

    fn body(&self) -> RequestBody {
        let bytes = self.body.bytes.clone();
        match &self.body.share {
            Some(share) => RequestBody::budgeted(bytes, Arc::clone(share)),
            None => RequestBody::whole(bytes),
        }
    }
}
