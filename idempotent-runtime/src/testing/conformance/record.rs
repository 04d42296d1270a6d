//! Records: a step's value, stored once by the attempt that owns the execution, and never changed.

use super::bench::*;
use crate::protocol::{
    Micros, Settled, Step, StepClass, StepRecord, StepRecorded, StepStart, StepState, TakenOver,
    Token,
};

/// The record must be refused, and write nothing.
async fn fenced(bench: &Bench, record: &StepRecord) {
    let answer = bench.unchanged(record.id, bench.record_step(record)).await;
    assert_eq!(answer, StepRecorded::Fenced);
}

/// A value must be recorded, and this must write nothing.
async fn done_before(bench: &Bench, record: &StepRecord) {
    let entry = bench.step(record).await;
    let answer = bench.unchanged(record.id, bench.record_step(record)).await;
    assert_eq!(Some(answer), entry.done_at.map(|done_at| StepRecorded::Done { done_at }));
}

fn all_done(answers: &[StepRecorded]) -> bool {
    answers.iter().all(|answer| matches!(answer, StepRecorded::Done { .. }))
}

/// Records of a step that was not started, and of one that must have been.
fn both(attempt: Attempt) -> [StepRecord; 2] {
    let plain = attempt.record("charge", "1");
    [StepRecord { class: StepClass::AtMostOnce, ..plain.clone() }, plain]
}

async fn both_fenced(bench: &Bench, attempt: Attempt) {
    for record in both(attempt) {
        fenced(bench, &record).await;
    }
}

pub(super) async fn record_without_a_start_stores_the_value(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(60).await;
    let from = bench.now().await;
    let record = StepRecord { generation: 5, ..running.record("charge", "\"paid\"") };
    bench.recorded(&record).await;
    let until = bench.now().await;
    let entry = bench.only_step(id(1)).await;
    assert_instant(entry.started_at, 0, from, until);
    let expected = Step {
        name: step("charge"),
        class: StepClass::Plain,
        reconciles: false,
        state: StepState::Recorded,
        generation: 5,
        version: 3,
        owner: owner(1),
        started_at: entry.started_at,
        alive_until: entry.started_at,
        value: Some(b"\"paid\"".to_vec()),
        done_at: Some(entry.started_at),
    };
    assert_eq!(entry, expected);
}

pub(super) async fn record_without_a_start_changes_nothing_of_the_execution(bench: &Bench) {
    let running = bench.running(1).await;
    let before = bench.record(id(1)).await;
    for record in both(running) {
        bench.recorded(&record).await;
        assert_eq!(bench.record(id(1)).await, before);
    }
}

/// However the store's clock stands: values keep the order in which the attempt knew them.
pub(super) async fn record_counts_from_its_earliest_on(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.blind_start("charge")).await;
    let earliest = bench.now().await.plus_ms(3_600_000);
    let class = StepClass::AtMostOnce;
    let started = StepRecord { class, earliest, ..running.record("charge", "7") };
    let plain = StepRecord { earliest: Micros(earliest.0 + 1), ..running.record("mail", "8") };
    for record in [started, plain] {
        let done = StepRecorded::Done { done_at: record.earliest };
        assert_eq!(bench.record_step(&record).await, done);
        let entry = bench.step(&record).await;
        assert_eq!(entry.done_at, Some(record.earliest));
        assert!(entry.started_at < earliest);
        assert_eq!(bench.record_step(&record).await, done, "sent again");
    }
}

pub(super) async fn record_of_a_started_step_keeps_when_it_was_started(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&StepStart { reconciles: true, ..running.blind_start("charge") }).await;
    bench.age_s(60).await;
    let before = bench.only_step(id(1)).await;
    let from = bench.now().await;
    let class = StepClass::AtMostOnce;
    let record = StepRecord { class, version: 4, ..running.record("charge", "7") };
    bench.recorded(&record).await;
    let until = bench.now().await;
    let entry = bench.only_step(id(1)).await;
    assert_instant(entry.done_at.expect("it is recorded"), 0, from, until);
    let expected = Step {
        state: StepState::Recorded,
        version: 4,
        value: Some(b"7".to_vec()),
        done_at: entry.done_at,
        ..before
    };
    assert_eq!(entry, expected);
}

pub(super) async fn record_of_a_started_step_counts_it_no_more(bench: &Bench) {
    let running = bench.running(1).await;
    let before = bench.record(id(1)).await;
    bench.started(&running.blind_start("charge")).await;
    bench.started(&running.blind_start("refund")).await;
    bench.recorded(&running.record("charge", "1")).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.open_steps, record.blind_steps), (1, 1));
    bench.recorded(&running.record("refund", "1")).await;
    bench.counted(id(1)).await;
    assert_eq!(bench.record(id(1)).await, before);
}

pub(super) async fn record_of_a_started_step_in_its_class_counts_it_no_more(bench: &Bench) {
    let running = bench.running(1).await;
    let before = bench.record(id(1)).await;
    bench.started(&running.start("charge")).await;
    let class = StepClass::ProviderWindow;
    bench.recorded(&StepRecord { class, ..running.record("charge", "1") }).await;
    assert_eq!(bench.only_step(id(1)).await.class, class);
    assert_eq!(bench.record(id(1)).await, before);
}

pub(super) async fn record_sent_twice_is_done_both_times(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.start("refund")).await;
    for record in [running.record("charge", "1"), running.record("refund", "2")] {
        bench.recorded(&record).await;
        bench.age_s(60).await;
        done_before(bench, &record).await;
    }
}

pub(super) async fn second_record_does_not_replace_the_first(bench: &Bench) {
    let running = bench.running(1).await;
    bench.recorded(&running.record("charge", "1")).await;
    let other = StepRecord {
        class: StepClass::AtMostOnce,
        version: 9,
        generation: 9,
        ..running.record("charge", "2")
    };
    for second in [running.record("charge", "2"), other] {
        done_before(bench, &second).await;
    }
}

pub(super) async fn record_by_the_successor_does_not_replace_the_first(bench: &Bench) {
    let first = bench.running(1).await;
    bench.recorded(&first.record("charge", "1")).await;
    bench.age_s(LEASE_S + 60).await;
    let second = bench.succeed(&first.taken_over_by(2)).await;
    for record in both(second) {
        done_before(bench, &record).await;
    }
    assert_eq!(bench.only_step(id(1)).await.owner, owner(1));
}

pub(super) async fn record_by_the_successor_of_what_another_started_is_its_own(bench: &Bench) {
    let first = bench.running(1).await;
    bench.started(&first.start("charge")).await;
    bench.age_s(LEASE_S + 60).await;
    let before = bench.only_step(id(1)).await;
    let second = bench.succeed(&first.taken_over_by(2)).await;
    bench.recorded(&second.record("charge", "2")).await;
    let entry = bench.only_step(id(1)).await;
    assert_eq!((entry.owner, entry.started_at), (owner(2), before.started_at));
    assert_eq!(entry.alive_until, before.alive_until);
}

pub(super) async fn record_of_a_cleared_step_is_dated_anew(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    assert_eq!(bench.settle(&in_review.did_not_happen("charge")).await, Settled::Done);
    let settled = in_review.with_token(bench.record(id(1)).await.token);
    let second = bench.succeed(&settled.taken_over_by(2)).await;
    let before = bench.record(id(1)).await;
    let from = bench.now().await;
    bench.recorded(&StepRecord { generation: 1, ..second.record("charge", "2") }).await;
    let until = bench.now().await;
    let entry = bench.only_step(id(1)).await;
    assert_eq!((entry.state, entry.generation), (StepState::Recorded, 1));
    assert_eq!(Some(entry.started_at), entry.done_at);
    assert_instant(entry.started_at, 0, from, until);
    assert_eq!(bench.record(id(1)).await, before);
}

pub(super) async fn record_of_a_lapsed_lease_that_nobody_took_is_done(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    bench.recorded(&lapsed.record("charge", "1")).await;
    assert_eq!(bench.only_step(id(1)).await.value, Some(b"1".to_vec()));
}

pub(super) async fn record_with_another_owner_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    both_fenced(bench, running.with_owner(owner(2))).await;
    bench.started(&running.start("charge")).await;
    both_fenced(bench, running.with_owner(owner(2))).await;
}

pub(super) async fn record_with_another_token_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    for wrong in [running.token.0 - 1, running.token.0 + 1] {
        both_fenced(bench, running.with_token(Token(wrong))).await;
    }
    bench.started(&running.start("charge")).await;
    both_fenced(bench, running.with_token(Token(running.token.0 + 1))).await;
}

pub(super) async fn record_of_an_absent_execution_is_fenced(bench: &Bench) {
    both_fenced(bench, Attempt { id: id(1), owner: owner(1), token: Token(1) }).await;
    assert_eq!(bench.journal(id(1)).await, []);
}

pub(super) async fn record_of_a_retryable_execution_is_fenced(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    both_fenced(bench, retryable).await;
}

pub(super) async fn record_of_a_finished_execution_is_fenced(bench: &Bench) {
    let (completed, failed) = (bench.completed(1).await, bench.failed(2).await);
    both_fenced(bench, completed).await;
    both_fenced(bench, failed).await;
}

pub(super) async fn record_of_an_execution_in_review_is_fenced(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    both_fenced(bench, in_review).await;
}

pub(super) async fn record_of_a_reaped_execution_is_fenced(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    bench.store().reap(None, None, 10).await.expect("reap");
    both_fenced(bench, lapsed).await;
}

pub(super) async fn record_by_a_zombie_is_fenced_though_it_had_recorded_it(bench: &Bench) {
    let zombie = bench.running(1).await;
    bench.recorded(&zombie.record("charge", "1")).await;
    bench.age_s(LEASE_S + 60).await;
    bench.succeed(&zombie.taken_over_by(2)).await;
    both_fenced(bench, zombie).await;
    fenced(bench, &zombie.record("refund", "1")).await;
}

pub(super) async fn late_record_leaves_the_step_that_the_successor_started(bench: &Bench) {
    let zombie = bench.running(1).await;
    bench.started(&zombie.start("charge")).await;
    bench.age_s(LEASE_S + 60).await;
    let second = bench.succeed(&zombie.taken_over_by(2)).await;
    bench.started(&StepStart { seen: Some(owner(1)), ..second.start("charge") }).await;
    both_fenced(bench, zombie).await;
    bench.recorded(&second.record("charge", "2")).await;
}

pub(super) async fn records_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    let (second, fourth) = (bench.running(2).await, bench.running(4).await);
    let retryable = bench.retryable(3).await;
    bench.started(&fourth.start("charge")).await;
    let absent = Attempt { id: id(1), owner: owner(1), token: Token(1) };
    let batch = [
        fourth.record("charge", "4"),
        retryable.record("charge", "3"),
        second.record("charge", "2"),
        absent.record("charge", "1"),
    ];
    let answers = bench.store().record_steps(&batch).await.expect("record_steps");
    let (four, two) = (bench.only_step(id(4)).await, bench.only_step(id(2)).await);
    let done = |entry: &Step| StepRecorded::Done { done_at: entry.done_at.expect("recorded") };
    assert_eq!(answers, [done(&four), StepRecorded::Fenced, done(&two), StepRecorded::Fenced]);
    assert_eq!((four.value, two.value), (Some(b"4".to_vec()), Some(b"2".to_vec())));
}

pub(super) async fn records_of_one_execution_in_a_batch_are_all_stored(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.start("b")).await;
    bench.started(&running.blind_start("c")).await;
    let batch = ["c", "a", "b"].map(|name| running.record(name, name));
    let answers = bench.store().record_steps(&batch).await.expect("record_steps");
    assert!(answers.len() == 3 && all_done(&answers), "{answers:?}");
    let values: Vec<_> = bench.counted(id(1)).await.into_iter().map(|step| step.value).collect();
    assert_eq!(values, ["a", "b", "c"].map(|name| Some(name.as_bytes().to_vec())));
}

pub(super) async fn records_of_one_step_in_a_batch_store_one_of_them(bench: &Bench) {
    let running = bench.running(1).await;
    let batch = [running.record("charge", "1"), running.record("charge", "2")];
    let answers = bench.store().record_steps(&batch).await.expect("record_steps");
    assert!(answers.len() == 2 && all_done(&answers), "{answers:?}");
    let value = bench.only_step(id(1)).await.value;
    assert!(value == Some(b"1".to_vec()) || value == Some(b"2".to_vec()), "{value:?}");
}

pub(super) async fn records_of_one_step_by_two_processes_at_once_store_one_of_them(bench: &Bench) {
    let stores = [bench.clone(), bench.another().await];
    for race in 0..10 {
        let running = bench.running(race).await;
        if race % 2 == 1 {
            bench.started(&running.blind_start("charge")).await;
        }
        let answers = bench
            .at_once(2, |_, n| {
                let bench = stores[usize::from(n)].clone();
                let record = running.record("charge", &n.to_string());
                async move { bench.record_step(&record).await }
            })
            .await;
        assert!(answers[0] == answers[1] && all_done(&answers), "{answers:?}");
        let first = bench.only_step(id(race)).await;
        assert!(matches!(first.value.as_deref(), Some(b"0" | b"1")), "{first:?}");
        for n in ["0", "1"] {
            done_before(bench, &running.record("charge", n)).await;
        }
    }
}

pub(super) async fn records_of_many_steps_at_once_are_all_stored(bench: &Bench) {
    let stores = [bench.clone(), bench.another().await];
    let running = bench.running(1).await;
    for n in (0..20).step_by(2) {
        bench.started(&running.blind_start(&format!("step {n}"))).await;
    }
    let answers = bench
        .at_once(20, |_, n| {
            let bench = stores[usize::from(n % 2)].clone();
            let record = running.record(&format!("step {n}"), "1");
            async move { bench.record_step(&record).await }
        })
        .await;
    assert!(answers.len() == 20 && all_done(&answers), "{answers:?}");
    assert!(bench.counted(id(1)).await.iter().all(Step::is_recorded));
}

pub(super) async fn record_and_takeover_at_once_agree_on_the_journal(bench: &Bench) {
    let stores = [bench.clone(), bench.another().await];
    for race in 0..10 {
        let lapsed = bench.lapsed(race).await;
        let [one, other] = stores.clone();
        let (record, takeover) = (lapsed.record("charge", "1"), lapsed.taken_over_by(99));
        let (written, taken) = tokio::join!(
            tokio::spawn(async move { one.record_step(&record).await }),
            tokio::spawn(async move { other.take_over(&takeover).await }),
        );
        let taken = taken.expect("a call does not panic");
        let TakenOver::Granted { journal, .. } = taken else { panic!("{taken:?}") };
        match written.expect("a call does not panic") {
            StepRecorded::Done { .. } => assert_eq!(journal.len(), 1),
            StepRecorded::Fenced => assert_eq!(journal, []),
        }
        assert_eq!(bench.journal(id(race)).await, journal);
    }
}
