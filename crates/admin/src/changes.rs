//! Changing records by hand: what the API and the command line share, so that both do the same and say the same.

use oncekey_core::response::RecordedBody;
use oncekey_core::{RecordId, RecordedResponse, State};
use oncekey_store::{Acted, Cursor, Deed, Filter, Operator, Order, Store, StoreError, TOGETHER};

use crate::resolution::Verdict;
use crate::view::RecordView;

/// Records that are looked at at a time.
const PART: u32 = 1000;

/// Longest body of a response that is given to many records: each of them keeps a copy.
pub const MAX_SHARED_BODY: usize = 64 * 1024;

/// What is to be done to records.
#[derive(Clone, Debug)]
pub enum Work {
    /// Settle those that are unknown (A3).
    Resolve(Verdict),
    /// Delete those that aren't being executed.
    Purge,
}

impl Work {
    /// The verb.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Resolve(_) => "resolve",
            Self::Purge => "purge",
        }
    }

    /// What the next retry with the key of a changed record will get.
    pub fn retry(&self) -> String {
        match self {
            Self::Resolve(Verdict { response: Some(response) }) => {
                format!("The next retry gets the given response (status {}).", response.status.as_u16())
            }
            Self::Resolve(Verdict { response: None }) => {
                "The next retry of the same request executes again.".to_owned()
            }
            Self::Purge => "The next request with such a key executes as a new operation.".to_owned(),
        }
    }

    /// What a changed record is from then on; `None`: gone.
    pub fn state(&self) -> Option<State> {
        match self {
            Self::Resolve(verdict) => Some(verdict.state()),
            Self::Purge => None,
        }
    }

    /// Whether it can be done to a record that counts as `state`.
    pub fn applies_to(&self, state: &str) -> bool {
        match self {
            Self::Resolve(_) => state == State::Unknown.name(),
            Self::Purge => state != State::Processing.name(),
        }
    }

    /// The order for one record, whatever it is by then. An error means that the machine has no randomness to give.
    pub fn order(&self, operator: Operator) -> Result<Order, getrandom::Error> {
        Ok(Order { deed: self.deed()?, only: None, operator: Some(operator) })
    }

    /// The order for what a filter matches. It can be repeated on any of the records, and is done once to each.
    pub fn order_for(&self, filter: &Filter, operator: Operator) -> Result<Order, getrandom::Error> {
        Ok(Order { deed: self.deed()?, only: Some(self.narrowed(filter)), operator: Some(operator) })
    }

    fn deed(&self) -> Result<Deed, getrandom::Error> {
        Ok(match self {
            Self::Resolve(verdict) => Deed::Resolve(verdict.resolution()?),
            Self::Purge => Deed::Purge,
        })
    }

    /// Only unknown records are resolved, so only they match.
    fn narrowed(&self, filter: &Filter) -> Filter {
        let state = if matches!(self, Self::Resolve(_)) { Some(State::Unknown) } else { filter.state };
        Filter { state, ..filter.clone() }
    }

    /// Why this can't be asked for with such a filter, if so.
    pub fn refuses(&self, filter: &Filter) -> Option<String> {
        let Self::Resolve(verdict) = self else { return None };
        if let Some(state) = filter.state.filter(|state| *state != State::Unknown) {
            return Some(format!("Only unknown records can be resolved, not {state} ones."));
        }
        let size = verdict.response.as_deref().map_or(0, body_size);
        (size > MAX_SHARED_BODY).then(|| {
            format!("A response for many records may have a body of up to {MAX_SHARED_BODY} bytes; each keeps a copy.")
        })
    }

    /// Why a record was left as it is; `None`: it was changed.
    pub fn left(&self, id: RecordId, acted: Acted) -> Option<String> {
        match acted {
            Acted::Done => None,
            Acted::NotFound => Some(format!("There is no record {id}, or it has expired.")),
            Acted::Live => Some(format!("{id} is being executed; purging it could let a retry execute it twice.")),
            Acted::NotUnknown(state) => Some(format!("{id} is {state}; only unknown records are resolved.")),
            Acted::Unmatched => Some(format!("{id} changed meanwhile and no longer matches.")),
        }
    }
}

fn body_size(response: &RecordedResponse) -> usize {
    match &response.body {
        RecordedBody::Stored(body) => body.len(),
        RecordedBody::NotStored => 0,
    }
}

/// The records that a filter matches and that can be changed, newest claim first.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Their ids.
    pub ids: Vec<RecordId>,
    /// Whether there may be more than were asked for.
    pub more: bool,
}

/// Finds at most `limit` records for `work`. `trust_clock` as in [`oncekey_core::standing`].
pub async fn gather(
    store: &dyn Store,
    filter: &Filter,
    work: &Work,
    trust_clock: bool,
    limit: usize,
) -> Result<Gathered, StoreError> {
    let filter = work.narrowed(filter);
    let mut gathered = Gathered::default();
    let mut cursor: Option<Cursor> = None;
    loop {
        let page = store.list(&filter, cursor.take(), PART).await?;
        for listed in &page.records {
            let view = RecordView::of_listed(listed, trust_clock);
            if !view.is_some_and(|view| work.applies_to(view.state)) {
                continue;
            }
            if gathered.ids.len() == limit {
                gathered.more = true;
                return Ok(gathered);
            }
            gathered.ids.push(listed.record.identity.id());
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(gathered),
        }
    }
}

/// As many of the ids as one order takes.
pub fn portions(ids: &[RecordId]) -> impl Iterator<Item = &[RecordId]> {
    ids.chunks(TOGETHER)
}

/// Who changes something and why. `who` is a role or a user, `via` the way. Draws a number for the call; an error means
/// that the machine has no randomness to give.
pub fn operator(
    who: impl Into<String>,
    via: &str,
    from: Option<String>,
    reason: Option<String>,
) -> Result<Operator, getrandom::Error> {
    let call = format!("{:016x}", getrandom::u64()?);
    Ok(Operator { who: who.into(), via: via.to_owned(), from, reason, call })
}
