//! What is done about unknown outcomes (E7), and what a route's policy costs its promise (G1). The one place where an
//! `unknown` standing is judged; asking the upstream and executing is the engine's.

use std::time::Duration;

use super::{OnStoreError, Policy};
use crate::{PromiseClass, Record, State, Timestamp};

/// The route's answer to unknown outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnknown {
    /// Nothing is executed until an operator resolves the record or it expires.
    #[default]
    Hold,
    /// The next retry executes again with the same key: for an upstream that is idempotent itself.
    Retry,
    /// The next retry asks the upstream.
    Probe {
        /// How long after the claim "there is no such thing" means that nothing was executed.
        settle: Duration,
    },
}

/// What a request may do that meets an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing, now or later.
    Hold,
    /// Nothing for now.
    Wait,
    /// Take the record over and execute.
    Execute,
    /// Ask the upstream. Where it says that nothing was executed, the record may be taken over if `may_execute`.
    Ask {
        /// Whether enough time has passed, and there is an attempt left.
        may_execute: bool,
    },
}

impl Policy {
    /// Judges a record that stands as unknown at `now`, a reading of the store's clock from before anyone is asked. A clock
    /// that isn't trusted (it ran ahead, E9) makes living owners look gone and young claims old, so nothing is executed by
    /// it; an outcome that was written down as unknown needs no clock.
    pub fn remedy(&self, record: &Record, now: Timestamp, trust_clock: bool) -> Remedy {
        let left = record.attempts < self.max_attempts;
        match self.on_unknown {
            OnUnknown::Retry if left && (trust_clock || record.state == State::Unknown) => Remedy::Execute,
            OnUnknown::Retry if left => Remedy::Wait,
            OnUnknown::Hold | OnUnknown::Retry => Remedy::Hold,
            OnUnknown::Probe { settle } => {
                Remedy::Ask { may_execute: left && trust_clock && now >= record.times.started.after(settle) }
            }
        }
    }

    /// Whether a retry may settle an outcome that is unknown after `attempts` executions.
    pub fn settles(&self, attempts: u32) -> bool {
        match self.on_unknown {
            OnUnknown::Hold => false,
            OnUnknown::Retry => attempts < self.max_attempts,
            OnUnknown::Probe { .. } => true,
        }
    }

    /// What the policy keeps the route from promising, whatever the store promises (G1).
    pub fn shortfalls(&self) -> Vec<Shortfall> {
        let shortfall = |class, setting| Shortfall { class, setting };
        let on_unknown = match self.on_unknown {
            OnUnknown::Hold => None,
            OnUnknown::Retry => Some(shortfall(PromiseClass::BestEffort, "on_unknown = \"retry\"")),
            OnUnknown::Probe { .. } => Some(shortfall(PromiseClass::AtMostOnceUntilFailover, "on_unknown = \"probe\"")),
        };
        let open = self.on_store_error == OnStoreError::Open;
        let on_store_error = open.then(|| shortfall(PromiseClass::BestEffort, "on_store_error = \"open\""));
        on_unknown.into_iter().chain(on_store_error).collect()
    }
}

/// A setting under which a route promises no more than a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The most that is promised.
    pub class: PromiseClass,
    /// The setting and its value, as the file has them.
    pub setting: &'static str,
}
