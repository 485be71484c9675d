//! The SQLite store: the suite of all stores, and what only a store in a file can show.

#[path = "it/place.rs"]
mod place;

use oncekey_store_test::suite;
use place::fixture;

suite!(fixture);
