//! Annotated handlers on every store, through the public interface alone: what a user relies on, one fact a test.
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

mod attribute;
mod place;
mod properties;
#[cfg(feature = "postgres")]
mod skew;

/// Runs every property on every store that is built in.
macro_rules! on_every_store {
    ($($property:ident)*) => {
        mod memory {
            $(#[tokio::test] async fn $property() {
                crate::properties::$property(crate::place::Place::memory()).await;
            })*
        }

        #[cfg(feature = "sqlite")]
        mod sqlite {
            $(#[tokio::test] async fn $property() {
                crate::properties::$property(crate::place::Place::sqlite()).await;
            })*
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test] async fn $property() {
                crate::properties::$property(crate::place::Place::postgres()).await;
            })*
        }
    };
}

on_every_store! {
    a_duplicate_is_answered_by_any_process
    another_payload_is_refused_in_flight_and_when_finished
    keys_that_look_alike_are_distinct
    results_come_back_as_they_were
    results_that_cannot_be_stored_are_not_run_again
    fifty_callers_in_two_processes_share_one_run
    a_crashed_attempt_is_taken_over_when_its_lease_lapses
    a_body_that_blocks_its_thread_keeps_its_lease
    a_body_much_longer_than_its_lease_is_renewed
    a_panic_is_retried_and_then_reviewed
    a_person_settles_what_is_in_review
    an_error_releases_with_its_backoff
    a_terminal_error_is_replayed
    a_shutdown_releases_for_others_at_once
    what_is_past_its_retention_is_purged_and_new
    an_old_operation_is_refused
    twenty_handlers_share_the_smallest_pool
    a_caller_who_leaves_leaves_no_claimed_and_unrun_key
    provider_keys_are_the_same_on_every_attempt
}
