//! Opening the configured store, for serving and for an operator's commands, and what its failures mean for the exit code.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncekey_store::{Clock, MemoryStore, Store, StoreError, SystemClock};
use oncekey_store_postgres::{PostgresOptions, PostgresStore};
use oncekey_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::config::StoreConfig;
use crate::exit::Failure;
use crate::settings::{PostgresUrl, StoreUrl};

/// Between two tries to reach a store at start.
const PAUSE: Duration = Duration::from_millis(250);

/// Opens the store of a gateway, and upgrades its schema unless `auto_migrate` is off. Tries until `start_timeout` has
/// passed; a store that isn't there by then is exit 69, one that can't be used as configured is exit 64.
pub(crate) async fn for_serving(config: &StoreConfig, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, Failure> {
    let deadline = Instant::now() + config.start_timeout;
    loop {
        let opened = match &config.url {
            StoreUrl::Memory => {
                tracing::warn!("store memory: nothing survives the end of this process");
                return Ok(Arc::new(MemoryStore::new(clock)));
            }
            StoreUrl::Sqlite(path) => open_sqlite(path, config.auto_migrate, Arc::clone(&clock)).await,
            StoreUrl::Postgres(url) => open_postgres(postgres(url, config)?, config.auto_migrate).await,
        };
        match opened {
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
    match &config.url {
        StoreUrl::Memory => return Err(in_memory()),
        StoreUrl::Sqlite(path) if !path.exists() => {
            return Err(Failure::unavailable(format_args!(
                "There is no store {}; name the gateway's with --store, --config or ONCEKEY_STORE.",
                config.url
            )));
        }
        StoreUrl::Sqlite(_) | StoreUrl::Postgres(_) => {}
    }
    as_it_is(config).await.map_err(|error| failure(&error))
}

/// Opens a store, once, and makes and upgrades nothing.
pub(crate) async fn as_it_is(config: &StoreConfig) -> Result<Arc<dyn Store>, StoreError> {
    match &config.url {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new(Arc::new(SystemClock)))),
        StoreUrl::Sqlite(path) => open_sqlite(path, false, Arc::new(SystemClock)).await,
        StoreUrl::Postgres(url) => {
            let options =
                postgres(url, config).map_err(|failure| StoreError::Misconfigured(failure.to_string().into()))?;
            open_postgres(options, false).await
        }
    }
}

/// Whether a store has an older schema, or none yet.
pub(crate) fn is_of_older_schema(error: &StoreError) -> bool {
    let StoreError::Misconfigured(cause) = error else { return false };
    let is_old_file = matches!(cause.downcast_ref(), Some(oncekey_store_sqlite::SchemaError::Older { .. }));
    is_old_file || matches!(cause.downcast_ref(), Some(oncekey_store_postgres::SchemaError::Older { .. }))
}

/// Creates the store's schema or upgrades it; gives its version before and after.
pub(crate) async fn migrate(config: &StoreConfig) -> Result<(u32, u32), Failure> {
    match &config.url {
        StoreUrl::Memory => Err(in_memory()),
        StoreUrl::Sqlite(path) => {
            let options = SqliteOptions::new(path);
            let migrating = spawn_blocking(move || oncekey_store_sqlite::migrate(&options));
            let migrated = migrating.await.map_err(Failure::failed)?.map_err(|error| failure(&error))?;
            Ok((migrated.from, migrated.to))
        }
        StoreUrl::Postgres(url) => {
            let migrated = oncekey_store_postgres::migrate(&postgres(url, config)?).await;
            let migrated = migrated.map_err(|error| failure(&error))?;
            Ok((migrated.from, migrated.to))
        }
    }
}

/// The statements that make the schema, for who runs them by hand.
pub(crate) fn migration_sql(config: &StoreConfig) -> Result<String, Failure> {
    match &config.url {
        StoreUrl::Postgres(_) => Ok(oncekey_store_postgres::migration_sql()),
        StoreUrl::Sqlite(_) | StoreUrl::Memory => {
            Err(Failure::usage(format_args!("--print-sql is for postgres:// stores, and {} is none.", config.url)))
        }
    }
}

fn in_memory() -> Failure {
    Failure::usage("store memory: lives in its gateway's process only; ask its admin API.")
}

/// Where and how a PostgreSQL store is reached.
pub(crate) fn postgres(url: &PostgresUrl, config: &StoreConfig) -> Result<PostgresOptions, Failure> {
    let mut options = url.options().map_err(Failure::usage)?;
    options.connections = config.connections;
    for (setting, value) in &config.declared {
        options.declared.state(setting, value).map_err(Failure::usage)?;
    }
    Ok(options)
}

async fn open_postgres(options: PostgresOptions, migrate: bool) -> Result<Arc<dyn Store>, StoreError> {
    if migrate {
        oncekey_store_postgres::migrate(&options).await?;
    }
    Ok(Arc::new(PostgresStore::open(options).await?))
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
        StoreError::Misconfigured(_) if is_of_older_schema(error) => Failure::unavailable(error),
        StoreError::Misconfigured(_) => Failure::usage(error),
        StoreError::NotApplied(_) | StoreError::MayHaveBeenApplied(_) => Failure::unavailable(error),
        StoreError::Corrupt(_) => Failure::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use oncekey_store_postgres::Declared;

    use crate::settings::declarable;

    #[test]
    fn what_the_configuration_takes_as_declared_the_store_takes_too() {
        let declarable: Vec<_> = declarable().collect();
        assert!(!declarable.is_empty());
        for (name, value) in declarable {
            Declared::default().state(name, value).expect("the store knows it");
        }
    }
}
