//! The arguments of `oncekey records`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use oncekey_core::{RecordId, State};

use super::StoreArguments;
use crate::settings::{Environment, Sources};

/// What can be done with records.
#[derive(Debug, Subcommand)]
pub(crate) enum RecordsCommand {
    /// List records, newest first
    List {
        #[command(flatten)]
        filter: RecordFilter,
        #[command(flatten)]
        output: RecordsOutput,
    },
    /// Show one record
    Show {
        #[command(flatten)]
        record: OneRecord,
        /// Show the recorded response too
        #[arg(long)]
        body: bool,
        #[command(flatten)]
        output: RecordsOutput,
    },
    /// Settle records whose outcome is unknown
    Resolve {
        #[command(flatten)]
        selection: Selection,
        /// What happened: it took effect, or it did not
        #[arg(long = "as", value_enum)]
        verdict: Verdict,
        /// What retries get, with `--as completed` (JSON: status, headers, body)
        #[arg(long, value_name = "FILE")]
        response: Option<PathBuf>,
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        output: RecordsOutput,
    },
    /// Delete records
    Purge {
        #[command(flatten)]
        selection: Selection,
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        output: RecordsOutput,
    },
    /// List what operators changed, newest first
    Audit {
        #[command(flatten)]
        trail: Trail,
        #[command(flatten)]
        output: RecordsOutput,
    },
}

/// Which store, and how to print.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordsOutput {
    #[command(flatten)]
    store: StoreArguments,
    /// The namespace whose records are meant
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which records. Nothing given: all.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordFilter {
    /// Only records of this scope
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<String>,
    /// Only records of this key
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Only records in this state
    #[arg(long, value_parser = states())]
    pub(crate) state: Option<State>,
    /// Only records of this route
    #[arg(long, value_name = "PATH")]
    pub(crate) route: Option<String>,
    /// Only records claimed at least this long ago, like 90s or 48h
    #[arg(long, value_name = "DURATION", value_parser = crate::settings::parse_duration)]
    pub(crate) older_than: Option<Duration>,
}

fn states() -> impl clap::builder::TypedValueParser<Value = State> {
    PossibleValuesParser::new(State::ALL.map(State::name))
        .map(|name| name.parse().expect("only the states' own names are possible"))
}

/// One record, by its id or by scope and key.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("one").required(true).args(["id", "key"]))]
pub(crate) struct OneRecord {
    /// The record's id: the operation id
    pub(crate) id: Option<RecordId>,
    /// Its scope, with --key
    #[arg(long, value_name = "SCOPE", requires = "key", conflicts_with = "id")]
    pub(crate) scope: Option<String>,
    /// Its key, with --scope
    #[arg(long, value_name = "KEY", requires = "scope")]
    pub(crate) key: Option<String>,
}

/// The records that a change is made to: one by its id, or those that match. Never all by saying nothing.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("selection").required(true).multiple(true)
    .args(["id", "scope", "key", "state", "route", "older_than", "all"]))]
pub(crate) struct Selection {
    /// The record's id: the operation id
    #[arg(conflicts_with_all = ["scope", "key", "state", "route", "older_than", "all"])]
    pub(crate) id: Option<RecordId>,
    /// All records of the namespace
    #[arg(long, conflicts_with_all = ["scope", "key", "state", "route", "older_than"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filter: RecordFilter,
}

/// How a change is made.
#[derive(Clone, Debug, Args)]
pub(crate) struct Change {
    /// Only show what would be changed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Don't ask before changing what a filter matches
    #[arg(long)]
    pub(crate) yes: bool,
    /// Why, for the trail of changes
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// Which changes. Nothing given: all.
#[derive(Clone, Debug, Args)]
pub(crate) struct Trail {
    /// Only changes of this record: its operation id
    pub(crate) id: Option<RecordId>,
    /// Only changes of records of this scope
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<String>,
    /// Only changes of records of this key
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// How many, at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u32,
}

/// An operator's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verdict {
    /// It took effect
    Completed,
    /// It did not take effect; the next retry executes
    Failed,
}

impl RecordsCommand {
    /// What clap can't say: an operation that failed has no response to replay.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Resolve { verdict: Verdict::Failed, response: Some(_), .. } => {
                Err("--response goes with --as completed; after --as failed the next retry executes")
            }
            _ => Ok(()),
        }
    }

    /// Where its settings come from.
    pub(crate) fn sources(&self, environment: Environment) -> Sources {
        let (Self::List { output, .. }
        | Self::Show { output, .. }
        | Self::Resolve { output, .. }
        | Self::Purge { output, .. }
        | Self::Audit { output, .. }) = self;
        output.store.clone().within(output.namespace.clone(), environment)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::arguments::Arguments;

    const ID: &str = "0f0e0d0c-0b0a-8908-8706-050403020100";

    fn accepted(line: &str) -> bool {
        Arguments::read(format!("oncekey records {line}").split(' ').map(OsString::from)).is_ok()
    }

    #[test]
    fn a_record_is_shown_by_its_id_or_by_scope_and_key() {
        assert!(accepted(&format!("show {ID}")));
        assert!(accepted("show --scope acc-1 --key k"));
        for wrong in
            ["show", "show --scope acc-1", "show --key k", "show nonsense", &format!("show {ID} --key k --scope s")]
        {
            assert!(!accepted(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_change_never_means_all_records_by_saying_nothing() {
        for command in ["purge", "resolve --as failed"] {
            assert!(!accepted(command), "{command}");
            assert!(!accepted(&format!("{command} --yes")), "{command}");
            assert!(accepted(&format!("{command} {ID}")), "{command}");
            assert!(accepted(&format!("{command} --scope a --state unknown --older-than 2h --yes")), "{command}");
            assert!(!accepted(&format!("{command} {ID} --scope a")), "{command}");
            assert!(accepted(&format!("{command} --all --dry-run")), "{command}");
            assert!(!accepted(&format!("{command} --all --scope a")), "{command}");
            assert!(!accepted(&format!("{command} {ID} --all")), "{command}");
        }
    }

    #[test]
    fn the_trail_is_listed_whole_or_by_record() {
        assert!(accepted("audit"));
        assert!(accepted(&format!("audit {ID}")));
        assert!(accepted("audit --scope a --key k --limit 5 --json"));
        assert!(!accepted("audit nonsense"));
        assert!(!accepted("audit --limit -1"));
    }

    #[test]
    fn a_verdict_is_needed_and_a_response_goes_with_completed() {
        assert!(!accepted(&format!("resolve {ID}")));
        assert!(!accepted(&format!("resolve {ID} --as unknown")));
        assert!(accepted(&format!("resolve {ID} --as completed --response r.json")));
        assert!(!accepted(&format!("resolve {ID} --as failed --response r.json")));
    }

    #[test]
    fn filters_take_states_and_durations_only() {
        assert!(accepted("list --state processing --older-than 90s --route /orders"));
        assert!(accepted("list"));
        assert!(!accepted("list --state open"));
        assert!(!accepted("list --older-than 90"));
    }
}
