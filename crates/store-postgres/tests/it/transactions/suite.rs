//! The suite that every store's transactions must pass, with each driver in each place.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncekey_store::{Closed, Ending, Store, StoreError, Transaction};
use oncekey_store_postgres::TransactionOptions;
use oncekey_store_test::{Fixture, Rows, TransactionFixture};
use parking_lot::Mutex;

use super::{Driver, Running, Where, transactions};
use crate::place::{Dropped, Raw, open, wait};

/// The ledger as the suite sees it.
struct Ledger {
    driver: Driver,
    raw: Raw,
}

#[async_trait]
impl Rows for Ledger {
    async fn write_and_end(
        &self,
        transaction: Box<dyn Transaction>,
        row: &str,
        ending: Ending,
    ) -> Result<Closed, StoreError> {
        let mut running = Running::new(self.driver, transaction);
        running.pay(row).await;
        running.end(ending).await
    }

    async fn count(&self, row: &str) -> u64 {
        let count = self.raw.count(&format!("SELECT count(*) FROM ledger WHERE key = '{row}'")).await;
        u64::try_from(count).expect("a count")
    }
}

fn fixture(driver: Driver, place: Where) -> TransactionFixture {
    let dropped = Dropped::new(place.server());
    let (url, direct) = (place.url(&dropped.name), place.server().url(&dropped.name));
    let raw = wait(Raw::connect_to(&direct));
    wait(raw.client.batch_execute("CREATE TABLE ledger (key TEXT NOT NULL)")).expect("a table");
    let begun = Mutex::new(Vec::new());
    let base = Fixture::shared(dropped, |_, clock| -> Arc<dyn Store> {
        let store = wait(open(&url, clock));
        let options = TransactionOptions { wait: Duration::from_mins(1), ..TransactionOptions::default() };
        begun.lock().push(wait(transactions(driver, &store, &url, 5, options)).expect("transactions"));
        Arc::new(store)
    });
    let mut begun = begun.into_inner();
    let (elsewhere, transactions) = (begun.pop().expect("two"), begun.pop().expect("two"));
    TransactionFixture { base, transactions, elsewhere, rows: Arc::new(Ledger { driver, raw }) }
}

macro_rules! suites {
    ($($name:ident: $driver:expr, $place:expr;)+) => {
        $(mod $name {
            use super::{Driver, TransactionFixture, Where};

            fn fixture() -> TransactionFixture {
                super::fixture($driver, $place)
            }

            oncekey_store_test::transaction_suite!(fixture);
        })+
    };
}

suites! {
    tokio_postgres_15: Driver::TokioPostgres, Where::Old;
    tokio_postgres_18: Driver::TokioPostgres, Where::New;
    tokio_postgres_pooled: Driver::TokioPostgres, Where::Pooled;
    sqlx_15: Driver::Sqlx, Where::Old;
    sqlx_18: Driver::Sqlx, Where::New;
    sqlx_pooled: Driver::Sqlx, Where::Pooled;
}
