//! Opening the database: the file, the settings of a connection, and that the library is one that may be trusted.
//!
//! What the file must contain is `schema`'s to say.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::SqliteOptions;
use crate::error::{Failure, SchemaError, is_busy};

/// The first SQLite without the WAL-reset bug, which could damage a database that two connections write.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Between two tries to get at a busy database. Short: another process holds it for about one fsync, and the moment
/// between two batches of a busy writer must not be missed for long.
const BUSY_PAUSE: Duration = Duration::from_micros(250);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Read,
}

/// An existing database file, by its path and by what the file system calls it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// Finds the file. Its path is made absolute, so that neither SQLite takes it for a URI nor a change of directory
    /// leads elsewhere.
    pub(crate) fn find(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == ":memory:" || path.as_os_str().is_empty() {
            return Err(Failure::Refused(
                "a database in memory can't be shared between threads: use the store `memory:`",
            ));
        }
        let at = |error| Failure::File { path: path.to_owned(), error };
        let path = fs::canonicalize(path).map_err(at)?;
        let metadata = fs::metadata(&path).map_err(at)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino(), path })
    }

    /// Makes the file if there is none, readable by its owner only: it is to hold recorded bodies. SQLite gives the
    /// files beside it the same rights.
    pub(crate) fn make(path: &Path) -> Result<Self, Failure> {
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        match made {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(Failure::File { path: path.to_owned(), error })
            }
            _ => Self::find(path),
        }
    }

    /// Fails if the file at the path isn't the one that was found. SQLite itself would go on writing into a deleted
    /// file, and every claim granted would be forgotten at the next start.
    pub(crate) fn verify(&self) -> Result<(), Failure> {
        match fs::metadata(&self.path) {
            Ok(metadata) if metadata.dev() == self.device && metadata.ino() == self.inode => Ok(()),
            _ => Err(Failure::Moved(self.path.clone())),
        }
    }
}

/// Fails on an SQLite that could damage the database.
pub(crate) fn check_library() -> Result<(), Failure> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(Failure::Refused("the SQLite in use is older than 3.51.3 and may damage its write-ahead log"));
    }
    Ok(())
}

/// Opens a connection to a database that is there.
pub(crate) fn open(place: &Place, options: &SqliteOptions, purpose: Purpose) -> Result<Connection, Failure> {
    connect(place, options, purpose).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => SchemaError::Foreign(place.path.clone()).into(),
        _ => error.into(),
    })
}

fn connect(place: &Place, options: &SqliteOptions, purpose: Purpose) -> rusqlite::Result<Connection> {
    let access = match purpose {
        Purpose::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Purpose::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    // Each connection stays on one thread, so it needs no mutex of SQLite's.
    let mut connection = Connection::open_with_flags(&place.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let tries = i32::try_from(options.busy_timeout.as_micros() / BUSY_PAUSE.as_micros()).unwrap_or(i32::MAX);
    connection.busy_handler(Some(move |tried| {
        thread::sleep(BUSY_PAUSE);
        tried < tries
    }))?;
    connection.set_prepared_statement_cache_capacity(64);
    // One plan for a statement, whatever is bound to it: else every statement on a table with a partial index is parsed
    // anew at each use, which takes half of the writer's time.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // mmap off: an I/O error must come back as an error, not as a signal.
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA mmap_size = 0; PRAGMA trusted_schema = OFF;")?;
    if purpose == Purpose::Write {
        // FULL: a commit is on the disk when it returns; NORMAL could lose the last ones with the power (E2). fullfsync
        // is what makes that true on macOS. Checkpoints are the writer's own business, between two batches. The cache, 48 MB
        // at most and filled as pages are used, holds the index on ids, whose pages are hit at random.
        connection.execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
             PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -48000;",
        )?;
        if let Some(pages) = options.max_pages {
            connection.pragma_update(None, "max_page_count", pages)?;
        }
    }
    Ok(connection)
}

/// Turns on the write-ahead log. The switch wants the file for itself and doesn't ask the busy handler, so several
/// processes starting at once must be patient here.
pub(crate) fn use_wal(connection: &Connection, options: &SqliteOptions) -> Result<(), Failure> {
    let mut tries = options.busy_timeout.as_micros() / BUSY_PAUSE.as_micros();
    loop {
        let switched = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match switched {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => return Err(Failure::Refused("SQLite can't keep a write-ahead log on this file system")),
            Err(error) if is_busy(&error) && tries > 0 => {
                tries -= 1;
                thread::sleep(BUSY_PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}
