//! The simulation is worth something: a fault that is planted in the store, in a handler or in its caller breaks the
//! promise that it should, within few seeds.

#![expect(clippy::print_stdout, reason = "figures for the evidence")]

use idempotent_simulation::{Plant, Promise, simulate};

/// The most seeds until a fault is seen.
const SEEDS_MAX: u64 = 3_000;

/// Simulates until `plant` breaks `promise`.
#[track_caller]
fn breaks(plant: Plant, promise: Promise) {
    for seed in 0..SEEDS_MAX {
        let violations = simulate(seed, Some(plant), false).violations;
        if let Some(violation) = violations.iter().find(|it| it.promise == promise) {
            println!("{plant:?}, {} seeds: {violation}", seed + 1);
            return;
        }
    }
    panic!("{plant:?} does not break {promise:?} in {SEEDS_MAX} seeds");
}

/// One test per planted fault and promise.
macro_rules! controls {
    ($($name:ident: $plant:ident breaks $promise:ident;)+) => { $(
        #[test]
        fn $name() {
            breaks(Plant::$plant, Promise::$promise);
        }
    )+ };
}

controls! {
    a_completion_by_anybody_changes_what_is_not_his: CompletesForAnybody breaks OneOwner;
    a_completion_by_anybody_tells_two_callers_apart: CompletesForAnybody breaks EqualAnswers;
    a_release_by_anybody_changes_what_is_not_his: ReleasesForAnybody breaks OneOwner;
    a_record_by_anybody_changes_what_is_not_his: RecordsForAnybody breaks OneOwner;
    a_record_by_anybody_is_not_what_the_body_was_given: RecordsForAnybody breaks RecordedIsFinal;
    a_claim_granted_to_two_is_a_run_beside_a_run: ClaimIsGrantedToTwo breaks NoRunBesideARun;
    a_lost_journal_repeats_what_was_recorded: JournalIsLost breaks RecordedIsNotRepeated;
    a_lost_start_repeats_what_must_not_be: StartIsLost breaks AtMostOnce;
    a_lost_message_does_not_arrive: MessageIsLost breaks MessagesArrive;
    a_lost_order_of_messages_is_seen: OrderIsLost breaks MessagesInOrder;
    a_lease_without_end_blocks_a_key: LeaseNeverEnds breaks NoKeyIsBlocked;
    a_lost_fingerprint_takes_another_payload: FingerprintIsLost breaks SamePayload;
    a_result_that_is_forgotten_is_seen: ResultIsForgotten breaks FinishedIsFinal;
    a_message_that_is_claimed_again_is_delivered_twice: MessageIsClaimedAgain breaks MessageAtMostOnce;
    a_review_without_reason_is_seen: ReviewWithoutReason breaks FittingReview;
    an_error_that_nothing_explains_is_seen: SchemaIsAnother breaks FittingErrors;
    a_record_of_what_was_not_done_is_seen: RecordWithoutEffect breaks AtLeastOnce;
    a_task_that_is_left_is_seen: TaskIsLeft breaks NothingIsLeft;
    an_effect_outside_of_a_step_happens_twice: EffectOutsideAStep breaks AtMostOnce;
    a_provider_key_of_the_attempt_charges_twice: KeyOfTheAttempt breaks ProviderOnce;
    an_effect_after_the_return_happens_twice: EffectAfterTheReturn breaks AtMostOnce;
}
