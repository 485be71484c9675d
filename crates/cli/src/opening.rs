//! Opening the configured store, for serving and for an operator's commands, and what its failures mean for the exit code.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncekey_store::{Clock, MemoryStore, Store, StoreError, SystemClock};
use oncekey_store_sqlite::{Migrated, SchemaError, SqliteOptions, SqliteStore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::config::StoreConfig;
use crate::exit::Failure;
use crate::settings::StoreUrl;

/// Between two tries to reach a store at start.
const PAUSE: Duration = Duration::from_millis(250);

/// Opens the store of a gateway, and upgrades its schema unless `auto_migrate` is off. Tries until `start_timeout` has
/// passed; a store that isn't there by then is exit 69, one that can't be used as configured is exit 64.
pub(crate) async fn for_serving(config: &StoreConfig, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, Failure> {
    let path = match &config.url {
        StoreUrl::Memory => {
            tracing::warn!("store memory: nothing survives the end of this process");
            return Ok(Arc::new(MemoryStore::new(clock)));
        }
        StoreUrl::Sqlite(path) => path,
    };
    let deadline = Instant::now() + config.start_timeout;
    loop {
        match open_sqlite(path, config.auto_migrate, Arc::clone(&clock)).await {
            Ok(store) => return Ok(store),
            Err(error @ (StoreError::Misconfigured(_) | StoreError::Corrupt(_))) => return Err(failure(&error)),
            Err(error) if Instant::now() >= deadline => return Err(failure(&error)),
            Err(error) => tracing::warn!(%error, "the store isn't there yet; trying again"),
        }
        sleep(PAUSE).await;
    }
}

/// Opens the store of an operator's command; it must be there, in this version's schema.
pub(crate) async fn for_operator(config: &StoreConfig) -> Result<Arc<dyn Store>, Failure> {
    let path = sqlite_file(config)?;
    if !path.exists() {
        return Err(Failure::unavailable(format_args!(
            "There is no store {}; name the gateway's with --store, --config or ONCEKEY_STORE.",
            config.url
        )));
    }
    open_sqlite(path, false, Arc::new(SystemClock)).await.map_err(|error| failure(&error))
}

/// Creates the store's schema or upgrades it.
pub(crate) async fn migrate(config: &StoreConfig) -> Result<Migrated, Failure> {
    let options = SqliteOptions::new(sqlite_file(config)?);
    let migrated = spawn_blocking(move || oncekey_store_sqlite::migrate(&options)).await.map_err(Failure::failed)?;
    migrated.map_err(|error| failure(&error))
}

fn sqlite_file(config: &StoreConfig) -> Result<&Path, Failure> {
    match &config.url {
        StoreUrl::Sqlite(path) => Ok(path),
        StoreUrl::Memory => {
            Err(Failure::usage("store memory: lives in its gateway's process only; ask its admin API."))
        }
    }
}

async fn open_sqlite(path: &Path, migrate: bool, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, StoreError> {
    let options = SqliteOptions::new(path);
    let opened = spawn_blocking(move || {
        if migrate {
            oncekey_store_sqlite::migrate(&options)?;
        }
        SqliteStore::open(options, clock)
    });
    match opened.await {
        Ok(store) => Ok(Arc::new(store?)),
        Err(panicked) => Err(StoreError::NotApplied(panicked.into())),
    }
}

/// What a store's failure means for the end of the program: 69 where the store isn't there or isn't ready, 64 where it is
/// the wrong one.
pub(crate) fn failure(error: &StoreError) -> Failure {
    match error {
        StoreError::Misconfigured(cause) => match cause.downcast_ref() {
            Some(SchemaError::Older { .. }) => Failure::unavailable(error),
            _ => Failure::usage(error),
        },
        StoreError::NotApplied(_) | StoreError::MayHaveBeenApplied(_) => Failure::unavailable(error),
        StoreError::Corrupt(_) => Failure::failed(error),
    }
}
