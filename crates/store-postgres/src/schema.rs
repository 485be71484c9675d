//! The schema's versions: whose the tables are, which version they have, and how an older one becomes the present one.

use oncekey_store::StoreError;

use crate::PostgresOptions;
use crate::error::{Failure, SchemaError};
use crate::seed;
use crate::session::{Server, Session};

/// The steps, in order; the schema's version is how many of them were taken. A step that was released never changes.
const MIGRATIONS: [&str; 3] =
    [include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql"), include_str!("migrations/0003.sql")];

/// The version that this code needs.
#[expect(clippy::cast_possible_truncation, reason = "a handful of migrations")]
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Where the version stands. Its name says whose the other tables are.
const VERSION_TABLE: &str = "CREATE TABLE IF NOT EXISTS oncekey_schema (
    one BOOLEAN NOT NULL PRIMARY KEY DEFAULT TRUE CHECK (one),
    version INTEGER NOT NULL
);
INSERT INTO oncekey_schema (version) VALUES (0) ON CONFLICT DO NOTHING;
";

/// Held by a migration to the end of its transaction: of many nodes that start at once, one takes the steps and the others
/// find them taken. "oncekey" in ASCII.
const ADVISORY: i64 = 0x006f_6e63_656b_6579;

/// The tables that a migration makes.
const TABLES: [&str; 5] =
    ["idempotency_keys", "idempotency_nodes", "idempotency_sweeps", "idempotency_audit", "idempotency_steps"];

/// What a migration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The schema's version before; 0 for none.
    pub from: u32,
    /// The version now.
    pub to: u32,
}

/// All steps from an empty database to the present version, for who runs them by hand.
pub fn migration_sql() -> String {
    let steps: Vec<_> = (1..).zip(MIGRATIONS).map(|(version, step)| numbered(version, step)).collect();
    format!("BEGIN;\n\n{VERSION_TABLE}\n{}COMMIT;\n", steps.concat())
}

fn numbered(version: u32, step: &str) -> String {
    // The first one takes a table of before along.
    let step = if version == 1 { format!("{}{step}{}", seed::take(), seed::GIVE) } else { step.to_owned() };
    format!("{step}\nUPDATE oncekey_schema SET version = {version};\n\n")
}

/// Creates the tables, or brings older ones up to this version.
///
/// Several processes may do so at once, and it may be repeated: each step is taken once, all in one transaction. A table
/// `idempotency_keys` of the code that oncekey grew from is taken over, its rows becoming records. A table of another program under one of the names, or a schema of a later version, is left untouched and refused as `Misconfigured`,
/// with a [`SchemaError`]. Where nothing is to be done, nothing but reading is asked of the role.
pub async fn migrate(options: &PostgresOptions) -> Result<Migrated, StoreError> {
    let session =
        Server::new(options.clone()).map(|server| Session::unhurried(&server)).map_err(Failure::while_opening)?;
    take_steps(&session).await.map_err(Failure::while_opening)
}

async fn take_steps(session: &Session) -> Result<Migrated, Failure> {
    let from = known_version(session).await?;
    if from == VERSION {
        return Ok(Migrated { from, to: VERSION });
    }
    // As one message in the simple protocol, and so on one server's connection whatever a pooler does; a DO block, since each
    // step depends on what is found once the advisory lock is had. A table that others use is waited for, but not for long:
    // a step that waits for it makes everyone else wait as well.
    let steps: Vec<_> = (1..)
        .zip(MIGRATIONS)
        .map(|(version, step)| {
            format!("IF found < {version} THEN\nEXECUTE $step${}$step$;\nEND IF;\n", numbered(version, step))
        })
        .collect();
    let sql = format!(
        "DO $migration$ DECLARE found INTEGER; BEGIN\n\
         PERFORM pg_advisory_xact_lock({ADVISORY});\n\
         SET LOCAL lock_timeout = '5s';\n\
         EXECUTE $step${VERSION_TABLE}$step$;\n\
         SELECT version INTO found FROM oncekey_schema;\n{}END $migration$",
        steps.concat()
    );
    session.batch(&sql).await.map_err(|failure| match failure.refused_with() {
        // Another table has come to be there since it was looked for.
        Some(code) if code.code() == seed::REFUSED => {
            Failure::Refused("a table idempotency_keys came to be there meanwhile")
        }
        _ => failure,
    })?;
    Ok(Migrated { from, to: known_version(session).await? })
}

/// Fails unless the database has exactly the schema that this code needs.
pub(crate) async fn check(session: &Session) -> Result<(), Failure> {
    match known_version(session).await? {
        VERSION => Ok(()),
        found => Err(Failure::Schema(SchemaError::Older { found, known: VERSION })),
    }
}

/// The version of tables that are ours; 0 if there are none yet.
async fn known_version(session: &Session) -> Result<u32, Failure> {
    match version_now(session).await {
        // Another node may have taken the table over between the look for ours and the look at its columns.
        Err(Failure::Schema(SchemaError::Unlike { .. })) => version_now(session).await,
        known => known,
    }
}

async fn version_now(session: &Session) -> Result<u32, Failure> {
    let present = "SELECT to_regclass('oncekey_schema') IS NOT NULL, to_regclass(name)::text, name \
                   FROM unnest($1::text[]) AS name";
    let rows = session.read(present, &[(&&TABLES[..], tokio_postgres::types::Type::TEXT_ARRAY)]).await?;
    let mut is_ours = false;
    for row in &rows {
        is_ours = row.try_get(0)?;
        if !is_ours && row.try_get::<_, Option<&str>>(1)?.is_some() {
            if row.try_get::<_, &str>(2)? == seed::TABLE {
                seed::check(session).await?;
                continue;
            }
            return Err(Failure::Schema(SchemaError::Foreign(row.try_get::<_, &str>(2)?.to_owned())));
        }
    }
    if !is_ours {
        return Ok(0);
    }
    let rows = session.read("SELECT version FROM oncekey_schema", &[]).await?;
    let found = rows.first().map_or(Ok(0), |row| row.try_get::<_, i32>(0))?;
    let found = u32::try_from(found).unwrap_or(0);
    if found > VERSION {
        return Err(Failure::Schema(SchemaError::Newer { found, known: VERSION }));
    }
    Ok(found)
}
