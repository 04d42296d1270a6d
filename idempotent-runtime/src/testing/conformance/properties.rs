//! The list of properties, in one place.

#[macro_use]
mod steps;

/// One `#[test]` per [`Property`](crate::testing::conformance::Property) for the store that a [`Factory`](crate::testing::conformance::Factory) opens.
///
/// Takes an expression that is a future of a fresh [`Factory`](crate::testing::conformance::Factory); it is evaluated once for each property.
#[macro_export]
macro_rules! store_conformance {
    ($factory:expr $(,)?) => {
        $crate::__store_properties! { list tests ($factory) }
    };
}

/// The list of properties. The table and the tests are both made from it, so that none can be forgotten.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_properties {
    (table () $($module:ident { $($name:ident)+ })+) => {
        /// Every property of the suite.
        pub const PROPERTIES: &[Property] = &[$($(
            Property { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) },
        )+)+];
    };
    (tests ($factory:expr) $($module:ident { $($name:ident)+ })+) => { $($(
        #[test]
        fn $name() {
            $crate::testing::conformance::check(stringify!($name), $factory);
        }
    )+)+ };
    (list $emit:ident $factory:tt) => { $crate::__step_properties! { $emit $factory
        claim {
            claim_of_an_absent_execution_is_granted
            claim_stores_what_it_was_given
            claim_begins_the_first_attempt
            claim_behind_many_replays_is_answered_like_any
            claim_is_dated_by_the_store
            claim_leases_no_longer_than_max_runtime
            first_token_is_the_time_of_the_store_in_microseconds
            claim_sent_twice_finds_its_own
            claim_of_a_running_execution_finds_it_in_flight
            claim_of_a_lapsed_execution_finds_it_lapsed
            claim_of_a_retryable_execution_finds_it_claimable
            claim_within_the_backoff_finds_it_not_due
            claim_of_a_completed_execution_finds_its_result
            claim_of_a_failed_execution_finds_its_error
            claim_of_an_execution_in_review_finds_its_reason
            claim_reports_the_time_of_the_store
            claim_of_an_operation_older_than_retain_is_too_old
            claim_of_an_operation_younger_than_retain_is_granted
            claim_of_an_operation_issued_in_the_future_is_granted
            claim_of_an_old_operation_that_is_there_finds_it
            claims_of_a_batch_are_answered_in_its_order
            claims_of_one_execution_in_a_batch_are_granted_once
            claims_of_a_thousand_executions_in_a_batch_are_granted
            empty_batches_have_no_answers
        }
        take_over {
            take_over_of_a_lapsed_execution_is_granted
            take_over_of_a_retryable_execution_counts_no_crash
            take_over_is_dated_by_the_store
            take_over_replaces_version_and_limits
            take_over_keeps_how_long_any_attempt_may_be_alive
            take_over_leases_no_longer_than_its_own_max_runtime
            take_over_keeps_what_names_the_operation
            take_over_clears_reason_and_backoff
            take_over_within_the_backoff_is_outrun
            take_over_after_the_backoff_is_granted
            take_over_of_a_lease_that_has_not_lapsed_is_outrun
            take_over_of_a_renewed_lease_is_outrun
            take_over_of_a_lapsed_execution_on_another_token_is_outrun
            take_over_of_a_retryable_execution_on_another_token_is_outrun
            take_over_of_an_absent_execution_is_outrun
            take_over_of_a_completed_execution_is_outrun
            take_over_of_a_failed_execution_is_outrun
            take_over_of_an_execution_in_review_is_outrun
            take_over_sent_twice_is_granted_the_same_both_times
            take_over_by_the_owner_that_runs_grants_what_it_has
            take_over_by_the_owner_that_runs_no_more_is_outrun
            take_over_that_was_itself_outlived_is_outrun
            take_over_fences_the_attempt_before_it
            tokens_rise_across_takeovers_at_any_speed
            take_over_to_review_ends_a_lapsed_attempt
            take_over_to_review_of_a_live_lease_is_outrun
            take_over_to_review_of_a_retryable_execution_is_outrun
            take_over_to_review_on_another_token_is_outrun
            take_over_to_review_fences_the_attempt
            take_over_to_review_by_the_owner_that_runs_is_its_own
            takeovers_of_a_batch_are_answered_in_its_order
            takeovers_of_one_execution_in_a_batch_are_granted_once
        }
        renew {
            renew_ends_the_lease_one_lease_from_now
            renew_changes_nothing_but_the_lease
            renew_sent_twice_is_renewed_both_times
            renew_never_reaches_past_max_runtime
            renew_after_max_runtime_is_skipped
            renew_of_a_lapsed_lease_that_nobody_took_is_renewed
            renew_after_a_takeover_goes_by_the_limits_of_the_successor
            renew_after_a_takeover_counts_max_runtime_from_the_takeover
            renew_with_another_owner_is_lost
            renew_with_another_token_is_lost
            renew_with_another_owner_after_max_runtime_is_lost
            renew_of_an_absent_execution_is_lost
            renew_of_a_retryable_execution_is_lost
            renew_of_a_completed_execution_is_lost
            renew_of_a_failed_execution_is_lost
            renew_of_an_execution_in_review_is_lost
            renew_of_a_reaped_execution_is_lost
            renewals_of_a_batch_are_answered_in_its_order
            renewals_of_one_execution_in_a_batch_are_each_judged
            heartbeat_handle_renews_what_the_store_claimed
        }
        complete {
            complete_stores_the_result
            complete_stores_a_terminal_error
            complete_without_a_result_keeps_why
            complete_of_a_lapsed_lease_that_nobody_took_is_done
            complete_after_a_takeover_clears_no_count
            completion_sent_twice_is_done_both_times
            failure_sent_twice_is_done_both_times
            second_completion_does_not_replace_the_first
            complete_with_another_owner_is_fenced
            complete_with_another_token_is_fenced
            fail_with_another_owner_is_fenced
            complete_of_an_absent_execution_is_fenced
            complete_of_a_retryable_execution_is_fenced
            complete_of_an_execution_in_review_is_fenced
            complete_of_a_reaped_execution_is_fenced
            complete_of_what_another_owner_completed_is_fenced
            complete_of_what_was_completed_under_another_token_is_fenced
            complete_of_what_a_person_settled_is_fenced
            late_completion_leaves_the_successors_result
            completions_of_a_batch_are_answered_in_its_order
            completions_of_one_execution_in_a_batch_store_one_of_them
        }
        release {
            release_to_retry_is_due_at_once
            release_to_retry_with_a_delay_is_due_that_long_from_now
            release_of_a_crash_counts_it_and_is_due_at_once
            release_of_one_crash_too_many_goes_to_review
            release_of_a_crash_where_none_is_allowed_goes_to_review
            release_to_review_keeps_why
            release_of_a_lapsed_lease_that_nobody_took_is_done
            release_sent_twice_is_done_both_times
            second_release_does_not_replace_the_first
            release_of_a_reaped_execution_changes_nothing
            release_with_another_owner_is_fenced
            release_with_another_token_is_fenced
            release_of_an_absent_execution_is_fenced
            release_of_a_completed_execution_is_fenced
            release_of_a_failed_execution_is_fenced
            release_of_what_another_owner_released_is_fenced
            release_of_what_was_released_under_another_token_is_fenced
            late_release_leaves_the_successor_running
            releases_of_a_batch_are_answered_in_its_order
            releases_of_one_execution_in_a_batch_store_one_of_them
        }
        settle {
            settle_as_completed_stores_the_result_under_a_raised_token
            settle_as_failed_stores_the_error_under_a_raised_token
            settle_to_retry_makes_it_claimable_under_a_raised_token
            settle_to_retry_is_taken_over_as_the_next_attempt
            settle_to_retry_is_due_at_once_after_any_backoff
            settle_to_retry_while_an_attempt_may_be_alive_is_too_early
            settle_to_retry_waits_a_margin_beyond_max_runtime
            settle_waits_for_an_attempt_before_that_may_live_longer
            reopen_waits_for_an_attempt_before_that_may_live_longer
            settle_as_completed_need_not_wait
            settle_on_another_token_is_outrun
            settle_sent_twice_is_stored_once
            settle_of_an_absent_execution_is_outrun
            settle_of_a_running_execution_is_outrun
            settle_of_a_retryable_execution_is_outrun
            settle_of_a_completed_execution_is_outrun
            settle_of_a_failed_execution_is_outrun
            settle_fences_a_takeover_on_the_token_before
            settlements_of_a_batch_are_answered_in_its_order
            settlements_of_one_execution_in_a_batch_are_stored_once
        }
        read {
            read_of_an_absent_execution_is_none
            read_reports_the_time_of_the_store
            time_of_the_store_moves_on_against_what_it_holds
            reads_of_a_batch_are_answered_in_its_order
            reads_of_one_execution_in_a_batch_are_each_answered
            write_is_seen_by_a_read_after_its_answer
        }
        list {
            list_review_of_an_empty_store_is_empty
            list_review_shows_the_whole_execution
            list_review_shows_no_other_state
            list_review_forgets_what_was_settled
            list_review_is_oldest_first
            list_review_is_in_the_order_of_its_cursors
            list_review_shows_one_namespace
            list_review_shows_at_most_rows_max
            list_review_goes_on_behind_a_cursor
            list_review_keeps_what_is_too_early_to_retry
        }
        reap {
            reap_makes_a_lapsed_execution_retryable
            reap_sends_one_crash_too_many_to_review
            reap_counts_the_crashes_before
            reap_spares_a_live_lease
            reap_spares_a_renewed_lease
            reap_spares_a_retryable_execution
            reap_spares_a_completed_execution
            reap_spares_a_failed_execution
            reap_spares_an_execution_in_review
            reap_of_what_was_reaped_changes_nothing
            reap_goes_by_the_lease_of_each_execution
            reap_names_the_handler
            reap_of_every_namespace_is_one
            reap_examines_at_most_rows_max
            reap_counts_what_it_examines_and_spares
            reap_goes_on_behind_a_cursor_until_all_are_examined
            reap_leaves_what_lies_before_the_cursor
            reap_of_the_younger_leaves_the_older
            reap_of_the_younger_goes_on_behind_a_cursor
            reap_of_an_empty_store_examines_nothing
        }
        purge {
            purge_deletes_a_completed_execution_past_retain
            purge_deletes_a_failed_execution_past_retain
            purge_deletes_a_retryable_execution_past_lease_and_retain
            purge_deletes_a_retryable_execution_past_backoff_and_retain
            purge_deletes_what_a_person_settled_past_retain
            purge_spares_a_finished_execution_within_retain
            purge_counts_retain_from_the_completion
            purge_counts_retain_from_the_settlement
            purge_spares_a_retryable_execution_within_lease_and_retain
            purge_spares_a_retryable_execution_within_backoff_and_retain
            purge_spares_what_a_person_sent_to_retry
            purge_never_deletes_a_running_execution
            purge_never_deletes_an_execution_in_review
            purge_goes_by_the_retain_of_each_execution
            purge_goes_by_the_retain_of_the_newest_attempt
            purge_examines_at_most_rows_max
            purge_goes_on_behind_a_cursor_until_all_are_examined
            purge_leaves_what_lies_before_the_cursor
            claim_after_a_purge_is_granted_a_token_above_the_old_one
            purge_of_an_empty_store_examines_nothing
        }
        pages {
            reap_goes_by_age_whatever_the_ids
            reap_leaves_what_lies_beside_its_page
            purge_goes_by_age_whatever_the_ids
            purge_leaves_what_lies_beside_its_page
            purge_reviews_by_age_whatever_the_ids
            purge_reviews_nothing_beside_its_page
            purge_goes_by_the_messages_of_each_execution
            list_review_goes_by_age_whatever_the_ids
        }
        apart {
            take_over_of_a_lapsed_execution_leaves_its_neighbours
            take_over_of_a_retryable_execution_leaves_its_neighbours
            take_over_to_review_leaves_its_neighbours
            renew_leaves_its_neighbours
            renew_is_not_taken_for_a_neighbours
            complete_leaves_its_neighbours
            complete_is_not_taken_for_a_neighbours
            release_to_retry_leaves_its_neighbours
            release_of_a_crash_leaves_its_neighbours
            release_to_review_leaves_its_neighbours
            release_is_not_taken_for_a_neighbours
            settle_leaves_its_neighbours
            settle_is_not_taken_for_a_neighbours
        }
        text {
            identity_comes_back_byte_for_byte
            keys_that_look_alike_stay_apart
            key_that_is_not_stored_is_not_an_empty_key
            longest_key_comes_back_whole
            ids_that_differ_in_one_bit_stay_apart
            fingerprint_comes_back_byte_for_byte
            json_with_an_escaped_nul_comes_back_as_it_was
            json_is_not_reformatted
            small_results_are_told_apart_from_none
            bytes_that_are_no_text_come_back
            result_of_a_mebibyte_comes_back_whole
            reason_comes_back_byte_for_byte
            reason_of_an_absent_result_comes_back_byte_for_byte
            note_of_a_settlement_comes_back_byte_for_byte
            limits_come_back_whole_up_to_a_century
        }
        lifecycle {
            store_has_a_name
            migrate_again_changes_nothing
            migrate_from_twenty_processes_at_once_succeeds
            check_schema_accepts_what_migrate_made
            every_call_after_close_fails_as_closed
            close_twice_is_harmless
        }
        outbox {
            message_is_there_with_its_completion
            failure_sends_no_message
            fenced_completion_sends_no_message
            completion_sent_twice_sends_its_messages_once
            claim_of_messages_leases_them
            claimed_message_is_not_claimed_again
            claim_of_messages_takes_at_most_rows_max_and_the_oldest
            claim_of_messages_keeps_to_its_topic_and_namespace
            claim_of_messages_since_an_instant_finds_all_that_were_committed_then
            delayed_message_is_claimed_once_it_is_due
            message_of_a_lapsed_relay_is_claimed_under_a_raised_token
            lapsed_delivery_at_most_once_goes_to_review
            lapsed_delivery_is_asked_about_where_somebody_can_be_asked
            message_to_be_asked_about_goes_to_review_where_nobody_can_be_asked
            claim_sent_again_answers_what_it_claimed_before
            ordering_key_has_one_message_in_flight
            undelivered_message_holds_back_those_of_its_ordering_key
            ordering_keys_of_two_topics_are_apart
            renewal_of_a_message_prolongs_its_lease
            delivered_message_is_done
            failed_delivery_is_due_after_its_delay
            released_message_is_due_at_once_and_not_counted
            end_sent_twice_is_written_once
            end_by_another_claim_is_fenced
            late_acknowledgement_clears_a_review
            dead_message_is_listed_and_retried
            message_in_review_that_is_retried_is_not_asked_about
            only_what_is_dead_or_in_review_is_decided
            undelivered_messages_are_counted_by_topic
            purge_spares_an_execution_with_an_undelivered_message
            purge_leaves_the_delivered_messages_of_what_it_deletes
            message_sent_again_after_the_purge_is_new_and_delivered_once_more
            message_sent_again_elsewhere_is_new
            message_is_not_sent_over_an_undelivered_one
            purge_of_messages_deletes_what_was_delivered_long_ago
            claim_of_messages_is_filled_whatever_else_is_older
            claim_sent_again_keeps_to_its_topic_and_namespace
            ordering_keys_of_two_namespaces_are_apart
            delivered_message_holds_back_nobody
            list_of_messages_keeps_to_its_topic_and_namespace
            topic_without_an_undelivered_message_is_not_counted
            relays_at_once_claim_each_message_once
            relays_at_once_claim_one_message_of_an_ordering_key
            completions_at_once_keep_their_messages_of_a_key_in_one_order
        }
        elsewhere {
            completion_elsewhere_is_seen_once_it_is_committed
            completion_elsewhere_that_is_rolled_back_changes_nothing
            completion_elsewhere_stores_a_terminal_error_and_sends_nothing
            completion_elsewhere_without_a_result_keeps_why
            completion_elsewhere_stores_bytes_as_they_are
            completion_elsewhere_sends_as_complete_does
            completion_elsewhere_sends_a_thousand_messages
            completion_behind_one_elsewhere_is_done_and_changes_nothing
            completion_elsewhere_of_what_is_completed_affects_nothing
            completion_elsewhere_with_another_owner_affects_nothing
            completion_elsewhere_with_another_token_affects_nothing
            completion_elsewhere_of_what_is_not_running_affects_nothing
            completion_elsewhere_of_a_lapsed_lease_that_nobody_took_is_done
            late_completion_elsewhere_affects_nothing
            completion_elsewhere_leaves_its_neighbours
            take_over_waits_for_a_completion_elsewhere
            completion_elsewhere_and_takeover_at_once_have_one_winner
            completion_elsewhere_and_release_at_once_have_one_winner
        }
        concurrency {
            fifty_claims_at_once_are_granted_once
            claims_of_two_processes_at_once_are_granted_once
            claims_of_fifty_executions_at_once_are_all_granted
            one_claim_sent_twice_at_once_is_granted_once
            takeovers_of_a_lapsed_execution_at_once_are_granted_once
            takeovers_of_a_retryable_execution_at_once_are_granted_once
            completion_and_takeover_at_once_have_one_winner
            completion_and_reap_at_once_have_one_winner
            completion_and_release_at_once_have_one_winner
            renewal_at_once_with_the_completion_does_not_undo_it
            fifty_completions_of_one_attempt_at_once_are_all_done
            settlements_at_once_are_stored_once
            reapers_at_once_reap_each_execution_once
            claim_at_once_with_the_purge_is_granted_or_finds_it
            batches_over_the_same_executions_at_once_are_all_answered
        }
    } };
}
