//! What can be set about the store.

use std::path::PathBuf;
use std::time::Duration;

/// Where the database is, and how much it takes on.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The database file. Beside it SQLite keeps a `-wal` and a `-shm` file, so its directory must be writable.
    pub path: PathBuf,
    /// How long a batch waits for another process that is writing before it fails as not applied. Default 5s.
    pub busy_timeout: Duration,
    /// Operations that may wait for the writer; past it a call fails at once as not applied. Default 8192.
    pub queue: usize,
    /// Pages of the write-ahead log that make the writer copy them into the database. Fewer keep the log small, more
    /// write a page that changes often less often. Default 8000 (32 MiB): the index on ids is hit at random, and each of
    /// its pages is then copied once for several claims.
    pub checkpoint_pages: u32,
    /// How long the work that a handler hands over ([`SqliteTransaction`](crate::SqliteTransaction)) may keep the writer, which
    /// serves everybody: a statement that runs longer is interrupted, and a batch takes on no more of it. Default 1s.
    pub work_timeout: Duration,
    /// Pages that the database may have, to let tests fill it.
    pub(crate) max_pages: Option<u32>,
}

impl SqliteOptions {
    /// The defaults, for the database at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            busy_timeout: Duration::from_secs(5),
            queue: 8192,
            checkpoint_pages: 8000,
            work_timeout: Duration::from_secs(1),
            max_pages: None,
        }
    }
}
