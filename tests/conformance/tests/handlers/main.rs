//! Annotated handlers on every store, through the public interface alone: what a user relies on, one fact a test.
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

mod attribute;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod commits;
mod place;
mod properties;
#[cfg(feature = "postgres")]
mod skew;
mod steps;

/// Runs every property on every store that is built in.
macro_rules! on_every_store {
    ($($module:ident :: $property:ident)*) => {
        mod memory {
            use crate::place::{Place, in_time};

            $(#[tokio::test] async fn $property() {
                in_time(crate::$module::$property(Place::memory())).await;
            })*
        }

        #[cfg(feature = "sqlite")]
        mod sqlite {
            use crate::place::{Place, in_time};

            $(#[tokio::test] async fn $property() {
                in_time(crate::$module::$property(Place::sqlite())).await;
            })*
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            use crate::place::{Place, in_time};

            $(#[tokio::test] async fn $property() {
                in_time(crate::$module::$property(Place::postgres())).await;
            })*
        }
    };
}

on_every_store! {
    properties::a_duplicate_is_answered_by_any_process
    properties::another_payload_is_refused_in_flight_and_when_finished
    properties::keys_that_look_alike_are_distinct
    properties::results_come_back_as_they_were
    properties::results_that_cannot_be_stored_are_not_run_again
    properties::fifty_callers_in_two_processes_share_one_run
    properties::a_crashed_attempt_is_taken_over_when_its_lease_lapses
    properties::a_body_that_blocks_its_thread_keeps_its_lease
    properties::a_body_much_longer_than_its_lease_is_renewed
    properties::a_panic_is_retried_and_then_reviewed
    properties::a_person_settles_what_is_in_review
    properties::an_error_releases_with_its_backoff
    properties::a_terminal_error_is_replayed
    properties::a_shutdown_releases_for_others_at_once
    properties::what_is_past_its_retention_is_purged_and_new
    properties::an_old_operation_is_refused
    properties::twenty_handlers_share_the_smallest_pool
    properties::a_caller_who_leaves_leaves_no_claimed_and_unrun_key
    properties::callers_who_leave_at_once_leave_no_claimed_and_unrun_key
    properties::provider_keys_are_the_same_on_every_attempt
    steps::a_charge_is_not_repeated_when_the_mail_after_it_fails
    steps::a_panic_in_a_step_reaches_the_caller_and_is_retried
    steps::twenty_handlers_with_steps_share_the_smallest_pool
    steps::a_purged_key_knows_nothing_of_its_old_life
    steps::an_at_most_once_step_is_never_repeated_and_a_person_decides
    steps::an_at_most_once_step_that_can_ask_asks
}
