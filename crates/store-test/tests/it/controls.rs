//! Negative controls: each defect is caught by the cases that are there to catch it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use oncekey_store::MemoryStore;
use oncekey_store_test::{Fixture, cases};

use crate::broken::{Broken, Defect};

fn with(defect: Defect) -> Fixture {
    Fixture::new(|clock| Arc::new(MemoryStore::new(clock))).wrapped(|inner| Arc::new(Broken(inner, defect)))
}

/// Whether the case panics when it is given the broken store.
async fn catches<F: Future<Output = ()>>(case: impl FnOnce(Fixture) -> F, defect: Defect) -> bool {
    AssertUnwindSafe(case(with(defect))).catch_unwind().await.is_err()
}

macro_rules! controls {
    ($($name:ident: $defect:ident is caught by $($group:ident::$case:ident),+;)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $(assert!(catches(cases::$group::$case, Defect::$defect).await, stringify!($case));)+
        }
    )+};
}

controls! {
    a_store_that_grants_twice_is_caught: GrantsTwice is caught by
        claiming::second_claim_is_held, claiming::of_64_concurrent_claims_one_is_granted;
    a_store_that_ignores_tokens_is_caught: IgnoresTokens is caught by
        outcomes::another_token_is_fenced, outcomes::an_operators_completed_fences,
        replacing::a_token_of_a_purged_record_is_fenced;
    a_store_that_ignores_states_is_caught: IgnoresStates is caught by replacing::a_record_whose_state_changed_is_held;
    a_store_that_sweeps_live_records_is_caught: SweepsLive is caught by
        sweeping::a_live_claim_is_never_swept, sweeping::only_expired_records_are_deleted,
        sweeping::the_given_time_decides;
    a_store_that_keeps_text_only_is_caught: KeepsTextOnly is caught by responses::bodies_are_kept_to_the_byte;
    a_store_that_folds_case_is_caught: FoldsCase is caught by claiming::identities_never_meet;
    a_store_that_never_retires_is_caught: NeverRetires is caught by living::a_retired_owner_is_not_alive;
    a_store_that_purges_live_records_is_caught: PurgesLive is caught by operating::a_live_claim_is_not_purged;
    a_store_that_counts_values_alone_is_caught: CountsValues is caught by counting::the_records_of_one_scope_are_counted;
    a_store_that_counts_lapsed_claims_as_running_is_caught: CountsLapsed is caught by counting::gauges_agree_with_stats;
    a_store_that_forgets_cursors_is_caught: ForgetsCursors is caught by listing::the_last_page_has_no_next,
        auditing::the_trail_comes_in_parts;
    a_store_that_ignores_filters_is_caught: IgnoresFilters is caught by operating::an_order_spares_what_no_longer_matches;
    a_store_that_notes_nothing_is_caught: NotesNothing is caught by auditing::each_change_leaves_a_line;
    a_store_that_notes_what_failed_is_caught: NotesWhatFailed is caught by auditing::what_changes_nothing_leaves_no_line;
}
