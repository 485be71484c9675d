//! The store as `check` sees it: there, of which version, usable by this role, promising what the routes require, and in step.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncekey_core::Timestamp;
use oncekey_store::{Clock as _, Store, StoreError, SystemClock};
use rustix::fs::{Access, access};
use tokio::time::timeout;

use super::List;
use crate::config::{Config, StoreConfig};
use crate::exit::Exit;
use crate::gateway::{classes_of, meets_requirements};
use crate::opening;
use crate::settings::{PostgresUrl, StoreUrl};

/// How far apart the clocks of this machine and of the store may be before that is worth a word.
const APART: Duration = Duration::from_secs(5);

/// Looks at the store of a configuration.
pub(super) async fn look(config: &Config, list: &mut List) {
    let there = match &config.store.url {
        StoreUrl::Memory => {
            let hint = "name a sqlite: or postgres:// store for anything but a try";
            list.warn("store", "memory: nothing survives the end of the process", Some(hint));
            return;
        }
        StoreUrl::Sqlite(path) => file(path, &config.store, list),
        StoreUrl::Postgres(url) => server(url, &config.store, list).await,
    };
    if there && let Some(store) = opened(&config.store, list).await {
        promise(&*store, config, list).await;
    }
}

/// Whether the database is there; what may be done with its file and around it.
fn file(path: &Path, config: &StoreConfig, list: &mut List) -> bool {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let hint = "let the gateway's user write the file and its directory";
    // SQLite keeps two files beside its database.
    let may = |path: &Path, what| access(path, what).map_err(io::Error::from);
    if let Err(error) = may(directory, Access::WRITE_OK | Access::EXEC_OK) {
        let found = format!("{}: the directory {} can't be written: {error}", config.url, directory.display());
        list.fail("store rights", Exit::Usage, found, hint);
        return false;
    }
    match may(path, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) => {
            list.ok("store rights", "the file and its directory can be written");
            true
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            absent(config, format!("{}: there is no such file yet", config.url), list);
            false
        }
        Err(error) => {
            list.fail("store rights", Exit::Usage, format_args!("{}: {error}", config.url), hint);
            false
        }
    }
}

/// Whether the server is there; what its role may do, and what its clock says.
async fn server(url: &PostgresUrl, config: &StoreConfig, list: &mut List) -> bool {
    let options = match opening::postgres(url, config) {
        Ok(options) => options,
        Err(failure) => {
            list.fail("store", failure.exit(), failure, "correct the URL of the store");
            return false;
        }
    };
    let asked = SystemClock.now();
    let surveyed = timeout(config.timeout, oncekey_store_postgres::survey(&options)).await;
    let answered = SystemClock.now();
    let survey = match surveyed {
        Ok(Ok(survey)) => survey,
        Ok(Err(error)) => {
            let failure = opening::failure(&error);
            list.fail("store", failure.exit(), failure, "start the server, or correct the URL and the role");
            return false;
        }
        Err(_) => {
            let found = format!("{}: no answer within store_timeout", config.url);
            list.fail("store", Exit::Unavailable, found, "see to the server and the way to it");
            return false;
        }
    };
    if survey.missing.is_empty() {
        list.ok("store rights", "the role may do what serving takes");
    } else {
        let found = format!("the role lacks {}", survey.missing.join(", "));
        list.fail("store rights", Exit::Usage, found, "GRANT them to the role");
    }
    if config.auto_migrate && !survey.may_create {
        let hint = "GRANT CREATE on the schema for the upgrade, or run `oncekey migrate` as another role";
        list.warn("store rights", "the role may not make tables, which an upgrade needs", Some(hint));
    }
    clock(asked, survey.now, answered, list);
    survey.missing.is_empty()
}

/// The store's clock decides what lapses and expires; this machine's, which tokens are valid. What can't be told apart from the time
/// that the question took is no difference.
fn clock(asked: Timestamp, store: Timestamp, answered: Timestamp, list: &mut List) {
    let (ahead, behind) = (store.since(answered), asked.since(store));
    let hint = "let both take their time from the same source (NTP)";
    if ahead > APART {
        list.warn(
            "clock",
            format_args!("the store's is at least {} s ahead of this machine's", ahead.as_secs()),
            Some(hint),
        );
    } else if behind > APART {
        list.warn(
            "clock",
            format_args!("the store's is at least {} s behind this machine's", behind.as_secs()),
            Some(hint),
        );
    } else {
        list.ok("clock", "the store's and this machine's are in step");
    }
}

/// Opens the store without making or upgrading anything.
async fn opened(config: &StoreConfig, list: &mut List) -> Option<Arc<dyn Store>> {
    let error = match timeout(config.timeout, opening::as_it_is(config)).await {
        Ok(Ok(store)) => {
            list.ok("store", format_args!("{} is there, in this version's schema", config.url));
            return Some(store);
        }
        Ok(Err(error)) => error,
        Err(_) => {
            let found = format!("{}: no answer within store_timeout", config.url);
            list.fail("store", Exit::Unavailable, found, "see to the store and the way to it");
            return None;
        }
    };
    if opening::is_of_older_schema(&error) {
        absent(config, error.to_string(), list);
    } else {
        let failure = opening::failure(&error);
        list.fail("store", failure.exit(), failure, "name another store, or the version of oncekey that it belongs to");
    }
    None
}

/// No schema yet, or an older one.
fn absent(config: &StoreConfig, found: String, list: &mut List) {
    if config.auto_migrate {
        list.warn("store", found, Some("`serve` makes or upgrades it at its start; `oncekey migrate` does it now"));
    } else {
        list.fail("store", Exit::Unavailable, found, "run `oncekey migrate`, or set auto_migrate = true");
    }
}

/// What the store's settings promise, and what that leaves to the routes (G1, G2).
async fn promise(store: &dyn Store, config: &Config, list: &mut List) {
    let read = timeout(config.store.timeout, store.promise()).await;
    let promise = match read.unwrap_or_else(|_| Err(StoreError::NotApplied("no answer within store_timeout".into()))) {
        Ok(promise) => promise,
        Err(error) => {
            let failure = opening::failure(&error);
            list.fail("promise", failure.exit(), failure, "see to the store");
            return;
        }
    };
    let class = classes_of(&config.routes, &promise).lowest();
    list.ok("promise", format_args!("{} by the store, {class} by the weakest route", promise.class));
    for shortfall in &promise.shortfalls {
        list.warn("promise", shortfall, None);
    }
    if let Err(unmet) = meets_requirements(&config.routes, &promise) {
        list.fail("promise", Exit::Usage, unmet, "change the setting that is named, or `require`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Mark;

    #[test]
    fn clocks_are_apart_by_more_than_the_question_took() {
        let at = |seconds: i64| Timestamp::from_micros((1_000 + seconds) * 1_000_000);
        for (asked, store, answered, found) in [
            (0, 0, 0, Mark::Ok),
            (0, 5, 0, Mark::Ok),
            (0, 6, 0, Mark::Warning),
            (0, -6, 0, Mark::Warning),
            // A slow answer proves no difference.
            (0, 15, 10, Mark::Ok),
            (0, 16, 10, Mark::Warning),
        ] {
            let mut list = List::default();
            clock(at(asked), at(store), at(answered), &mut list);
            assert_eq!(list.checks[0].result, found, "{asked} {store} {answered}: {list:?}");
        }
    }
}
