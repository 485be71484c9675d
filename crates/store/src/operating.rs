//! What an operator does to records by hand, and the trail that is kept of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oncekey_core::{RecordId, RecordedResponse, State, Timestamp, Token};

use crate::{Cursor, Filter};

/// Most records of one order: it bounds how long its transaction holds up others.
pub const TOGETHER: usize = 100;

/// Most lines that sweeping leaves in the trail.
pub const AUDIT_LINES: u64 = 100_000;

/// How long a line stays in the trail.
pub const AUDIT_AGE: Duration = Duration::from_hours(400 * 24);

/// An operator's verdict (A3). That an operation took effect is also said by a probe (E7).
#[derive(Clone, Debug)]
pub enum Resolution {
    /// It took effect; retries get this response. Installs `token`.
    Completed {
        /// What retries get.
        response: Arc<RecordedResponse>,
        /// A new random token, so that a late outcome is fenced.
        token: Token,
    },
    /// It did not take effect; the next retry executes.
    Failed,
}

/// The result of a resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Done.
    Done,
    /// There is no such record, or it has expired.
    NotFound,
    /// It is in a state that can't be resolved.
    NotUnknown(State),
}

/// The result of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purged {
    /// Deleted.
    Done,
    /// There is no such record.
    NotFound,
    /// It is `processing` under a live claim.
    Live,
}

/// What is to be done to records.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Settle those that are, or count as, `unknown`. One token serves all of them.
    Resolve(Resolution),
    /// Delete those that aren't `processing` under a live claim.
    Purge,
}

/// A deed, and whose.
#[derive(Clone, Debug)]
pub struct Order {
    /// What is to be done.
    pub deed: Deed,
    /// Leave alone what doesn't match this (any more), judged in the transaction of the change.
    pub only: Option<Filter>,
    /// Who does it; each record that is changed gets a line in the trail then. `None`: no operator, and no line.
    pub operator: Option<Operator>,
}

impl Order {
    /// A deed that no operator answers for.
    pub const fn unsigned(deed: Deed) -> Self {
        Self { deed, only: None, operator: None }
    }
}

/// What became of one record of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acted {
    /// Done.
    Done,
    /// There is no such record; for a resolution, or it has expired.
    NotFound,
    /// To be purged, and it is `processing` under a live claim.
    Live,
    /// To be resolved, and it is in a state that can't be.
    NotUnknown(State),
    /// It doesn't match [`Order::only`], or changed while it was looked at.
    Unmatched,
}

/// Who changes records by hand. Free text all of it: it is shown, never judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The role that was presented, or the user of the machine.
    pub who: String,
    /// By which way: `api`, `cli`.
    pub via: String,
    /// From where, if that is known.
    pub from: Option<String>,
    /// The operator's own words.
    pub reason: Option<String>,
    /// The same for all that one call or command did, and for nothing else.
    pub call: String,
}

/// One line of the trail: a change that was made by hand. Written in the transaction of the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    /// When, by the store's clock.
    pub at: Timestamp,
    /// By whom, and why.
    pub operator: Operator,
    /// What was changed.
    pub change: Change,
}

/// What an operator changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// One record.
    Record {
        /// Which.
        subject: Subject,
        /// What it counted as.
        before: State,
        /// What it became; `None`: it was deleted.
        after: Option<State>,
        /// Status of the response that retries get since.
        response_status: Option<u16>,
    },
    /// A sweep made by hand. It changes what is stored, not what anything counts as (E9), so its line follows it.
    Swept {
        /// Expired records deleted.
        deleted: u64,
        /// Lapsed claims marked `unknown`.
        lapsed: u64,
    },
}

/// The record that a line is about, as it was named then.
#[derive(Clone, PartialEq, Eq)]
pub struct Subject {
    /// The operation id.
    pub id: RecordId,
    /// Its namespace.
    pub namespace: String,
    /// Where its scope was read from.
    pub scope_source: String,
    /// Its scope.
    pub scope: String,
    /// Its key.
    pub key: String,
    /// The route's configured path.
    pub route: String,
}

impl fmt::Debug for Subject {
    /// The id only; debug output ends in logs (P2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subject({})", self.id)
    }
}

/// Which lines of the trail to list. Empty: all.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Only lines about this record.
    pub id: Option<RecordId>,
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only this scope value, of any source.
    pub scope: Option<String>,
    /// Only this key.
    pub key: Option<String>,
}

impl AuditFilter {
    /// Whether a line matches. A sweep is about no record, so any filter leaves it out.
    pub fn matches(&self, line: &AuditLine) -> bool {
        let Change::Record { subject, .. } = &line.change else {
            return self.id.is_none() && self.namespace.is_none() && self.scope.is_none() && self.key.is_none();
        };
        let is = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| wanted == text);
        self.id.is_none_or(|id| id == subject.id)
            && is(&self.namespace, &subject.namespace)
            && is(&self.scope, &subject.scope)
            && is(&self.key, &subject.key)
    }
}

/// A part of the trail.
#[derive(Clone, Debug)]
pub struct AuditPage {
    /// The lines of this part, newest first.
    pub lines: Vec<AuditLine>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<Cursor>,
}
