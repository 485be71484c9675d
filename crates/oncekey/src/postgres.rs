//! The shared store, opened in one step. What it promises and when is told in `oncekey-store-postgres`.

use std::sync::Arc;

use oncekey_store::{Store, StoreError};
pub use oncekey_store_postgres::{
    InvalidUrl, Migrated, PostgresOptions, PostgresStore, SchemaError, migrate, migration_sql,
};

/// Opens the database that a URL names (`postgres://USER@HOST/DATABASE?sslmode=verify-full`), and creates the tables or brings
/// them up to date first. Needs a Tokio runtime, on which the store keeps its tasks.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let options = PostgresOptions::from_url(url).map_err(|error| StoreError::Misconfigured(error.into()))?;
    migrate(&options).await?;
    Ok(Arc::new(PostgresStore::open(options).await?))
}
