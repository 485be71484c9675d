//! The classes of promise (rules G): how much can be lost, and when.

use std::fmt;
use std::str::FromStr;

/// What is promised for a route on a store, weakest first, so that `<` reads as "promises less than".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PromiseClass {
    /// At most one execution until a restart or an eviction.
    BestEffort,
    /// At most one execution until a failover loses a claim.
    AtMostOnceUntilFailover,
    /// At most one execution per key until the record expires; what can't be known is `unknown`.
    AtMostOnce,
    /// One effect in the store's own database and one answer, whatever crashes.
    ExactlyOnce,
}

impl PromiseClass {
    /// All classes, weakest first.
    pub const ALL: [Self; 4] = [Self::BestEffort, Self::AtMostOnceUntilFailover, Self::AtMostOnce, Self::ExactlyOnce];

    /// The name used in configuration, the admin API and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BestEffort => "best_effort",
            Self::AtMostOnceUntilFailover => "at_most_once_until_failover",
            Self::AtMostOnce => "at_most_once",
            Self::ExactlyOnce => "exactly_once",
        }
    }
}

impl fmt::Display for PromiseClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PromiseClass {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|class| class.name() == text).ok_or(())
    }
}
