//! The list of properties, in one place.

/// One `#[test]` per [`Property`](crate::testing::sink_conformance::Property) for the sink that a
/// [`Receiver`](crate::testing::sink_conformance::Receiver) opens.
///
/// Takes an expression that is a future of a fresh [`Receiver`](crate::testing::sink_conformance::Receiver); it is
/// evaluated once for each property.
#[macro_export]
macro_rules! sink_conformance {
    ($receiver:expr $(,)?) => {
        $crate::__sink_properties! { tests ($receiver) }
    };
}

/// The list of properties. The table and the tests are both made from it, so that none can be forgotten.
#[doc(hidden)]
#[macro_export]
macro_rules! __sink_properties {
    (table () $($module:ident { $($name:ident)+ })+) => {
        /// Every property of the suite.
        pub const PROPERTIES: &[Property] = &[$($(
            Property { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) },
        )+)+];
    };
    (tests ($receiver:expr) $($module:ident { $($name:ident)+ })+) => { $($(
        #[test]
        fn $name() {
            $crate::testing::sink_conformance::check(stringify!($name), $receiver);
        }
    )+)+ };
    ($emit:ident $receiver:tt) => { $crate::__sink_properties! { $emit $receiver
        arrive {
            delivered_message_has_arrived
            message_arrives_with_its_id
            message_arrives_with_its_topic
            body_arrives_byte_for_byte
            text_of_every_language_arrives_as_it_is
            body_without_anything_in_it_arrives
            body_of_a_mebibyte_arrives_whole
            one_delivery_arrives_once
            message_delivered_again_has_the_same_id
            later_attempt_has_the_same_id
            two_messages_of_one_body_have_two_ids
        }
        fail {
            refusal_is_no_success
            refusal_for_good_is_dead
            refusal_for_now_is_tried_again
            refusal_for_now_says_when_to_come_back
            lost_answer_is_no_success
            lost_answer_is_tried_again_for_it_may_have_arrived
            receiver_that_is_not_there_is_tried_again
            silent_receiver_is_given_up_and_may_have_taken_it
            failure_says_why
            failure_is_not_tried_again_by_the_sink_itself
            message_is_delivered_after_each_failure
        }
        together {
            slow_receiver_holds_up_no_other_delivery
            slow_delivery_succeeds_once_it_is_answered
            deliveries_at_once_are_not_mixed_up
            failure_concerns_one_delivery
            dropped_delivery_is_repeated_under_its_id
            dropped_delivery_leaves_others_alone
        }
    } };
}
