//! What a handler works with: it hands over work, which runs in the transaction of its record.

use std::any::Any;
use std::fmt::Display;

use bytes::Bytes;
use http::{Extensions, Response, StatusCode};
use oncekey_store::{Deferred, TransactionHandle};
use rusqlite::Connection;

/// Most bytes of an answer's body: it is written by the one writer, before anybody is answered.
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;

/// The transaction of a request's record. A handler does what takes time first (checks, questions to others), then hands over
/// what reads and writes rows, and returns at once; the answer is made there.
///
/// The work gets SQLite's connection, in the middle of a transaction that is shared with other requests, each in a savepoint of
/// its own. It may read and write rows of the application's tables. It can't begin or end transactions (savepoints are fine), change
/// the schema or a setting, attach a file, or see oncekey's own tables: such a statement fails. It should take milliseconds,
/// since all writing waits for it; a statement that runs past [`SqliteOptions::work_timeout`](crate::SqliteOptions::work_timeout)
/// is interrupted. What it does outside of SQL can't be bounded, and is done again if the request is run again.
///
/// How it ends (G3): with an answer of 2xx to 4xx, rows and record commit together, and the client is answered after that; a 4xx
/// is recorded without the rows. With an error, a panic, a 5xx or an answer that invites a retry, nothing remains. The work may not
/// run at all, if a duplicate elsewhere was faster; and it may run more than once, if its transaction is lost with
/// another's, but only one run of it commits.
#[derive(Clone, Debug)]
pub struct SqliteTransaction(());

/// The request has no transaction on SQLite: its route isn't in transactional mode, it has no key, or its store is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this request has no transaction on SQLite: its route isn't transactional, or it has no key")]
pub struct NoTransaction;

impl SqliteTransaction {
    pub(crate) fn new() -> Self {
        Self(())
    }

    /// The transaction of the request that has these extensions.
    pub fn of(extensions: &Extensions) -> Result<Self, NoTransaction> {
        let TransactionHandle(handle) = extensions.get().ok_or(NoTransaction)?;
        handle.downcast_ref().cloned().ok_or(NoTransaction)
    }

    /// Hands over the work that makes the answer. What is returned here isn't the answer yet, and has to be what the handler
    /// returns, with its extensions; where they get lost, the request fails and nothing was done. Errors, and an answer over 8 MiB,
    /// are logged and answered with 500; what a client is to read is a response.
    #[must_use = "the work is done only if this is what the handler returns"]
    pub fn answer<B, E>(
        self,
        work: impl FnOnce(&Connection) -> Result<Response<Bytes>, E> + Send + 'static,
    ) -> Response<B>
    where
        B: Default,
        E: Display,
    {
        let answering = move |connection: &dyn Any| match connection.downcast_ref() {
            Some(connection) => match work(connection) {
                Ok(response) if response.body().len() > LARGEST_ANSWER => failed(&"its answer is larger than 8 MiB"),
                Ok(response) => response,
                Err(error) => failed(&error),
            },
            None => failed(&NoTransaction),
        };
        let mut response = Response::new(B::default());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response.extensions_mut().insert(Deferred::new(Box::new(answering)));
        response
    }
}

/// The answer in place of one that work failed to make. What went wrong is the operator's to read.
fn failed(error: &dyn Display) -> Response<Bytes> {
    tracing::error!(%error, "a handler's work in the transaction of its record failed; it was rolled back");
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

#[cfg(feature = "tower")]
mod axum {
    use std::fmt::Display;

    use axum_core::body::Body;
    use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
    use axum_core::response::{IntoResponse, Response};
    use bytes::Bytes;
    use futures_util::FutureExt;
    use http::StatusCode;
    use http::request::Parts;
    use http_body_util::{BodyExt, Limited};
    use rusqlite::Connection;

    use super::{LARGEST_ANSWER, NoTransaction, SqliteTransaction};

    impl SqliteTransaction {
        /// [`answer`](Self::answer), with axum's responses; they have to be in memory, not streams.
        #[must_use = "the work is done only if this is what the handler returns"]
        pub fn run<A, E>(self, work: impl FnOnce(&Connection) -> Result<A, E> + Send + 'static) -> Response
        where
            A: IntoResponse,
            E: Display,
        {
            self.answer::<Body, String>(move |connection| {
                let response = work(connection).map_err(|error| error.to_string())?.into_response();
                in_memory(response).ok_or_else(|| "its answer is a stream, or larger than 8 MiB".to_owned())
            })
        }
    }

    fn in_memory(response: Response) -> Option<http::Response<Bytes>> {
        let (head, body) = response.into_parts();
        let collected = Limited::new(body, LARGEST_ANSWER).collect().now_or_never()?;
        Some(http::Response::from_parts(head, collected.ok()?.to_bytes()))
    }

    impl<S: Sync> FromRequestParts<S> for SqliteTransaction {
        type Rejection = NoTransaction;

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoTransaction> {
            Self::of(&parts.extensions)
        }
    }

    impl<S: Sync> OptionalFromRequestParts<S> for SqliteTransaction {
        type Rejection = NoTransaction;

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, NoTransaction> {
            Ok(Self::of(&parts.extensions).ok())
        }
    }

    impl IntoResponse for NoTransaction {
        fn into_response(self) -> Response {
            (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response()
        }
    }
}
