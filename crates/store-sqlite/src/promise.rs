//! What the store can promise under its present settings (G1, G5).

use std::collections::BTreeMap;
use std::path::Path;

use oncekey_core::{PromiseClass, RecordId};
use oncekey_store::Promise;

use crate::error::Failure;
use crate::filesystem;
use crate::writer::{Operation, Transaction};

/// `PRAGMA synchronous` for FULL; a greater number is stricter still.
const FULL: i64 = 2;

/// Reads back what the writer's commits are worth, on its own connection.
pub(crate) struct ReadSettings;

/// The writer's settings that a promise rests on.
pub(crate) struct Settings {
    synchronous: i64,
    journal: String,
}

impl Operation for ReadSettings {
    type Answer = Settings;

    fn about(&self) -> Option<RecordId> {
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Settings, Failure> {
        let connection = transaction.connection();
        Ok(Settings {
            synchronous: connection.pragma_query_value(None, "synchronous", |row| row.get(0))?,
            journal: connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
        })
    }
}

impl Settings {
    /// The class, and each thing that keeps it from being `at_most_once`.
    pub(crate) fn promise(&self, path: &Path) -> Promise {
        let mut shortfalls = Vec::new();
        if self.synchronous < FULL {
            shortfalls.push("`PRAGMA synchronous` is weaker than FULL: a power loss takes the last commits".to_owned());
        }
        if self.journal != "wal" {
            shortfalls.push(format!("`PRAGMA journal_mode` is {} and not wal", self.journal));
        }
        if let Some(weakness) = filesystem::weakness(path) {
            shortfalls.push(format!("the database file {} is on {weakness}", path.display()));
        }
        let class = if shortfalls.is_empty() { PromiseClass::AtMostOnce } else { PromiseClass::BestEffort };
        Promise { class, shortfalls, declared: BTreeMap::new() }
    }
}
