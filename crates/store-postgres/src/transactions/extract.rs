//! How a handler comes by its transaction.

use std::any::Any;
use std::sync::Arc;

use axum_core::extract::FromRequestParts;
use axum_core::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Extensions, StatusCode, header};
use oncekey_store::TransactionHandle;

use super::PgTransaction;
use super::handle::LentClient;

/// Why there is no transaction for a handler: a mistake of the program, not of its client. The answer is 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTransaction {
    /// The request carries none.
    #[error("this route has no transactional mode, or the request has no key: there is no transaction to work in")]
    Absent,
    /// It is another driver's.
    #[error("the transaction is another driver's: the layer was given other transactions than this handler works in")]
    OtherDriver,
    /// It can be had once, and it was.
    #[error("the transaction is in use elsewhere in the same request")]
    Taken,
}

/// What a client is told, which can do nothing about it. Who runs the program finds more in the log.
const PROBLEM: &str = r#"{"title":"The handler has no transaction","status":500}"#;

impl IntoResponse for NoTransaction {
    fn into_response(self) -> Response {
        tracing::error!("a handler asks for its transaction in vain: {self}");
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (StatusCode::INTERNAL_SERVER_ERROR, kind, PROBLEM).into_response()
    }
}

/// The transaction's own type among a request's extensions.
pub(super) fn lent<T: Any + Send + Sync>(extensions: &Extensions) -> Result<Arc<T>, NoTransaction> {
    let handle = extensions.get::<TransactionHandle>().ok_or(NoTransaction::Absent)?;
    Arc::downcast(Arc::clone(&handle.0)).map_err(|_| NoTransaction::OtherDriver)
}

impl PgTransaction {
    /// The transaction of a request with these extensions: how hyper and tonic handlers come by it.
    pub fn of(extensions: &Extensions) -> Result<Self, NoTransaction> {
        lent::<LentClient>(extensions).map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for PgTransaction {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoTransaction> {
        Self::of(&parts.extensions)
    }
}
