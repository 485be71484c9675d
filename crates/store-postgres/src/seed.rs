//! The table of the code that oncekey grew from: whether one is there, and the SQL by which the first migration takes it over
//! (decision 0036).

use crate::error::{Failure, SchemaError};
use crate::session::Session;

/// The name that its table and ours share.
pub(crate) const TABLE: &str = "idempotency_keys";

/// An expression that says in what way a table of the name isn't one that can be taken over.
const DIFFERS: &str = include_str!("migrations/seed_differs.sql");

/// What makes records of the rows that [`take`] kept, once the tables are there.
pub(crate) const GIVE: &str = include_str!("migrations/seed_give.sql");

/// What sets the rows of such a table aside and drops it. Refuses what isn't one with [`REFUSED`].
pub(crate) fn take() -> String {
    include_str!("migrations/seed_take.sql").replace(":differs", DIFFERS.trim_end())
}

/// The SQLSTATE by which a table that can't be taken over is refused.
pub(crate) const REFUSED: &str = "OKDIF";

/// Fails unless a table of the name, which is there and isn't oncekey's, can be taken over.
pub(crate) async fn check(session: &Session) -> Result<(), Failure> {
    let rows = session.read(&format!("SELECT {DIFFERS}"), &[]).await?;
    match rows.first().map(|row| row.try_get::<_, Option<String>>(0)).transpose()?.flatten() {
        Some(differs) => Err(Failure::Schema(SchemaError::Unlike { table: TABLE.to_owned(), differs })),
        None => Ok(()),
    }
}
