//! The schema's versions: which file is ours, which version it has, and how an older one becomes the present one.

use std::io::ErrorKind;

use rusqlite::Connection;

use oncekey_store::StoreError;

use crate::SqliteOptions;
use crate::connection::{self, Place, Purpose};
use crate::error::{Failure, SchemaError};

/// `PRAGMA application_id` of an oncekey database: "okey".
const APPLICATION_ID: i64 = 0x6f6b_6579;

/// The steps, in order; the schema's version is how many of them were taken. A step that was released never changes.
const MIGRATIONS: [&str; 2] = [include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")];

/// The version that this code needs.
#[expect(clippy::cast_possible_truncation, reason = "a handful of migrations")]
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// The tables that the steps make.
pub(crate) const TABLES: [&str; 3] = ["nodes", "records", "responses"];

/// Whether a table is one of oncekey's, by its name.
pub(crate) fn is_own_table(name: &str) -> bool {
    TABLES.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// What a migration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The schema's version before; 0 for none.
    pub from: u32,
    /// The version now.
    pub to: u32,
}

/// Creates the database, or brings an older one up to this version. Blocks on the disk.
///
/// Several processes may do so at once, and it may be repeated: each step is taken once. A database of another program or
/// of a later version is left untouched and refused as `Misconfigured`, with a [`SchemaError`].
pub fn migrate(options: &SqliteOptions) -> Result<Migrated, StoreError> {
    migrate_file(options).map_err(Failure::while_opening)
}

fn migrate_file(options: &SqliteOptions) -> Result<Migrated, Failure> {
    connection::check_library()?;
    let place = Place::make(&options.path)?;
    let connection = connection::open(&place, options, Purpose::Write)?;
    // Before anything is changed: a foreign file doesn't even get a write-ahead log.
    known_version(&connection, &place)?;
    connection::use_wal(&connection, options)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let migrated = take_steps(&connection, &place);
    connection.execute_batch(if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    migrated
}

fn take_steps(connection: &Connection, place: &Place) -> Result<Migrated, Failure> {
    // Again, now that no other process can be in between.
    let from = known_version(connection, place)?;
    for step in MIGRATIONS.iter().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
        connection.execute_batch(step)?;
    }
    if from < VERSION {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(Migrated { from, to: VERSION })
}

/// Finds the database, and fails unless it has exactly the schema that this code needs.
pub(crate) fn find(options: &SqliteOptions) -> Result<Place, Failure> {
    let older = |path, found| SchemaError::Older { path, found, known: VERSION };
    let place = match Place::find(&options.path) {
        Err(Failure::File { path, error }) if error.kind() == ErrorKind::NotFound => return Err(older(path, 0).into()),
        found => found?,
    };
    let connection = connection::open(&place, options, Purpose::Write)?;
    let found = known_version(&connection, &place)?;
    if found < VERSION {
        return Err(older(place.path, found).into());
    }
    connection::use_wal(&connection, options)?;
    Ok(place)
}

/// The version of a database that is ours, or empty and so to be ours.
fn known_version(connection: &Connection, place: &Place) -> Result<u32, Failure> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let foreign = || SchemaError::Foreign(place.path.clone());
    let found = number("user_version")?;
    match number("application_id")? {
        APPLICATION_ID => {}
        0 if found == 0 => {
            let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if objects > 0 {
                return Err(foreign().into());
            }
        }
        _ => return Err(foreign().into()),
    }
    let found = u32::try_from(found).map_err(|_| foreign())?;
    if found > VERSION {
        return Err(SchemaError::Newer { path: place.path.clone(), found, known: VERSION }.into());
    }
    Ok(found)
}
