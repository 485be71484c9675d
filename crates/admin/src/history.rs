//! The story of a record, put together from what is stored: the record itself, and the trail of what operators did to it.
//! Nothing is written for it, so of the attempts before the last only their number is known.

use oncekey_core::{Record, State, Timestamp};
use oncekey_store::{AuditLine, Change};
use serde::Serialize;

use crate::view::{RecordView, rfc3339};

/// Lines of the trail that a story takes in at most; the newest.
pub const LINES: u32 = 50;

/// Something that happened to a record.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct EventView {
    /// When, by the store's clock; null where nobody wrote it down.
    pub at: Option<String>,
    /// `claimed`, `attempted`, `completed`, `failed`, `unknown`, `resolved`, `purged` or `replayed`.
    pub event: &'static str,
    /// What happened, as a sentence.
    pub detail: String,
}

impl std::fmt::Debug for EventView {
    /// Without the detail, which may hold an operator's words (P2).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EventView({} {:?})", self.event, self.at)
    }
}

/// What happened to a record, oldest first; what has no time stands last. `view` is what it counts as; `lines` are those of
/// the trail about it, newest first. A record that was purged and made anew has the story of the new one, with what was done
/// to the old one before it.
pub fn history(record: &Record, view: &RecordView, lines: &[AuditLine]) -> Vec<EventView> {
    let mut events = begun(record);
    events.extend(ended(record).filter(|(at, _)| !lines.iter().any(|line| is_verdict(line) && line.at == *at)));
    events.extend(lines.iter().filter_map(|line| Some((line.at, by_hand(line)?))));
    // Stable: of two at the same time the record's own come first.
    events.sort_by_key(|(at, _)| *at);
    let timed = |(at, (event, detail))| EventView { at: Some(rfc3339(at)), event, detail };
    let mut events: Vec<_> = events.into_iter().map(timed).collect();
    if record.state == State::Processing && view.state == State::Unknown.name() {
        let detail = "Its node is gone or its time is over: it may have taken effect, and nobody can tell.".to_owned();
        events.push(EventView { at: None, event: "unknown", detail });
    }
    if record.replays > 0 {
        let detail = format!("The recorded response was replayed {}.", times(record.replays));
        events.push(EventView { at: None, event: "replayed", detail });
    }
    events
}

type Event = (Timestamp, (&'static str, String));

fn begun(record: &Record) -> Vec<Event> {
    let (node, times) = (&record.owner, &record.times);
    if record.attempts <= 1 {
        return vec![(times.created, ("claimed", format!("Claimed and executed by node {node}.")))];
    }
    let detail = format!(
        "Attempt {} by node {node}: every attempt before it had failed, or its outcome was unknown and an operator or the \
         route's on_unknown let a retry execute.",
        record.attempts
    );
    vec![(times.created, ("claimed", "Claimed for the first time.".to_owned())), (times.started, ("attempted", detail))]
}

fn ended(record: &Record) -> Option<Event> {
    let detail = match record.state {
        State::Processing => return None,
        State::Completed => {
            let status = record.response_status.map_or_else(String::new, |status| format!(" with status {status}"));
            format!("The outcome was recorded{status}.")
        }
        State::Failed => "Nothing took effect, or a retry may run: the next one executes.".to_owned(),
        State::Unknown => "It may have taken effect, and nobody can tell.".to_owned(),
    };
    Some((record.times.ended?, (record.state.name(), detail)))
}

/// Whether an operator's verdict ended the record: then that tells it.
fn is_verdict(line: &AuditLine) -> bool {
    matches!(line.change, Change::Record { after: Some(_), .. })
}

fn by_hand(line: &AuditLine) -> Option<(&'static str, String)> {
    let Change::Record { before, after, .. } = &line.change else { return None };
    let operator = &line.operator;
    let from = operator.from.as_deref().map_or_else(String::new, |from| format!(" from {from}"));
    let why = operator.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
    let by = format!("by {} ({}{from}){why}", operator.who, operator.via);
    Some(match after {
        Some(after) => ("resolved", format!("Resolved from {before} as {after} {by}")),
        None => ("purged", format!("Purged when {before} {by}")),
    })
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
