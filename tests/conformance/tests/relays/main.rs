//! Handlers that send and relays that deliver, on every store: what a user relies on, one fact a test.
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

#[path = "../handlers/place.rs"]
mod place;
mod properties;
mod sinks;

/// Runs every property on every store that is built in.
macro_rules! on_every_store {
    ($($property:ident)*) => {
        mod memory {
            use crate::place::{Place, in_time};

            $(#[tokio::test] async fn $property() {
                in_time(crate::properties::$property(Place::memory())).await;
            })*
        }

        #[cfg(feature = "sqlite")]
        mod sqlite {
            use crate::place::{Place, in_time};

            $(#[tokio::test] async fn $property() {
                in_time(crate::properties::$property(Place::sqlite())).await;
            })*
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            use crate::place::{Place, in_time};

            $(#[tokio::test] async fn $property() {
                in_time(crate::properties::$property(Place::postgres())).await;
            })*
        }
    };
}

on_every_store! {
    two_thousand_messages_arrive_once_each_with_one_relay
    two_thousand_messages_arrive_once_each_with_two_relays
    two_thousand_messages_arrive_once_each_with_three_relays
    two_thousand_messages_arrive_once_each_with_four_relays
    messages_of_a_key_arrive_in_the_order_of_their_completions
    messages_go_out_only_with_a_completion
    a_slow_sink_holds_up_no_other_topic
    a_delivery_longer_than_its_lease_keeps_it
    what_a_dropped_relay_had_in_hand_is_delivered_under_the_same_id
    what_was_delivered_at_most_once_by_a_dropped_relay_goes_to_review
    what_was_delivered_by_a_dropped_relay_is_asked_about
    a_relay_that_stops_finishes_what_it_began
    a_relay_that_stops_gives_back_what_takes_too_long
    a_dead_message_is_listed_retried_and_counted
    an_execution_with_an_undelivered_message_is_not_purged
}

#[cfg(feature = "postgres")]
mod told {
    use crate::place::{Place, in_time};
    use crate::properties::a_relay_is_woken_before_it_looks;

    /// The relay looks once an hour, so what arrives arrives because it was told.
    #[tokio::test]
    async fn postgres_wakes_a_relay_before_it_looks() {
        in_time(a_relay_is_woken_before_it_looks(Place::postgres())).await;
    }

    #[tokio::test]
    async fn memory_wakes_a_relay_before_it_looks() {
        in_time(a_relay_is_woken_before_it_looks(Place::memory())).await;
    }
}
