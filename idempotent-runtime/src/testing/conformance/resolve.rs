//! What a person decides about a finished execution, and about one step.

use super::bench::*;
use crate::protocol::{
    Micros, SettleTo, Settled, Settlement, State, Step, StepStart, StepState, TakenOver, Token,
    Written,
};

async fn outrun(bench: &Bench, settlement: &Settlement) {
    let answer = bench.unchanged(settlement.id, bench.settle(settlement)).await;
    assert_eq!(answer, Settled::Outrun, "{settlement:?}");
}

async fn too_early(bench: &Bench, settlement: &Settlement) {
    let answer = bench.unchanged(settlement.id, bench.settle(settlement)).await;
    let Settled::TooEarly { retry_after_ms } = answer else { panic!("{answer:?}") };
    let margin_ms = limits().margin_ms();
    assert!((margin_ms + 1..=margin_ms + 60_000).contains(&retry_after_ms), "{retry_after_ms}");
}

async fn settled(bench: &Bench, settlement: &Settlement) {
    assert_eq!(bench.settle(settlement).await, Settled::Done);
}

/// Nobody is alive any more, `now` or later.
async fn all_dead(bench: &Bench) {
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
}

/// The `n`th execution as another attempt would see it now.
async fn seen(bench: &Bench, attempt: Attempt) -> Attempt {
    attempt.with_token(bench.record(attempt.id).await.token)
}

/// Each of the requests that a person may make about a step.
fn about_the_step(attempt: Attempt) -> [Settlement; 2] {
    [attempt.happened("charge", "1"), attempt.did_not_happen("charge")]
}

async fn reopens(bench: &Bench, finished: Attempt) {
    all_dead(bench).await;
    let mut expected = bench.record(id(1)).await;
    let from = bench.now().await;
    settled(bench, &finished.settlement(SettleTo::Reopen)).await;
    let until = bench.now().await;
    let record = bench.record(id(1)).await;
    assert!(record.token > finished.token, "{record:?}");
    assert_instant(record.not_before.expect("it is due"), 0, from, until);
    expected.state = State::Retryable;
    expected.token = record.token;
    expected.generation = 1;
    expected.crashes = 0;
    expected.not_before = record.not_before;
    expected.result = None;
    expected.reason = Some("asked the bank".to_owned());
    expected.done_at = None;
    assert_eq!(record, expected);
}

pub(super) async fn reopen_of_a_completed_execution_makes_it_claimable(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let second = bench.succeed(&lapsed.taken_over_by(2)).await;
    assert_eq!(bench.complete(&second.completion("1")).await, Written::Done);
    reopens(bench, second).await;
}

pub(super) async fn reopen_of_a_failed_execution_makes_it_claimable(bench: &Bench) {
    let failed = bench.failed(1).await;
    reopens(bench, failed).await;
}

pub(super) async fn reopen_is_taken_over_in_the_next_generation(bench: &Bench) {
    let mut attempt = bench.completed(1).await;
    for generation in 1..=3 {
        all_dead(bench).await;
        settled(bench, &attempt.settlement(SettleTo::Reopen)).await;
        let request = seen(bench, attempt).await.taken_over_by(2);
        let granted = granted(bench.take_over(&request).await);
        assert_eq!(granted.generation, generation);
        attempt = Attempt { token: granted.token, owner: owner(2), ..attempt };
        assert_eq!(bench.complete(&attempt.completion("2")).await, Written::Done);
        let record = bench.record(id(1)).await;
        assert_eq!((record.generation, record.result), (generation, Some(json("2"))));
    }
}

pub(super) async fn reopen_keeps_the_journal(bench: &Bench) {
    let running = bench.running(1).await;
    bench.recorded(&running.record("reserve", "1")).await;
    bench.started(&running.blind_start("charge")).await;
    assert_eq!(bench.complete(&running.completion("1")).await, Written::Done);
    all_dead(bench).await;
    let before = bench.counted(id(1)).await;
    settled(bench, &running.settlement(SettleTo::Reopen)).await;
    assert_eq!(bench.counted(id(1)).await, before);
    let request = seen(bench, running).await.taken_over_by(2);
    let taken = bench.take_over(&request).await;
    let TakenOver::Granted { journal, .. } = taken else { panic!("{taken:?}") };
    assert_eq!(journal, before);
}

pub(super) async fn reopen_while_an_attempt_may_be_alive_is_too_early(bench: &Bench) {
    let completed = bench.completed(1).await;
    bench.age_s(MAX_RUNTIME_S - 60).await;
    too_early(bench, &completed.settlement(SettleTo::Reopen)).await;
}

pub(super) async fn reopen_waits_a_margin_beyond_max_runtime(bench: &Bench) {
    let failed = bench.failed(1).await;
    bench.age_s(MAX_RUNTIME_S + limits().margin_ms() / 1_000 - 30).await;
    let request = failed.settlement(SettleTo::Reopen);
    let answer = bench.unchanged(id(1), bench.settle(&request)).await;
    assert!(matches!(answer, Settled::TooEarly { .. }), "{answer:?}");
    bench.age_s(60).await;
    settled(bench, &request).await;
}

pub(super) async fn reopen_on_another_token_is_outrun(bench: &Bench) {
    let completed = bench.completed(1).await;
    for age_s in [0, MAX_RUNTIME_S + LEASE_S] {
        bench.age_s(age_s).await;
        for wrong in [completed.token.0 - 1, completed.token.0 + 1] {
            let stranger = completed.with_token(Token(wrong));
            outrun(bench, &stranger.settlement(SettleTo::Reopen)).await;
        }
    }
}

pub(super) async fn reopen_of_what_is_not_finished_is_outrun(bench: &Bench) {
    let absent = Attempt { id: id(4), owner: owner(1), token: Token(1) };
    let attempts = [
        bench.running(1).await,
        bench.retryable(2).await,
        bench.reviewed_with(3, &["charge"]).await,
        absent,
    ];
    for attempt in attempts {
        outrun(bench, &attempt.settlement(SettleTo::Reopen)).await;
    }
}

pub(super) async fn reopen_sent_twice_is_stored_once(bench: &Bench) {
    let completed = bench.completed(1).await;
    all_dead(bench).await;
    let reopen = completed.settlement(SettleTo::Reopen);
    settled(bench, &reopen).await;
    outrun(bench, &reopen).await;
}

pub(super) async fn retry_of_a_finished_execution_is_outrun(bench: &Bench) {
    let completed = bench.completed(1).await;
    all_dead(bench).await;
    outrun(bench, &completed.settlement(SettleTo::Retry)).await;
    for request in about_the_step(completed) {
        outrun(bench, &request).await;
    }
}

pub(super) async fn retry_raises_no_generation(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    settled(bench, &in_review.settlement(SettleTo::Retry)).await;
    let request = seen(bench, in_review).await.taken_over_by(2);
    assert_eq!(granted(bench.take_over(&request).await).generation, 0);
}

pub(super) async fn step_that_happened_is_recorded(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    let before = bench.only_step(id(1)).await;
    let from = bench.now().await;
    settled(bench, &in_review.happened("charge", "\"ch_1\"")).await;
    let until = bench.now().await;
    let entry = bench.only_step(id(1)).await;
    assert_instant(entry.done_at.expect("it is recorded"), 0, from, until);
    let expected = Step {
        state: StepState::Recorded,
        value: Some(b"\"ch_1\"".to_vec()),
        done_at: entry.done_at,
        ..before
    };
    assert_eq!(entry, expected);
}

pub(super) async fn step_that_did_not_happen_is_cleared_for_the_next_generation(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    let before = bench.only_step(id(1)).await;
    settled(bench, &in_review.did_not_happen("charge")).await;
    let expected = Step { state: StepState::Cleared, generation: 1, ..before };
    assert_eq!(bench.only_step(id(1)).await, expected);
}

pub(super) async fn last_open_step_that_is_settled_makes_it_claimable(bench: &Bench) {
    for (n, name) in [(1, "charge"), (2, "refund")] {
        let in_review = bench.reviewed_with(n, &[name]).await;
        let mut expected = bench.record(id(n)).await;
        let request = match n {
            1 => in_review.happened(name, "1"),
            _ => in_review.did_not_happen(name),
        };
        let from = bench.now().await;
        settled(bench, &request).await;
        let until = bench.now().await;
        bench.counted(id(n)).await;
        let record = bench.record(id(n)).await;
        assert!(record.token > in_review.token, "{record:?}");
        assert_instant(record.not_before.expect("it is due"), 0, from, until);
        expected.state = State::Retryable;
        expected.token = record.token;
        expected.not_before = record.not_before;
        expected.reason = Some("asked the bank".to_owned());
        (expected.open_steps, expected.blind_steps) = (0, 0);
        assert_eq!(record, expected);
    }
}

pub(super) async fn last_open_step_that_is_settled_forgives_the_crashes(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.blind_start("charge")).await;
    bench.age_s(LEASE_S + 60).await;
    bench.store().reap(None, None, 10).await.expect("reap");
    all_dead(bench).await;
    assert_eq!(bench.record(id(1)).await.crashes, 1);
    settled(bench, &running.did_not_happen("charge")).await;
    assert_eq!(bench.record(id(1)).await.crashes, 0);
}

pub(super) async fn settled_step_beside_an_open_one_stays_in_review(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.blind_start("charge")).await;
    bench.started(&running.start("refund")).await;
    bench.age_s(LEASE_S + 60).await;
    bench.store().reap(None, None, 10).await.expect("reap");
    all_dead(bench).await;
    let mut expected = bench.record(id(1)).await;
    settled(bench, &running.happened("charge", "1")).await;
    bench.counted(id(1)).await;
    let record = bench.record(id(1)).await;
    assert!(record.token > running.token, "{record:?}");
    expected.token = record.token;
    expected.reason = Some("asked the bank".to_owned());
    (expected.open_steps, expected.blind_steps) = (1, 0);
    assert_eq!(record, expected);
    assert_eq!((record.state, record.crashes), (State::Review, 1));
    settled(bench, &seen(bench, running).await.did_not_happen("refund")).await;
    bench.counted(id(1)).await;
    assert_eq!(bench.record(id(1)).await.state, State::Retryable);
}

pub(super) async fn settled_step_while_an_attempt_may_be_alive_is_too_early(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.blind_start("charge")).await;
    assert_eq!(bench.release(&running.retry()).await, Written::Done);
    bench.age_s(MAX_RUNTIME_S - 60).await;
    for request in about_the_step(running) {
        too_early(bench, &request).await;
    }
    too_early(bench, &running.happened("unknown", "1")).await;
}

pub(super) async fn settled_step_without_an_entry_is_no_such_step(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    let mut other_part = in_review.happened("charge", "1");
    if let SettleTo::Step { name, .. } = &mut other_part.to {
        *name = part("charge", "1");
    }
    for request in
        [in_review.happened("refund", "1"), in_review.did_not_happen("Charge"), other_part]
    {
        let answer = bench.unchanged(id(1), bench.settle(&request)).await;
        assert_eq!(answer, Settled::NoSuchStep);
    }
}

pub(super) async fn settled_step_on_another_token_is_outrun(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    for wrong in [in_review.token.0 - 1, in_review.token.0 + 1] {
        for request in about_the_step(in_review.with_token(Token(wrong))) {
            outrun(bench, &request).await;
        }
    }
}

pub(super) async fn settled_step_of_what_is_not_in_review_is_outrun(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.start("charge")).await;
    let retryable = bench.running(2).await;
    bench.started(&retryable.start("charge")).await;
    assert_eq!(bench.release(&retryable.retry()).await, Written::Done);
    all_dead(bench).await;
    let absent = Attempt { id: id(3), owner: owner(3), token: Token(1) };
    for attempt in [running, retryable, absent] {
        for request in about_the_step(attempt) {
            outrun(bench, &request).await;
        }
    }
}

pub(super) async fn settled_step_sent_twice_is_stored_once(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge", "refund"]).await;
    let request = in_review.happened("charge", "1");
    settled(bench, &request).await;
    outrun(bench, &request).await;
    outrun(bench, &in_review.did_not_happen("charge")).await;
}

pub(super) async fn recorded_step_is_corrected_by_a_person(bench: &Bench) {
    let running = bench.running(1).await;
    bench.recorded(&running.record("charge", "1")).await;
    bench.started(&running.blind_start("refund")).await;
    assert_eq!(bench.release(&running.retry()).await, Written::Done);
    all_dead(bench).await;
    settled(bench, &running.happened("charge", "2")).await;
    let journal = bench.counted(id(1)).await;
    assert_eq!(journal[0].value, Some(b"2".to_vec()));
    settled(bench, &seen(bench, running).await.did_not_happen("charge")).await;
    let journal = bench.counted(id(1)).await;
    assert_eq!((journal[0].state, journal[0].generation), (StepState::Cleared, 1));
    assert_eq!((journal[0].value.clone(), journal[0].done_at), (None, None::<Micros>));
}

pub(super) async fn successor_goes_on_with_what_a_person_found_out(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge", "refund"]).await;
    settled(bench, &in_review.happened("charge", "\"ch_1\"")).await;
    settled(bench, &seen(bench, in_review).await.did_not_happen("refund")).await;
    let request = seen(bench, in_review).await.taken_over_by(2);
    let taken = bench.take_over(&request).await;
    let TakenOver::Granted { granted, journal, .. } = taken else { panic!("{taken:?}") };
    assert_eq!(journal, bench.counted(id(1)).await);
    let second = Attempt { token: granted.token, owner: owner(2), ..in_review };
    let generation = journal[1].generation;
    let seen = Some(owner(1));
    bench.started(&StepStart { generation, seen, ..second.blind_start("refund") }).await;
    bench.counted(id(1)).await;
    bench.recorded(&second.record("refund", "1")).await;
    bench.counted(id(1)).await;
    assert_eq!(bench.complete(&second.completion("1")).await, Written::Done);
}

pub(super) async fn settled_steps_of_one_execution_in_a_batch_are_stored_once(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge", "refund"]).await;
    let batch = [in_review.happened("charge", "1"), in_review.happened("refund", "1")];
    let answers = bench.store().settle(&batch).await.expect("settle");
    let one = [Settled::Done, Settled::Outrun];
    assert!(answers == one || answers == [one[1], one[0]], "{answers:?}");
    let journal = bench.counted(id(1)).await;
    assert_eq!(journal.iter().filter(|step| step.is_recorded()).count(), 1);
}

pub(super) async fn settled_steps_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    let (third, first) =
        (bench.reviewed_with(3, &["charge"]).await, bench.reviewed_with(1, &["charge"]).await);
    let completed = bench.completed(2).await;
    bench.age_s(MAX_RUNTIME_S - 60).await;
    let batch = [
        third.happened("charge", "3"),
        first.happened("refund", "1"),
        completed.settlement(SettleTo::Reopen),
        first.did_not_happen("charge"),
    ];
    let answers = bench.store().settle(&batch).await.expect("settle");
    match answers[..] {
        [Settled::Done, Settled::NoSuchStep, Settled::TooEarly { .. }, Settled::Done] => {}
        _ => panic!("{answers:?}"),
    }
    assert_eq!(bench.only_step(id(3)).await.state, StepState::Recorded);
    assert_eq!(bench.only_step(id(1)).await.state, StepState::Cleared);
}

pub(super) async fn settled_step_and_retry_at_once_have_one_winner(bench: &Bench) {
    let stores = [bench.clone(), bench.another().await];
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    let answers = bench
        .at_once(10, |_, n| {
            let bench = stores[usize::from(n % 2)].clone();
            let request = match n % 3 {
                0 => in_review.happened("charge", "1"),
                1 => in_review.did_not_happen("charge"),
                _ => in_review.settlement(SettleTo::Retry),
            };
            async move { bench.settle(&request).await }
        })
        .await;
    let done = answers.iter().filter(|answer| **answer == Settled::Done).count();
    let late = answers.iter().filter(|answer| **answer == Settled::Outrun).count();
    assert_eq!((done, late), (1, 9), "{answers:?}");
    bench.counted(id(1)).await;
}
