//! The embedded store, opened in one step. What it promises and where is told in `oncekey-store-sqlite`.

use std::path::PathBuf;
use std::sync::Arc;

use oncekey_store::{Store, StoreError, SystemClock};
pub use oncekey_store_sqlite::{Migrated, SchemaError, SqliteOptions, SqliteStore, migrate};

/// Opens the database at `path`, and creates it or brings its schema up to date first. Blocks meanwhile. Processes of one host
/// may share it.
pub fn open(path: impl Into<PathBuf>) -> Result<Arc<dyn Store>, StoreError> {
    let options = SqliteOptions::new(path);
    migrate(&options)?;
    Ok(Arc::new(SqliteStore::open(options, Arc::new(SystemClock))?))
}
