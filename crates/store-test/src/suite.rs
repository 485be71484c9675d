//! The one list of cases, and the macro that turns it into tests.

/// Expands to one `#[tokio::test]` per case, in modules named as the cases' files. `$fixture` is a function without
/// arguments that makes a [`Fixture`](crate::Fixture).
#[macro_export]
macro_rules! suite {
    ($fixture:path) => {
        $crate::suite! {
            @$fixture;
            claiming:
                first_claim_is_granted
                second_claim_is_held
                own_claim_found_again_is_granted
                own_claim_that_ended_is_held
                of_64_concurrent_claims_one_is_granted
                a_thousand_claims_on_other_keys_are_all_granted
                identities_never_meet
                awkward_texts_are_kept
                an_unclaimed_record_is_absent;
            replacing:
                a_failed_record_is_attempted_again
                another_attempt_keeps_the_fingerprint
                an_expired_record_is_replaced_afresh
                a_record_whose_state_changed_is_held
                a_record_whose_token_changed_is_held
                a_claim_that_is_valid_again_is_held
                a_token_of_a_purged_record_is_fenced
                replacing_a_purged_record_starts_afresh;
            outcomes:
                outcomes_follow_the_transition_table
                another_token_is_fenced
                other_events_are_no_outcomes
                a_repeated_outcome_is_written_once
                a_late_outcome_counts_after_the_lapse
                a_late_outcome_counts_after_the_sweep
                a_late_outcome_counts_after_an_operators_failed
                an_operators_completed_fences;
            responses:
                bodies_are_kept_to_the_byte
                a_body_not_stored_is_told_from_an_empty_one
                header_lines_are_kept
                trailers_are_kept
                the_span_of_an_execution_is_kept
                statuses_are_kept
                a_failed_record_keeps_its_answer
                a_large_body_is_kept
                a_later_answer_replaces_the_earlier;
            living:
                a_heartbeat_is_valid_for_its_lease
                an_owner_without_heartbeat_is_not_alive
                a_retired_owner_is_not_alive
                a_claim_lapses_at_its_deadline
                an_expired_record_is_still_reported
                a_peek_reads_many_without_answers;
            sweeping:
                only_expired_records_are_deleted
                the_given_time_decides
                a_live_claim_is_never_swept
                a_claim_without_owner_is_marked
                a_claim_past_its_deadline_is_marked_as_of_it
                a_claim_lapsed_long_ago_is_deleted
                a_step_is_bounded
                claims_and_sweeps_get_along;
            listing:
                nothing_is_listed_of_nothing
                the_newest_claim_comes_first
                each_filter_applies
                the_state_filter_goes_by_what_a_record_counts_as
                pages_are_stable
                the_last_page_has_no_next
                a_foreign_cursor_is_refused;
            operating:
                resolving_as_completed_gives_the_answer
                resolving_as_failed_lets_a_retry_run
                a_lapsed_claim_is_resolved_as_unknown
                only_unknown_is_resolved
                an_absent_record_is_not_resolved
                purging_deletes
                a_live_claim_is_not_purged
                an_order_says_of_each_record_what_became_of_it
                an_order_spares_what_no_longer_matches
                an_order_is_bounded
                orders_and_outcomes_get_along;
            auditing:
                each_change_leaves_a_line
                what_changes_nothing_leaves_no_line
                a_repeated_order_leaves_one_line
                the_trail_comes_in_parts
                each_filter_of_the_trail_applies
                a_sweep_by_hand_is_noted
                old_lines_are_swept;
            counting:
                replays_add_up
                the_records_of_one_scope_are_counted
                a_count_of_a_scope_follows_what_happens_to_its_records
                stats_count_by_state
                stats_tell_the_size
                gauges_agree_with_stats
                gauges_tell_how_long_the_oldest_claim_runs
                gauges_tell_how_far_sweeping_lags
                a_promise_names_what_falls_short;
        }
    };
    (@$fixture:path; $($group:ident: $($case:ident)+;)+) => {
        $crate::suite!(@groups $fixture, $($group [$($case)+])+);
    };
    (@groups $fixture:path, $($group:ident $cases:tt)+) => {
        $($crate::suite!(@group $fixture, $group $cases);)+
    };
    (@group $fixture:path, $group:ident [$($case:ident)+]) => {
        mod $group {
            #[allow(unused_imports, reason = "the fixture's path may be relative to the caller's module")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::cases::$group::$case($fixture()).await;
                }
            )+
        }
    };
}

/// The cases that every [`Transactions`](oncekey_store::Transactions) must pass, expanded like [`suite!`]. `$fixture` is a function
/// without arguments that makes a [`TransactionFixture`](crate::TransactionFixture).
#[macro_export]
macro_rules! transaction_suite {
    ($fixture:path) => {
        $crate::suite! {
            @$fixture;
            beginning:
                an_open_transaction_is_in_the_way
                of_two_processes_one_commits
                of_32_at_once_one_commits
                on_32_records_at_once_all_commit
                a_committed_record_is_in_the_way
                a_claim_in_two_commits_is_in_the_way
                a_failed_record_is_attempted_again_in_a_transaction
                an_expired_record_is_replaced_afresh_in_a_transaction
                a_record_that_changed_since_is_in_the_way
                what_is_given_up_while_it_begins_is_not_in_the_way;
            closing:
                a_commit_leaves_row_and_record
                an_answer_that_declined_leaves_the_record_alone
                a_rollback_leaves_neither
                what_is_dropped_is_rolled_back
                a_rollback_leaves_the_record_that_was_to_be_replaced
                a_committed_record_is_its_claims
                a_large_answer_is_committed
                an_open_transaction_holds_up_nobody;
        }
    };
}
