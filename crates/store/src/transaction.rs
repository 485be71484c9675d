//! Claims that are held open in a transaction in which the handler works too, so that its rows and the record commit together
//! or not at all (G3).

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::Response;
use oncekey_core::Timestamp;
use parking_lot::Mutex;

use crate::{Claim, Found, Outcome, StoreError};

/// Opens transactions that hold a claim. They are on the database that the records are kept in, so that a record which one
/// of them committed is found by the [`Store`](crate::Store) beside it.
#[async_trait]
pub trait Transactions: Send + Sync + 'static {
    /// Opens a transaction and makes the claim in it, or reports what is in its way; then nothing is held open. Never waits for
    /// another's open transaction (W3), but may wait, within bounds, for a connection of its own. As with
    /// [`claim`](crate::Store::claim), a record that bears the token and state of [`Claim::replaces`] is replaced.
    ///
    /// Nothing is committed, so an error means that nothing was applied, and dropping the future undoes what was begun.
    async fn begin(&self, claim: Claim) -> Result<Begun, StoreError>;
}

impl std::fmt::Debug for dyn Transactions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transactions").finish_non_exhaustive()
    }
}

/// What came of beginning.
pub enum Begun {
    /// The claim stands as long as the transaction is open.
    Open {
        /// Executions granted so far, this one included.
        attempt: u32,
        /// The transaction.
        transaction: Box<dyn Transaction>,
    },
    /// A committed record is in the way.
    Held(Box<Found>),
    /// Another open transaction has claimed the record, on this node or another. What becomes of it is known when it ends.
    Busy,
}

/// An open transaction that holds a claim. Dropping it rolls everything back, soon.
#[async_trait]
pub trait Transaction: Send {
    /// What the handler works with: a type of the store's own, which its extractor finds in the request's extensions. Whoever
    /// keeps it longer than the handler runs gets an error from it, and the transaction is rolled back.
    fn handle(&self) -> Arc<dyn Any + Send + Sync>;

    /// Ends the transaction. An error means that nothing was applied, or that nobody can tell
    /// ([`StoreError::MayHaveBeenApplied`]): an unclear commit is settled first by reading the record back by its token. Of
    /// [`Ending::RollBack`] it says that only where the handler may have committed by itself; a rollback of which nothing was heard
    /// is none of it, for without its connection a transaction ends so too.
    /// Dropping the future doesn't stop an end that has begun.
    async fn end(self: Box<Self>, ending: Ending) -> Result<Closed, StoreError>;
}

/// How a transaction is to end.
pub enum Ending {
    /// With the handler's rows and the record.
    Commit(Outcome),
    /// With the record alone: the handler's rows are rolled back to the savepoint before them.
    CommitRecord(Outcome),
    /// With nothing: no rows and no record.
    RollBack,
    /// As it turns out: the handler left work to be done in the transaction. Only for stores whose handles say so.
    Last(Last),
}

/// Work in a transaction that isn't the handler's own task's: it gets the store's connection, and says how to end; never by
/// [`Ending::Last`] again. Called at most once; not at all if the claim turns out to be lost. A panic in it rolls back.
pub type Last = Box<dyn FnOnce(&dyn Any) -> Ending + Send>;

/// How a transaction ended.
#[derive(Debug)]
pub enum Closed {
    /// The record is committed, and with it what was asked for.
    Recorded {
        /// When the record expires.
        expires: Timestamp,
        /// The store's time of the write.
        now: Timestamp,
    },
    /// All was rolled back.
    RolledBack,
    /// All was rolled back since it met another transaction (a serialization failure, a deadlock): worth running again.
    Again,
    /// All was rolled back, for another's record was committed since the beginning.
    Met(Box<Found>),
}

/// What the handler works with, in the extensions of its request. Extractors of the SQL stores look for their own type in it.
#[derive(Clone)]
pub struct TransactionHandle(pub Arc<dyn Any + Send + Sync>);

/// Makes a handler's answer in the transaction, from the store's connection.
pub type Answering = Box<dyn FnOnce(&dyn Any) -> Response<Bytes> + Send>;

/// In the extensions of a response: the answer isn't this one, but is made in the transaction ([`Ending::Last`]).
#[derive(Clone)]
pub struct Deferred(Arc<Mutex<Option<Answering>>>);

impl Deferred {
    /// An answer that is made so.
    pub fn new(answering: Answering) -> Self {
        Self(Arc::new(Mutex::new(Some(answering))))
    }

    /// Takes it; `None` the second time.
    pub fn take(&self) -> Option<Answering> {
        self.0.lock().take()
    }
}
