//! The statements that read and save steps.

use std::sync::LazyLock;
use std::time::Duration;

use oncekey_core::{Event, Timestamp};
use oncekey_store::Fence;
use serde::Serialize;
use tokio_postgres::types::Type;

use super::error::{self, PgStepsError};
use crate::outcomes::ends;
use crate::row::At;
use crate::session::Param;
use crate::transactions::pooled::PooledClient;
use crate::transactions::protocol::{NOTED, surroundings};
use crate::transactions::trouble::Trouble;

/// The longest name, in bytes, and the longest value.
const NAME: usize = 64;
const VALUE: usize = 64 * 1024;

/// How long a transaction may be silent: a process that is paused holds its rows no longer.
pub(super) const IDLE: Duration = Duration::from_mins(1);

/// Sent behind the beginning of a transaction. Both the setting and the savepoint are gone with it, and show in the end
/// whether it is the same one.
pub(super) static OPENING: LazyLock<String> =
    LazyLock::new(|| format!("SELECT set_config('oncekey.step', 'open', true), {NOTED}; SAVEPOINT oncekey_step"));

/// The states in which a record waits for this execution's outcome, and so takes its steps: the core says which.
static OPEN: LazyLock<String> = LazyLock::new(|| ends(Event::Complete).map(|(_, from)| from).unwrap_or_default());

/// Whether `k` is the record, and the execution's still. `$1` is the id, `$2` the token, `$3` the states.
macro_rules! fenced {
    () => {
        "k.id = $1 AND k.token = $2 AND k.status = ANY (string_to_array($3, ' '))"
    };
}

/// No row if the execution was taken over, NULL if there is no such step.
pub(super) const READ: &str = concat!(
    "SELECT s.value FROM idempotency_keys AS k LEFT JOIN idempotency_steps AS s \
         ON s.id = k.id AND s.record_created_at = k.created_at AND s.name = $4 WHERE ",
    fenced!()
);

/// The record is held until the commit, so that whoever takes it over has seen the step. If it isn't the execution's any more,
/// there is no `record_created_at`, and the violation leaves nothing to be committed. So too, if `$7`, where the transaction isn't
/// the one that was begun.
pub(super) const SAVE: &str = concat!(
    "WITH held AS MATERIALIZED (SELECT k.created_at, k.attempts FROM idempotency_keys AS k WHERE ",
    fenced!(),
    " AND (NOT $7 OR current_setting('oncekey.step', true) = 'open') FOR SHARE) \
     INSERT INTO idempotency_steps (id, record_created_at, name, attempt, value, created_at) \
     VALUES ($1, (SELECT created_at FROM held), $4, coalesce((SELECT attempts FROM held), 0), $5, \
         coalesce($6, statement_timestamp()))"
);

/// Which step of which execution.
pub(super) struct Reading<'a> {
    id: &'a [u8],
    token: &'a [u8],
    name: &'a str,
}

impl<'a> Reading<'a> {
    pub(super) fn new(fence: &'a Fence, name: &'a str) -> Self {
        Self { id: fence.id.as_bytes(), token: fence.token.as_bytes(), name }
    }

    /// The parameters of [`READ`].
    pub(super) fn params(&self) -> [Param<'_>; 4] {
        [(&self.id, Type::BYTEA), (&self.token, Type::BYTEA), (&*OPEN, Type::TEXT), (&self.name, Type::TEXT)]
    }
}

/// A step that is about to be saved.
pub(super) struct Saving<'a> {
    of: Reading<'a>,
    value: String,
    now: Option<At>,
}

impl<'a> Saving<'a> {
    /// Fails if the name or the value can't be used.
    pub(super) fn new<T: Serialize + ?Sized>(
        of: Reading<'a>,
        value: &T,
        now: Option<Timestamp>,
    ) -> Result<Self, PgStepsError> {
        let value = serde_json::to_string(value)?;
        if of.name.is_empty() || of.name.len() > NAME || of.name.contains('\0') {
            return Err(PgStepsError::Name);
        }
        if value.len() > VALUE {
            return Err(PgStepsError::TooLarge);
        }
        Ok(Self { of, value, now: now.map(At) })
    }

    pub(super) fn value(&self) -> &str {
        &self.value
    }

    /// The parameters of [`SAVE`], by itself.
    pub(super) fn params(&self) -> [Param<'_>; 7] {
        self.params_of(&false)
    }

    fn params_of<'p>(&'p self, in_transaction: &'p bool) -> [Param<'p>; 7] {
        let [id, token, states, name] = self.of.params();
        let (value, now) = ((&self.value as _, Type::TEXT), (&self.now as _, Type::TIMESTAMPTZ));
        [id, token, states, name, value, now, (in_transaction, Type::BOOL)]
    }

    /// Commits it with what was done in the transaction. All is sent before anything is answered: nobody holds the record
    /// while a message is on its way, and where one fails, those after it do nothing.
    pub(super) async fn commit(&self, connection: &PooledClient, lock_timeout: Duration) -> Result<(), PgStepsError> {
        let client = connection.get().map_err(Trouble::not_applied)?;
        let before = format!("RELEASE SAVEPOINT oncekey_step; {}", surroundings(lock_timeout));
        let params = self.params_of(&true);
        let (before, saved, committed) = tokio::join!(
            client.batch_execute(&before),
            client.query_typed(SAVE, &params),
            client.batch_execute("COMMIT")
        );
        if let Err(trouble) = before.map_err(Trouble::from) {
            return Err(match trouble {
                trouble if trouble.is_aborted() => Trouble::Aborted.not_applied(),
                trouble if trouble.is_foreign() => {
                    oncekey_store::StoreError::MayHaveBeenApplied(Trouble::Foreign.into())
                }
                trouble => trouble.of_write(),
            }
            .into());
        }
        saved.map_err(|failure| error::of_saving(failure.into()))?;
        committed.map_err(|failure| Trouble::from(failure).of_write())?;
        Ok(())
    }
}
