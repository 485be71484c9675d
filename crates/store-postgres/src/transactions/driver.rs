//! What a driver has to do for transactions: the seam between them and tokio-postgres or sqlx.

use std::any::Any;
use std::sync::Arc;

use oncekey_core::Timestamp;
use tokio_postgres::types::{ToSql, Type};

use super::protocol::{Rows, Script, Value};
use super::trouble::Trouble;
use crate::session::Param;

/// When a record expires, and when it was written.
pub(super) type Times = (Timestamp, Timestamp);

/// A pool of the user's driver.
pub(super) trait Pool: Send + Sync + 'static {
    type Connection: Connection;

    /// A connection with a transaction begun on it.
    fn begin(&self, script: &Script) -> impl Future<Output = Result<(Self::Connection, Rows), Trouble>> + Send;

    /// The rows of a statement by itself.
    fn ask(&self, sql: String) -> impl Future<Output = Result<Rows, Trouble>> + Send;
}

/// A connection with a transaction on it. Dropping it rolls back and lets no other have the connection as it is.
pub(super) trait Connection: Sized + Send + 'static {
    /// What the transaction and its handler share.
    type Lent: Lent<Connection = Self>;

    /// Makes it the handler's.
    fn lend(self) -> Arc<Self::Lent>;

    /// Runs statements without parameters.
    fn run(&mut self, sql: &str) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Runs `before`, `protocol::WRITE` and COMMIT. None of them has an effect if one before it fails; the failure is the first one's.
    fn commit(&mut self, before: &str, values: &[Value<'_>]) -> impl Future<Output = Result<Times, Trouble>> + Send;

    /// Gives it back, with no transaction on it.
    fn release(self) -> impl Future<Output = ()> + Send;
}

/// A connection as long as it is the handler's.
pub(super) trait Lent: Send + Sync + 'static {
    type Connection: Connection;

    /// What the handler's type is made from.
    fn handle(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Takes the connection back once no statement of the handler's is running any more; from then on it gets errors.
    fn take_back(&self) -> impl Future<Output = Option<Self::Connection>> + Send;

    /// Whether a statement of the handler's failed since it met another transaction.
    fn has_met_another(&self) -> bool;
}

impl Value<'_> {
    /// As tokio-postgres takes it.
    pub(super) fn param(&self) -> Param<'_> {
        fn typed(value: &(dyn ToSql + Sync), of: Type) -> Param<'_> {
            (value, of)
        }
        match self {
            Self::Bytes(bytes) => typed(bytes, Type::BYTEA),
            Self::Text(text) => typed(text, Type::TEXT),
            Self::Int(number) => typed(number, Type::INT8),
            Self::Small(number) => typed(number, Type::INT2),
            Self::Bool(yes) => typed(yes, Type::BOOL),
        }
    }
}
