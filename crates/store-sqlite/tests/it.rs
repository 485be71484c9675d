//! The SQLite store: the suites of all stores, and what only a store in a file can show.

#[path = "it/batching.rs"]
mod batching;
#[path = "it/damage.rs"]
mod damage;
#[path = "it/files.rs"]
mod files;
#[path = "it/lasting.rs"]
mod lasting;
#[path = "it/place.rs"]
mod place;
#[path = "it/scopes.rs"]
mod scopes;
#[path = "it/transactions.rs"]
mod transactions;

use oncekey_store_test::{suite, transaction_suite};
use place::{fixture, transaction_fixture};

suite!(fixture);
transaction_suite!(transaction_fixture);
