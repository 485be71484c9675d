//! Rules that tests break to see that they are caught. Compiled to nothing without the feature `fault-points`, which no release
//! has. `ONCEKEYTEST_BREAK=RULE[,RULE…]` breaks them, here and in the engine:
//!
//! | rule broken | instead |
//! |---|---|
//! | `record_apart` | in transactional mode, a handler's rows are committed first, and then the record (G3) |

/// Whether a test asked for a rule to be broken; see the table above.
#[cfg(not(feature = "fault-points"))]
pub(crate) const fn broken(_rule: &str) -> bool {
    false
}

/// Whether a test asked for a rule to be broken; see the table above.
#[cfg(feature = "fault-points")]
#[expect(clippy::disallowed_methods, reason = "a setting of tests alone")]
pub(crate) fn broken(rule: &str) -> bool {
    std::env::var("ONCEKEYTEST_BREAK").is_ok_and(|rules| rules.split(',').any(|broken| broken == rule))
}
