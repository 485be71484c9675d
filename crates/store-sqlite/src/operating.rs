//! An operator's orders: settling and deleting records, with the lines of the trail that they leave.

use oncekey_core::{Record, RecordId, RecordedResponse, State};
use oncekey_store::change::{self, OnOrder};
use oncekey_store::{Acted, AuditLine, Change, Deed, Order, Resolution, Subject, TOGETHER};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::audit;
use crate::error::Failure;
use crate::outcomes::{body_size, end};
use crate::writer::{Operation, Transaction};

/// See [`oncekey_store::Store::operate`].
pub(crate) struct Operate {
    pub(crate) ids: Vec<RecordId>,
    pub(crate) order: Order,
}

/// What is to be done to one record.
enum Step {
    End { seq: i64, record: Box<Record>, line: Option<AuditLine> },
    Delete { seq: i64, line: Option<AuditLine> },
    Leave(Acted),
}

impl Operation for Operate {
    type Answer = Vec<Acted>;

    fn about(&self) -> Option<RecordId> {
        match self.ids[..] {
            [id] => Some(id),
            _ => None,
        }
    }

    fn size(&self) -> usize {
        self.response().map_or(0, body_size).saturating_mul(self.ids.len())
    }

    /// Everything is judged before anything is written: what can't be judged leaves nothing half done.
    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Vec<Acted>, Failure> {
        if self.ids.len() > TOGETHER {
            return Err(Failure::Refused("too many records for one order"));
        }
        let steps = self.ids.iter().map(|id| self.step(transaction, *id)).collect::<Result<Vec<_>, _>>()?;
        if steps.iter().any(|step| !matches!(step, Step::Leave(_))) {
            transaction
                .write(self.about(), |connection| steps.iter().try_for_each(|step| self.take(connection, step)))?;
        }
        Ok(steps.iter().map(|step| if let Step::Leave(acted) = step { *acted } else { Acted::Done }).collect())
    }
}

impl Operate {
    fn response(&self) -> Option<&RecordedResponse> {
        match &self.order.deed {
            Deed::Resolve(Resolution::Completed { response, .. }) => Some(response),
            Deed::Resolve(Resolution::Failed) | Deed::Purge => None,
        }
    }

    fn step(&self, transaction: &Transaction<'_>, id: RecordId) -> Result<Step, Failure> {
        if matches!(self.order.deed, Deed::Purge) && self.order.only.is_none() {
            return self.purge(transaction, id);
        }
        let now = transaction.now();
        let Some(stored) = transaction.find(id)? else { return Ok(Step::Leave(Acted::NotFound)) };
        Ok(match change::on_order(&stored.record, stored.owner_alive(now), &self.order, now) {
            OnOrder::Put(record, line) => Step::End { seq: stored.seq, record, line },
            OnOrder::Delete(line) => Step::Delete { seq: stored.seq, line },
            OnOrder::Answer(acted) => Step::Leave(acted),
        })
    }

    /// By columns, not by the whole record: purging is how an operator gets rid of a damaged one.
    fn purge(&self, transaction: &Transaction<'_>, id: RecordId) -> Result<Step, Failure> {
        let now = transaction.now();
        let mut select = transaction.connection().prepare_cached(
            "SELECT seq, state, state = ?2 AND deadline > ?3 AND coalesce(alive_until > ?3, FALSE), \
             namespace, scope_source, scope, key, route FROM records LEFT JOIN nodes USING (owner) WHERE id = ?1",
        )?;
        let read = |row: &Row<'_>| {
            let state = row.get_ref(1)?.as_str().ok().and_then(|name| name.parse().ok());
            let subject = Subject {
                id,
                namespace: row.get(3)?,
                scope_source: row.get(4)?,
                scope: row.get(5)?,
                key: row.get(6)?,
                route: row.get(7)?,
            };
            Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(2)?, state, subject))
        };
        let params = params![id.as_bytes(), State::Processing.name(), now.as_micros()];
        Ok(match select.query_row(params, read).optional()? {
            None => Step::Leave(Acted::NotFound),
            Some((_, true, ..)) => Step::Leave(Acted::Live),
            Some((seq, false, state, subject)) => {
                // Running and not live is unknown; a state that can't be read is nothing better.
                let before = state.filter(|state| *state != State::Processing).unwrap_or(State::Unknown);
                let change = Change::Record { subject, before, after: None, response_status: None };
                let line =
                    |operator: &oncekey_store::Operator| AuditLine { at: now, operator: operator.clone(), change };
                Step::Delete { seq, line: self.order.operator.as_ref().map(line) }
            }
        })
    }

    fn take(&self, connection: &Connection, step: &Step) -> Result<(), Failure> {
        let line = match step {
            Step::End { seq, record, line } => {
                end(connection, *seq, record, self.response())?;
                line
            }
            Step::Delete { seq, line } => {
                connection.prepare_cached("DELETE FROM records WHERE seq = ?1")?.execute([seq])?;
                line
            }
            Step::Leave(_) => return Ok(()),
        };
        line.as_ref().map_or(Ok(()), |line| audit::add(connection, line))
    }
}
