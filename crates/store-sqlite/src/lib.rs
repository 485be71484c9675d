//! The embedded store of oncekey: SQLite with one writer thread that commits in batches.
