//! What a case about transactions is given: a fixture, transactions on its records, and a table for rows of the handler's own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncekey_store::{Begun, Claim, Closed, Ending, Found, StoreError, Transaction, Transactions};

use crate::{Fixture, samples};

/// Tries of [`TransactionFixture::open_soon`], a hundredth of a second apart.
const TRIES: u32 = 3000;

/// The handler's rows, written by each store in its own way.
#[async_trait]
pub trait Rows: Send + Sync + 'static {
    /// Writes a row in a transaction as a handler does, and ends the transaction so. Where the store's handlers leave their work
    /// to the end, by [`Ending::Last`]. Never called with that.
    async fn write_and_end(
        &self,
        transaction: Box<dyn Transaction>,
        row: &str,
        ending: Ending,
    ) -> Result<Closed, StoreError>;

    /// How many such rows are committed.
    async fn count(&self, row: &str) -> u64;
}

/// An empty store, transactions on it, and an empty table for rows.
pub struct TransactionFixture {
    /// The store that the records are in.
    pub base: Fixture,
    /// The transactions under test.
    pub transactions: Arc<dyn Transactions>,
    /// Transactions on the same records: another process's, where the store can serve several.
    pub elsewhere: Arc<dyn Transactions>,
    /// The rows of both.
    pub rows: Arc<dyn Rows>,
}

impl TransactionFixture {
    /// The same place with other transactions in front: broken ones, in tests of the suite.
    #[must_use]
    pub fn wrapped(self, wrap: impl Fn(Arc<dyn Transactions>) -> Arc<dyn Transactions>) -> Self {
        Self { transactions: wrap(self.transactions), elsewhere: wrap(self.elsewhere), ..self }
    }

    /// A first claim of a new, living owner, not yet made.
    pub async fn claim(&self, key: &str) -> Claim {
        samples::claim(&samples::identity("acc-1", key), self.base.owner().await)
    }

    /// Opens a transaction; the attempt, and the transaction.
    ///
    /// # Panics
    /// If something is in the way.
    pub async fn open(&self, claim: &Claim) -> (u32, Box<dyn Transaction>) {
        opened(self.transactions.begin(claim.clone()).await)
    }

    /// The same once another's transaction, which is being rolled back, is out of the way.
    ///
    /// # Panics
    /// If a record is in the way, or the other transaction stays for half a minute.
    pub async fn open_soon(&self, claim: &Claim) -> (u32, Box<dyn Transaction>) {
        for _ in 0..TRIES {
            match self.transactions.begin(claim.clone()).await {
                Ok(Begun::Busy) => tokio::time::sleep(Duration::from_millis(10)).await,
                begun => return opened(begun),
            }
        }
        panic!("a transaction that is gone is still in the way");
    }

    /// Writes the row `row` and ends the transaction so.
    pub async fn end(
        &self,
        transaction: Box<dyn Transaction>,
        row: &str,
        ending: Ending,
    ) -> Result<Closed, StoreError> {
        self.rows.write_and_end(transaction, row, ending).await
    }

    /// The record that is in the way of a claim.
    ///
    /// # Panics
    /// If none is.
    pub async fn in_the_way(&self, claim: &Claim) -> Found {
        match self.transactions.begin(claim.clone()).await {
            Ok(Begun::Held(found)) => *found,
            begun => panic!("expected Held, got {}", name(&begun)),
        }
    }
}

/// The attempt and the transaction that was opened.
///
/// # Panics
/// If none was.
#[track_caller]
pub fn opened(begun: Result<Begun, StoreError>) -> (u32, Box<dyn Transaction>) {
    match begun {
        Ok(Begun::Open { attempt, transaction }) => (attempt, transaction),
        begun => panic!("expected Open, got {}", name(&begun)),
    }
}

fn name(begun: &Result<Begun, StoreError>) -> String {
    match begun {
        Ok(Begun::Open { attempt, .. }) => format!("Open, attempt {attempt}"),
        Ok(Begun::Held(found)) => format!("Held by {found:?}"),
        Ok(Begun::Busy) => "Busy".to_owned(),
        Err(error) => format!("{error:?}"),
    }
}
