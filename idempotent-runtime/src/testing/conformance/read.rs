//! Reads: what is stored, with the store's time, in the order that was asked.

use super::bench::*;
use crate::protocol::Written;

pub(super) async fn read_of_an_absent_execution_is_none(bench: &Bench) {
    assert_eq!(bench.read(id(1)).await, None);
}

pub(super) async fn read_reports_the_time_of_the_store(bench: &Bench) {
    bench.running(1).await;
    let from = bench.now().await;
    let now = bench.execution(id(1)).await.now;
    assert_instant(now, 0, from, bench.now().await);
}

pub(super) async fn time_of_the_store_moves_on_against_what_it_holds(bench: &Bench) {
    bench.running(1).await;
    let before = bench.execution(id(1)).await;
    bench.age_s(300).await;
    let after = bench.execution(id(1)).await;
    let past =
        |execution: &crate::store::Execution| execution.record.created_at.ms_until(execution.now);
    assert!(past(&after) >= past(&before) + 300_000, "{before:?}, {after:?}");
}

pub(super) async fn reads_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    bench.running(1).await;
    bench.completed(3).await;
    let answers = bench.store().read(&[id(3), id(2), id(1)]).await.expect("read");
    let found: Vec<_> =
        answers.iter().map(|found| found.as_ref().map(|found| found.record.id)).collect();
    assert_eq!(found, [Some(id(3)), None, Some(id(1))]);
}

pub(super) async fn reads_of_one_execution_in_a_batch_are_each_answered(bench: &Bench) {
    bench.running(1).await;
    let answers = bench.store().read(&[id(1), id(2), id(1)]).await.expect("read");
    let found: Vec<_> = answers.iter().map(Option::is_some).collect();
    assert_eq!(found, [true, false, true]);
}

pub(super) async fn write_is_seen_by_a_read_after_its_answer(bench: &Bench) {
    let other = bench.another().await;
    for n in 1..=20 {
        let running = bench.running(n).await;
        assert_eq!(other.record(id(n)).await.token, running.token);
        assert_eq!(bench.complete(&running.completion("1")).await, Written::Done);
        assert_eq!(other.record(id(n)).await.result, Some(json("1")));
    }
}
