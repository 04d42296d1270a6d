//! Starts: a step is about to begin, noted once, by the attempt that owns the execution.

use super::bench::*;
use crate::protocol::{
    Limits, Settled, Step, StepClass, StepStart, StepStarted, StepState, TakeOver, Token, Written,
};

/// The start must be refused, and write nothing.
async fn fenced(bench: &Bench, start: &StepStart) {
    let answer = bench.unchanged(start.id, bench.start(start)).await;
    assert_eq!(answer, StepStarted::Fenced);
}

/// The start must find the only entry as it is, and write nothing.
async fn finds(bench: &Bench, start: &StepStart) {
    let entry = bench.only_step(start.id).await;
    let answer = bench.unchanged(start.id, bench.start(start)).await;
    assert_eq!(answer, StepStarted::Found(Box::new(entry)));
}

/// The attempt after one whose only step was found not to have happened.
async fn cleared(bench: &Bench) -> Attempt {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    assert_eq!(bench.settle(&in_review.did_not_happen("charge")).await, Settled::Done);
    let settled = in_review.with_token(bench.record(id(1)).await.token);
    bench.succeed(&settled.taken_over_by(2)).await
}

/// From when on the only attempt of the first execution cannot act any more.
async fn dead_at(bench: &Bench) -> crate::protocol::Micros {
    let alive_ms = MAX_RUNTIME_S * 1_000 + limits().margin_ms();
    bench.record(id(1)).await.attempt_started_at.plus_ms(alive_ms)
}

/// The start by an attempt that saw the entry of the first owner.
fn seeing(start: StepStart) -> StepStart {
    StepStart { seen: Some(owner(1)), ..start }
}

pub(super) async fn start_notes_the_step_as_started(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(60).await;
    let from = bench.now().await;
    let answer = bench.start(&running.start("charge")).await;
    let until = bench.now().await;
    let StepStarted::Started { started_at, now } = answer else { panic!("{answer:?}") };
    assert_instant(started_at, 0, from, until);
    assert_instant(now, 0, from, until);
    let expected = Step {
        name: step("charge"),
        class: StepClass::ProviderWindow,
        reconciles: false,
        state: StepState::Started,
        generation: 0,
        version: 3,
        owner: owner(1),
        started_at,
        alive_until: dead_at(bench).await,
        value: None,
        done_at: None,
    };
    assert_eq!(bench.only_step(id(1)).await, expected);
}

pub(super) async fn start_counts_an_open_step_and_changes_nothing_else(bench: &Bench) {
    let running = bench.running(1).await;
    let mut expected = bench.record(id(1)).await;
    bench.started(&running.start("charge")).await;
    expected.open_steps = 1;
    assert_eq!(bench.record(id(1)).await, expected);
}

pub(super) async fn start_of_a_step_that_must_not_be_repeated_is_blind(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.blind_start("charge")).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.open_steps, record.blind_steps), (1, 1));
}

pub(super) async fn start_of_a_step_that_asks_is_not_blind(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&StepStart { reconciles: true, ..running.blind_start("charge") }).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.open_steps, record.blind_steps), (1, 0));
    assert!(bench.only_step(id(1)).await.reconciles);
}

pub(super) async fn start_keeps_the_class_of_each_step(bench: &Bench) {
    let running = bench.running(1).await;
    let classes = [
        StepClass::Transaction,
        StepClass::ProviderWindow,
        StepClass::Plain,
        StepClass::AtMostOnce,
    ];
    for (name, class) in ["a", "b", "c", "d"].iter().zip(classes) {
        bench.started(&StepStart { class, ..running.start(name) }).await;
    }
    let stored: Vec<_> = bench.counted(id(1)).await.iter().map(|step| step.class).collect();
    assert_eq!(stored, classes);
    let record = bench.record(id(1)).await;
    assert_eq!((record.open_steps, record.blind_steps), (4, 1));
}

pub(super) async fn start_keeps_the_generation_that_it_is_given(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&StepStart { generation: u32::MAX, ..running.start("charge") }).await;
    assert_eq!(bench.only_step(id(1)).await.generation, u32::MAX);
}

pub(super) async fn start_sent_twice_is_started_both_times(bench: &Bench) {
    let running = bench.running(1).await;
    let start = running.start("charge");
    bench.started(&start).await;
    bench.age_s(60).await;
    let entry = bench.only_step(id(1)).await;
    let again = bench.unchanged(id(1), bench.start(&start)).await;
    let StepStarted::Started { started_at, now } = again else { panic!("{again:?}") };
    assert_eq!(started_at, entry.started_at);
    assert!(now >= started_at.plus_ms(60_000), "{again:?}");
}

pub(super) async fn start_of_a_lapsed_lease_that_nobody_took_is_started(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    bench.started(&lapsed.start("charge")).await;
    assert_eq!(bench.only_step(id(1)).await.owner, owner(1));
}

pub(super) async fn start_with_another_owner_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    fenced(bench, &running.with_owner(owner(2)).start("charge")).await;
}

pub(super) async fn start_with_another_token_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    for wrong in [running.token.0 - 1, running.token.0 + 1] {
        fenced(bench, &running.with_token(Token(wrong)).start("charge")).await;
    }
}

pub(super) async fn start_of_an_absent_execution_is_fenced(bench: &Bench) {
    let nobody = Attempt { id: id(1), owner: owner(1), token: Token(1) };
    fenced(bench, &nobody.start("charge")).await;
    assert_eq!(bench.journal(id(1)).await, []);
}

pub(super) async fn start_of_a_retryable_execution_is_fenced(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    fenced(bench, &retryable.start("charge")).await;
}

pub(super) async fn start_of_a_finished_execution_is_fenced(bench: &Bench) {
    let (completed, failed) = (bench.completed(1).await, bench.failed(2).await);
    fenced(bench, &completed.start("charge")).await;
    fenced(bench, &failed.start("charge")).await;
}

pub(super) async fn start_of_an_execution_in_review_is_fenced(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    fenced(bench, &in_review.start("charge")).await;
}

pub(super) async fn start_of_a_reaped_execution_is_fenced(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    bench.store().reap(None, None, 10).await.expect("reap");
    fenced(bench, &lapsed.start("charge")).await;
}

pub(super) async fn start_by_a_zombie_is_fenced_though_it_had_started_it(bench: &Bench) {
    let zombie = bench.running(1).await;
    bench.started(&zombie.start("charge")).await;
    bench.age_s(LEASE_S + 60).await;
    bench.succeed(&zombie.taken_over_by(2)).await;
    fenced(bench, &zombie.start("charge")).await;
    fenced(bench, &zombie.start("refund")).await;
}

pub(super) async fn start_by_the_successor_keeps_when_it_was_first_started(bench: &Bench) {
    let first = bench.running(1).await;
    bench.started(&first.start("charge")).await;
    bench.age_s(LEASE_S + 60).await;
    let before = bench.only_step(id(1)).await;
    let second = bench.succeed(&first.taken_over_by(2)).await;
    let answer = bench.start(&seeing(StepStart { version: 4, ..second.start("charge") })).await;
    let StepStarted::Started { started_at, now } = answer else { panic!("{answer:?}") };
    assert_eq!(started_at, before.started_at);
    assert!(now >= started_at.plus_ms((LEASE_S + 60) * 1_000), "{answer:?}");
    let alive_until = dead_at(bench).await;
    assert!(alive_until > before.alive_until, "{before:?}");
    let expected = Step { owner: owner(2), version: 4, alive_until, ..before };
    assert_eq!(bench.only_step(id(1)).await, expected);
}

pub(super) async fn start_by_the_successor_goes_by_what_the_step_is_now(bench: &Bench) {
    let first = bench.running(1).await;
    bench.started(&StepStart { reconciles: true, ..first.blind_start("charge") }).await;
    bench.started(&first.start("refund")).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    let second = bench.succeed(&first.taken_over_by(2)).await;
    for (name, blind_steps) in [("charge", 1), ("refund", 2)] {
        bench.started(&seeing(second.blind_start(name))).await;
        bench.counted(id(1)).await;
        let record = bench.record(id(1)).await;
        assert_eq!((record.open_steps, record.blind_steps), (2, blind_steps));
    }
}

pub(super) async fn start_by_the_successor_lives_as_long_as_any_attempt_that_started_it(
    bench: &Bench,
) {
    let first = bench.running(1).await;
    bench.started(&first.start("charge")).await;
    let before = bench.only_step(id(1)).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    let limits = Limits { lease_ms: 60_000, max_runtime_ms: 120_000, ..limits() };
    let second = bench.succeed(&TakeOver { limits, ..first.taken_over_by(2) }).await;
    bench.started(&seeing(second.start("charge"))).await;
    assert_eq!(bench.only_step(id(1)).await.alive_until, before.alive_until);
}

pub(super) async fn start_over_an_entry_that_was_not_seen_finds_it(bench: &Bench) {
    let first = bench.running(1).await;
    bench.started(&first.start("charge")).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    let second = bench.succeed(&first.taken_over_by(2)).await;
    finds(bench, &second.start("charge")).await;
    finds(bench, &StepStart { generation: 1, ..second.start("charge") }).await;
}

pub(super) async fn start_over_the_entry_of_another_than_was_seen_finds_it(bench: &Bench) {
    let second = cleared(bench).await;
    let start = StepStart { generation: 1, ..second.blind_start("charge") };
    finds(bench, &start).await;
    finds(bench, &StepStart { seen: Some(owner(2)), ..start }).await;
}

pub(super) async fn start_that_went_on_with_an_entry_and_is_sent_twice_is_started_both_times(
    bench: &Bench,
) {
    let first = bench.running(1).await;
    bench.started(&first.start("charge")).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    let second = bench.succeed(&first.taken_over_by(2)).await;
    let start = seeing(second.start("charge"));
    bench.started(&start).await;
    let again = bench.unchanged(id(1), bench.start(&start)).await;
    assert!(matches!(again, StepStarted::Started { .. }), "{again:?}");
}

pub(super) async fn start_of_the_next_generation_begins_anew(bench: &Bench) {
    let first = bench.running(1).await;
    bench.started(&first.start("charge")).await;
    bench.age_s(LEASE_S + 60).await;
    let second = bench.succeed(&first.taken_over_by(2)).await;
    let from = bench.now().await;
    bench.started(&seeing(StepStart { generation: 1, ..second.start("charge") })).await;
    let until = bench.now().await;
    let entry = bench.only_step(id(1)).await;
    assert_eq!((entry.state, entry.generation), (StepState::Started, 1));
    assert_instant(entry.started_at, 0, from, until);
}

pub(super) async fn start_of_an_earlier_generation_finds_the_entry(bench: &Bench) {
    let first = bench.running(1).await;
    bench.started(&StepStart { generation: 2, ..first.start("charge") }).await;
    finds(bench, &StepStart { generation: 1, ..first.start("charge") }).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    let second = bench.succeed(&first.taken_over_by(2)).await;
    finds(bench, &seeing(StepStart { generation: 1, ..second.start("charge") })).await;
}

pub(super) async fn start_of_a_recorded_step_finds_its_value(bench: &Bench) {
    let running = bench.running(1).await;
    bench.recorded(&running.record("charge", "\"paid\"")).await;
    finds(bench, &running.start("charge")).await;
    finds(bench, &StepStart { generation: 1, ..running.start("charge") }).await;
    assert_eq!(bench.only_step(id(1)).await.value.as_deref(), Some(&b"\"paid\""[..]));
}

pub(super) async fn start_of_a_cleared_step_is_started_in_its_generation(bench: &Bench) {
    let second = cleared(bench).await;
    let from = bench.now().await;
    bench.started(&seeing(StepStart { generation: 1, ..second.blind_start("charge") })).await;
    let until = bench.now().await;
    let entry = bench.only_step(id(1)).await;
    assert_eq!((entry.state, entry.generation, entry.owner), (StepState::Started, 1, owner(2)));
    assert_instant(entry.started_at, 0, from, until);
}

pub(super) async fn start_of_a_cleared_step_in_another_generation_finds_it(bench: &Bench) {
    let second = cleared(bench).await;
    finds(bench, &second.start("charge")).await;
    finds(bench, &seeing(StepStart { generation: 2, ..second.start("charge") })).await;
}

pub(super) async fn starts_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    let (second, recorded) = (bench.running(2).await, bench.running(4).await);
    let retryable = bench.retryable(3).await;
    bench.recorded(&recorded.record("charge", "4")).await;
    let absent = Attempt { id: id(1), owner: owner(1), token: Token(1) };
    let batch = [
        recorded.start("charge"),
        retryable.start("charge"),
        second.start("charge"),
        absent.start("charge"),
        recorded.start("refund"),
    ];
    let answers = bench.store().start_steps(&batch).await.expect("start_steps");
    match &answers[..] {
        [
            StepStarted::Found(found),
            StepStarted::Fenced,
            StepStarted::Started { .. },
            StepStarted::Fenced,
            StepStarted::Started { .. },
        ] => assert_eq!(found.value.as_deref(), Some(&b"4"[..])),
        _ => panic!("{answers:?}"),
    }
    assert_eq!(bench.only_step(id(2)).await.name, step("charge"));
    assert_eq!(bench.counted(id(4)).await.len(), 2);
}

pub(super) async fn starts_of_one_execution_in_a_batch_are_each_counted(bench: &Bench) {
    let running = bench.running(1).await;
    let batch = ["c", "a", "b"].map(|name| running.blind_start(name));
    let answers = bench.store().start_steps(&batch).await.expect("start_steps");
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| matches!(answer, StepStarted::Started { .. })));
    let names: Vec<_> = bench.counted(id(1)).await.into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["a", "b", "c"].map(step));
    let record = bench.record(id(1)).await;
    assert_eq!((record.open_steps, record.blind_steps), (3, 3));
}

pub(super) async fn starts_of_one_step_in_a_batch_are_counted_once(bench: &Bench) {
    let running = bench.running(1).await;
    let batch = [running.start("charge"), running.start("charge")];
    let answers = bench.store().start_steps(&batch).await.expect("start_steps");
    let entry = bench.only_step(id(1)).await;
    assert_eq!(answers.len(), 2);
    for answer in answers {
        let StepStarted::Started { started_at, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(started_at, entry.started_at);
    }
}

pub(super) async fn starts_of_one_step_by_two_processes_at_once_are_counted_once(bench: &Bench) {
    let stores = [bench.clone(), bench.another().await];
    for race in 0..10 {
        let running = bench.running(race).await;
        let answers = bench
            .at_once(2, |_, n| {
                let bench = stores[usize::from(n)].clone();
                async move { bench.start(&running.blind_start("charge")).await }
            })
            .await;
        let entry = bench.only_step(id(race)).await;
        for answer in answers {
            let StepStarted::Started { started_at, .. } = answer else { panic!("{answer:?}") };
            assert_eq!(started_at, entry.started_at);
        }
    }
}

pub(super) async fn starts_of_many_steps_at_once_are_all_counted(bench: &Bench) {
    let stores = [bench.clone(), bench.another().await];
    let running = bench.running(1).await;
    let answers = bench
        .at_once(20, |_, n| {
            let bench = stores[usize::from(n % 2)].clone();
            async move { bench.start(&running.blind_start(&format!("step {n}"))).await }
        })
        .await;
    assert!(answers.iter().all(|answer| matches!(answer, StepStarted::Started { .. })));
    assert_eq!(bench.counted(id(1)).await.len(), 20);
}
