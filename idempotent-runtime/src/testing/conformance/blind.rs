//! Attempts that end within a step: one that may be repeated is, one that may not is for a person.

use super::bench::*;
use crate::protocol::{
    REASON_ABANDONED, REASON_BLIND, REASON_CRASHES, ReleaseTo, SettleTo, Settled, State, StepStart,
    TakenOver, Token, Written,
};
use crate::store::Purged;

/// Running, with one step started that must not be repeated.
async fn blind(bench: &Bench, n: u16) -> Attempt {
    let running = bench.running(n).await;
    bench.started(&running.blind_start("charge")).await;
    running
}

/// Running, with every kind of step but that one: recorded, open and repeatable, open and asking.
async fn seeing(bench: &Bench, n: u16) -> Attempt {
    let running = bench.running(n).await;
    bench.started(&running.blind_start("a")).await;
    bench.recorded(&running.record("a", "1")).await;
    bench.started(&running.start("b")).await;
    bench.started(&StepStart { reconciles: true, ..running.blind_start("c") }).await;
    running
}

/// The first execution, which was `before`, must have gone to review for its blind step.
async fn reviewed(bench: &Bench, before: crate::protocol::Record, crashes: u32) {
    let mut expected = before;
    expected.state = State::Review;
    expected.crashes = crashes;
    expected.reason = Some(REASON_BLIND.to_owned());
    assert_eq!(bench.record(id(1)).await, expected);
    bench.counted(id(1)).await;
}

pub(super) async fn take_over_of_a_lapsed_blind_step_goes_to_review(bench: &Bench) {
    let lapsed = blind(bench, 1).await;
    bench.age_s(LEASE_S + 60).await;
    let before = bench.record(id(1)).await;
    assert_eq!(bench.take_over(&lapsed.taken_over_by(2)).await, TakenOver::Reviewed);
    reviewed(bench, before, 1).await;
}

pub(super) async fn take_over_to_review_of_a_blind_step_keeps_its_reason(bench: &Bench) {
    let lapsed = blind(bench, 1).await;
    bench.age_s(LEASE_S + 60).await;
    assert_eq!(bench.take_over(&lapsed.sent_to_review_by(2)).await, TakenOver::Reviewed);
    let record = bench.record(id(1)).await;
    assert_eq!((record.crashes, record.reason.as_deref()), (1, Some(REASON_CRASHES)));
}

pub(super) async fn take_over_of_a_blind_step_within_the_lease_is_outrun(bench: &Bench) {
    let running = blind(bench, 1).await;
    let answer = bench.unchanged(id(1), bench.take_over(&running.taken_over_by(2))).await;
    assert_eq!(answer, TakenOver::Outrun);
}

pub(super) async fn take_over_of_a_blind_step_on_another_token_is_outrun(bench: &Bench) {
    let lapsed = blind(bench, 1).await;
    bench.age_s(LEASE_S + 60).await;
    for wrong in [lapsed.token.0 - 1, lapsed.token.0 + 1] {
        let request = lapsed.with_token(Token(wrong)).taken_over_by(2);
        let answer = bench.unchanged(id(1), bench.take_over(&request)).await;
        assert_eq!(answer, TakenOver::Outrun);
    }
}

pub(super) async fn take_over_of_a_blind_step_in_review_is_outrun(bench: &Bench) {
    let attempt = blind(bench, 1).await;
    assert_eq!(bench.release(&attempt.release(ReleaseTo::Review)).await, Written::Done);
    bench.age_s(LEASE_S + 60).await;
    for request in [attempt.taken_over_by(2), attempt.sent_to_review_by(2)] {
        let answer = bench.unchanged(id(1), bench.take_over(&request)).await;
        assert_eq!(answer, TakenOver::Outrun);
    }
}

pub(super) async fn take_over_by_the_owner_that_runs_a_blind_step_is_its_own(bench: &Bench) {
    let lapsed = blind(bench, 1).await;
    bench.age_s(LEASE_S + 60).await;
    let answer = bench.unchanged(id(1), bench.take_over(&lapsed.taken_over_by(1))).await;
    let TakenOver::Granted { granted, journal, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((granted.token, granted.attempts), (lapsed.token, 1));
    assert_eq!(journal, bench.counted(id(1)).await);
}

pub(super) async fn take_over_of_steps_that_may_be_repeated_is_granted(bench: &Bench) {
    let lapsed = seeing(bench, 1).await;
    bench.age_s(LEASE_S + 60).await;
    bench.succeed(&lapsed.taken_over_by(2)).await;
    bench.counted(id(1)).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.open_steps, record.blind_steps, record.crashes), (2, 0, 1));
}

pub(super) async fn take_over_of_a_blind_step_that_a_person_sent_to_retry_is_granted(
    bench: &Bench,
) {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    assert_eq!(bench.settle(&in_review.settlement(SettleTo::Retry)).await, Settled::Done);
    let settled = in_review.with_token(bench.record(id(1)).await.token);
    bench.succeed(&settled.taken_over_by(2)).await;
    bench.counted(id(1)).await;
    assert_eq!(bench.record(id(1)).await.blind_steps, 1);
}

pub(super) async fn release_to_retry_of_a_blind_step_goes_to_review(bench: &Bench) {
    let running = blind(bench, 1).await;
    let before = bench.record(id(1)).await;
    let release = running.release(ReleaseTo::Retry { delay_ms: 60_000 });
    assert_eq!(bench.release(&release).await, Written::Done);
    reviewed(bench, before, 0).await;
    assert_eq!(bench.unchanged(id(1), bench.release(&release)).await, Written::Done);
}

pub(super) async fn release_of_a_crash_in_a_blind_step_goes_to_review(bench: &Bench) {
    let running = blind(bench, 1).await;
    let before = bench.record(id(1)).await;
    let release = running.release(ReleaseTo::Crash);
    assert_eq!(bench.release(&release).await, Written::Done);
    reviewed(bench, before, 1).await;
    assert_eq!(bench.unchanged(id(1), bench.release(&release)).await, Written::Done);
}

pub(super) async fn release_of_steps_that_may_be_repeated_is_retryable(bench: &Bench) {
    for (n, to) in [(1, ReleaseTo::Retry { delay_ms: 0 }), (2, ReleaseTo::Crash)] {
        let running = seeing(bench, n).await;
        assert_eq!(bench.release(&running.release(to)).await, Written::Done);
        bench.counted(id(n)).await;
        let record = bench.record(id(n)).await;
        assert_eq!((record.state, record.open_steps), (State::Retryable, 2));
        assert_eq!(record.reason.as_deref(), Some("the bank was closed"));
    }
}

pub(super) async fn release_of_a_blind_step_by_another_owner_is_fenced(bench: &Bench) {
    let running = blind(bench, 1).await;
    for to in [ReleaseTo::Retry { delay_ms: 0 }, ReleaseTo::Crash, ReleaseTo::Review] {
        let release = running.with_owner(owner(2)).release(to);
        assert_eq!(bench.unchanged(id(1), bench.release(&release)).await, Written::Fenced);
    }
}

pub(super) async fn release_to_review_of_its_own_retryable_execution_reviews_it(bench: &Bench) {
    let delayed = bench.released(1, ReleaseTo::Retry { delay_ms: 60_000 }).await;
    let mut expected = bench.record(id(1)).await;
    let mut review = delayed.release(ReleaseTo::Review);
    review.reason = "it may have happened".to_owned();
    assert_eq!(bench.release(&review).await, Written::Done);
    expected.state = State::Review;
    expected.not_before = None;
    expected.reason = Some(review.reason.clone());
    assert_eq!(bench.record(id(1)).await, expected);
    assert_eq!(bench.unchanged(id(1), bench.release(&review)).await, Written::Done);
}

pub(super) async fn release_to_review_of_its_own_reaped_execution_reviews_it(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    bench.store().reap(None, None, 10).await.expect("reap");
    let review = lapsed.release(ReleaseTo::Review);
    assert_eq!(bench.release(&review).await, Written::Done);
    let record = bench.record(id(1)).await;
    assert_eq!((record.state, record.crashes), (State::Review, 1));
    assert_eq!(record.reason, Some(review.reason));
}

pub(super) async fn release_to_review_of_anothers_retryable_execution_is_fenced(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    let strangers =
        [retryable.with_owner(owner(2)), retryable.with_token(Token(retryable.token.0 + 1))];
    for stranger in strangers {
        let review = stranger.release(ReleaseTo::Review);
        assert_eq!(bench.unchanged(id(1), bench.release(&review)).await, Written::Fenced);
    }
}

pub(super) async fn reap_of_a_blind_step_goes_to_review(bench: &Bench) {
    blind(bench, 1).await;
    bench.age_s(LEASE_S + 60).await;
    let before = bench.record(id(1)).await;
    let reaped = bench.store().reap(None, None, 10).await.expect("reap");
    assert_eq!(reaped.lapsed, [(id(1), "charge".to_owned(), State::Review)]);
    reviewed(bench, before, 1).await;
}

pub(super) async fn reap_of_steps_that_may_be_repeated_is_retryable(bench: &Bench) {
    seeing(bench, 1).await;
    bench.age_s(LEASE_S + 60).await;
    let reaped = bench.store().reap(None, None, 10).await.expect("reap");
    assert_eq!(reaped.lapsed, [(id(1), "charge".to_owned(), State::Retryable)]);
    bench.counted(id(1)).await;
    assert_eq!(bench.record(id(1)).await.open_steps, 2);
}

pub(super) async fn purge_sends_an_abandoned_execution_to_review(bench: &Bench) {
    let running = seeing(bench, 1).await;
    let release = running.release(ReleaseTo::Retry { delay_ms: 60_000 });
    assert_eq!(bench.release(&release).await, Written::Done);
    bench.age_s(LEASE_S + RETAIN_S + 60).await;
    let (mut expected, journal) = (bench.record(id(1)).await, bench.counted(id(1)).await);
    let purged = bench.store().purge(None, 10).await.expect("purge");
    assert_eq!(purged, Purged { reviewed: 1, ..Purged::default() });
    expected.state = State::Review;
    expected.not_before = None;
    expected.reason = Some(REASON_ABANDONED.to_owned());
    assert_eq!(bench.record(id(1)).await, expected);
    assert_eq!(bench.counted(id(1)).await, journal);
    let again = bench.unchanged(id(1), bench.store().purge(None, 10)).await.expect("purge");
    assert_eq!(again, Purged::default());
}

pub(super) async fn purge_spares_an_open_step_within_lease_and_retain(bench: &Bench) {
    let running = seeing(bench, 1).await;
    assert_eq!(bench.release(&running.retry()).await, Written::Done);
    bench.age_s(LEASE_S + RETAIN_S - 60).await;
    let purged = bench.unchanged(id(1), bench.store().purge(None, 10)).await.expect("purge");
    assert_eq!(purged, Purged::default());
}

pub(super) async fn purge_deletes_a_retryable_execution_whose_steps_are_recorded(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.blind_start("charge")).await;
    bench.recorded(&running.record("charge", "1")).await;
    assert_eq!(bench.release(&running.retry()).await, Written::Done);
    bench.age_s(LEASE_S + RETAIN_S + 60).await;
    let purged = bench.store().purge(None, 10).await.expect("purge");
    assert_eq!(purged, Purged { deleted: 1, ..Purged::default() });
    assert_eq!((bench.read(id(1)).await, bench.journal(id(1)).await), (None, Vec::new()));
}

pub(super) async fn purge_deletes_a_finished_execution_with_an_open_step(bench: &Bench) {
    let running = seeing(bench, 1).await;
    assert_eq!(bench.complete(&running.completion("1")).await, Written::Done);
    bench.age_s(RETAIN_S + 60).await;
    let purged = bench.store().purge(None, 10).await.expect("purge");
    assert_eq!(purged, Purged { deleted: 1, ..Purged::default() });
    assert_eq!((bench.read(id(1)).await, bench.journal(id(1)).await), (None, Vec::new()));
}

pub(super) async fn purge_deletes_and_reviews_in_one_page(bench: &Bench) {
    for n in 1..=6 {
        let running = if n % 2 == 0 { seeing(bench, n).await } else { bench.running(n).await };
        assert_eq!(bench.release(&running.retry()).await, Written::Done);
    }
    bench.age_s(LEASE_S + RETAIN_S + 60).await;
    let purged = bench.store().purge(None, 10).await.expect("purge");
    assert_eq!((purged.deleted, purged.reviewed, purged.next), (3, 3, None));
    for n in 1..=6 {
        let state = bench.read(id(n)).await.map(|found| found.record.state);
        assert_eq!(state, (n % 2 == 0).then_some(State::Review));
    }
}
