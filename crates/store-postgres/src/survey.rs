//! What can be told about a database without changing it: which rights the role lacks, and what its clock says.

use oncekey_core::Timestamp;
use oncekey_store::StoreError;

use crate::PostgresOptions;
use crate::error::Failure;
use crate::row::At;
use crate::session::{Server, Session};

/// What serving needs of a role, as far as the tables are there.
const MISSING: &str = "SELECT wanted || ' on ' || name \
    FROM (VALUES ('idempotency_keys', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']), \
                 ('idempotency_nodes', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']), \
                 ('idempotency_sweeps', ARRAY['SELECT', 'UPDATE']), \
                 ('idempotency_audit', ARRAY['SELECT', 'INSERT', 'DELETE']), \
                 ('oncekey_schema', ARRAY['SELECT'])) AS tables (name, rights), unnest(rights) AS wanted \
    WHERE NOT has_table_privilege(to_regclass(name), wanted) \
    UNION ALL SELECT 'USAGE on idempotency_claims' \
    WHERE NOT has_sequence_privilege(to_regclass('idempotency_claims'), 'USAGE')";

const HERE: &str = "SELECT coalesce($1, clock_timestamp()), \
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)";

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The server's clock, which is the store's.
    pub now: Timestamp,
    /// Whether the role may make tables, which a first start and some upgrades need.
    pub may_create: bool,
    /// Each right on an existing table that serving needs and the role lacks, such as `DELETE on idempotency_keys`.
    pub missing: Vec<String>,
}

/// Looks at a database through a connection of its own, whatever its schema is. Reads only, and may be repeated.
///
/// Fails as `Misconfigured` if the server refuses the role, as `NotApplied` if it can't be reached.
pub async fn survey(options: &PostgresOptions) -> Result<Survey, StoreError> {
    look(options).await.map_err(Failure::while_opening)
}

async fn look(options: &PostgresOptions) -> Result<Survey, Failure> {
    let session = Session::patient(&Server::new(options.clone())?);
    let given = session.server().given_time();
    let here = session.read(HERE, &[(&given, tokio_postgres::types::Type::TIMESTAMPTZ)]).await?;
    let here = here.first().ok_or(Failure::Refused("the server doesn't say what time it is"))?;
    let (now, may_create) = (here.try_get::<_, At>(0)?.0, here.try_get(1)?);
    let missing = session.read(MISSING, &[]).await?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    Ok(Survey { now, may_create, missing })
}
