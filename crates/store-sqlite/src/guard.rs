//! What SQL that isn't oncekey's own may do on a connection of oncekey's, and for how long.
//!
//! A handler's work runs on the connection on which the writer serves everybody, in the middle of a batch. It may read and
//! write rows of its own tables, and nothing that reaches further: not end or begin a transaction, not attach a file, not
//! change a setting, not touch the records. SQLite asks the guard while it compiles a statement, every few hundred steps while it
//! runs one, and before a commit: a statement that says `ON CONFLICT ROLLBACK` takes the batch down without asking,
//! and what follows it would otherwise commit by itself.
//!
//! It guards against mistakes. Code that means harm has other ways: it is in the same process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use oncekey_store::Clock;
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use crate::error::Failure;
use crate::schema::is_own_table;

/// Steps of SQLite's machine between two looks at the clock: some microseconds.
const STEPS: i32 = 500;

/// Whose SQL is being compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sql {
    /// Oncekey's own, which may do everything.
    Own,
    /// A handler's: rows of its tables.
    Rows,
    /// An application's at its start: its tables too.
    Tables,
}

/// Guards a connection, by default against nothing.
#[derive(Clone)]
pub(crate) struct Guard(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    sql: AtomicU8,
    /// Until when what is guarded against may run, in microseconds of [`Clock::elapsed`].
    until: AtomicU64,
}

impl Guard {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared { clock, sql: AtomicU8::new(Sql::Own as u8), until: AtomicU64::new(u64::MAX) }))
    }

    /// Has a new connection ask this guard, for as long as it is open.
    pub(crate) fn watch(&self, connection: &mut Connection) -> Result<(), Failure> {
        let Self(shared) = self.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if shared.allows(context.action) { Authorization::Allow } else { Authorization::Deny }
        }))?;
        let Self(shared) = self.clone();
        connection.progress_handler(STEPS, Some(move || shared.is_late()))?;
        let Self(shared) = self.clone();
        connection.commit_hook(Some(move || shared.sql() != Sql::Own))?;
        Ok(())
    }

    /// Guards against `sql` while `work` runs, which is interrupted after `bound`. A panic ends it too.
    pub(crate) fn against<T>(&self, sql: Sql, bound: Duration, work: impl FnOnce() -> T) -> T {
        let _end = self.begin(sql, bound);
        work()
    }

    fn begin(&self, sql: Sql, bound: Duration) -> Guarding<'_> {
        self.0.until.store(micros(self.0.clock.elapsed().saturating_add(bound)), Ordering::Relaxed);
        self.0.sql.store(sql as u8, Ordering::Relaxed);
        Guarding(&self.0)
    }

    /// Guards against a handler's SQL from now on.
    pub(crate) fn always(&self) {
        self.0.sql.store(Sql::Rows as u8, Ordering::Relaxed);
    }
}

/// Ends guarding when it is dropped.
struct Guarding<'a>(&'a Shared);

impl Drop for Guarding<'_> {
    fn drop(&mut self) {
        self.0.sql.store(Sql::Own as u8, Ordering::Relaxed);
        self.0.until.store(u64::MAX, Ordering::Relaxed);
    }
}

impl Shared {
    fn sql(&self) -> Sql {
        match self.sql.load(Ordering::Relaxed) {
            sql if sql == Sql::Own as u8 => Sql::Own,
            sql if sql == Sql::Tables as u8 => Sql::Tables,
            _ => Sql::Rows,
        }
    }

    fn is_late(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until != u64::MAX && micros(self.clock.elapsed()) > until
    }

    fn allows(&self, action: AuthAction<'_>) -> bool {
        match self.sql() {
            Sql::Own => true,
            // Many short statements may never take enough steps to be asked while they run.
            Sql::Rows => allows_rows(action) && !self.is_late(),
            Sql::Tables => allows_rows(action) || allows_tables(action),
        }
    }
}

fn allows_rows(action: AuthAction<'_>) -> bool {
    use AuthAction::{Delete, Function, Insert, Pragma, Read, Recursive, Savepoint, Select, Update};
    match action {
        Read { table_name, .. } | Insert { table_name } | Update { table_name, .. } | Delete { table_name } => {
            !is_own_table(table_name)
        }
        Select | Recursive | Function { .. } => true,
        // Savepoints nest, and one that is left open ends with the one around it.
        Savepoint { savepoint_name, .. } => {
            !savepoint_name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("oncekey"))
        }
        // Full-text indexes ask for it.
        Pragma { pragma_name, pragma_value: None } => pragma_name.eq_ignore_ascii_case("data_version"),
        _ => false,
    }
}

/// Beside what [`allows_rows`]. Names of tables, and what they are made for; nothing of oncekey's.
fn allows_tables(action: AuthAction<'_>) -> bool {
    use AuthAction::{
        AlterTable, Analyze, CreateIndex, CreateTable, CreateTrigger, CreateView, CreateVtable, DropIndex, DropTable,
        DropTrigger, DropView, DropVtable, Pragma, Reindex,
    };
    match action {
        CreateTable { table_name: name }
        | CreateView { view_name: name }
        | CreateVtable { table_name: name, .. }
        | CreateIndex { table_name: name, .. }
        | CreateTrigger { table_name: name, .. }
        | AlterTable { table_name: name, .. }
        | DropTable { table_name: name }
        | DropView { view_name: name }
        | DropVtable { table_name: name, .. }
        | DropIndex { table_name: name, .. }
        | DropTrigger { table_name: name, .. }
        | Analyze { table_name: name } => !is_own_table(name),
        Reindex { .. } => true,
        // A column that is added with a constraint is checked by it.
        Pragma { pragma_name, .. } => pragma_name.eq_ignore_ascii_case("quick_check"),
        _ => false,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
