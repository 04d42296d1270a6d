//! Completions: an outcome is stored once, by the attempt that owns the execution, and never replaced.

use super::bench::*;
use crate::protocol::{Completion, State, StoredResult, Token, Written};

async fn fenced(bench: &Bench, completion: &Completion) {
    let answer = bench.unchanged(completion.id, bench.complete(completion)).await;
    assert_eq!(answer, Written::Fenced);
}

pub(super) async fn complete_stores_the_result(bench: &Bench) {
    let running = bench.running(1).await;
    let mut expected = bench.record(id(1)).await;
    let from = bench.now().await;
    assert_eq!(bench.complete(&running.completion("[1, 2]")).await, Written::Done);
    let until = bench.now().await;
    let record = bench.record(id(1)).await;
    assert_instant(record.done_at.expect("it is done"), 0, from, until);
    expected.state = State::Completed;
    expected.result = Some(json("[1, 2]"));
    expected.done_at = record.done_at;
    assert_eq!(record, expected);
}

pub(super) async fn complete_stores_a_terminal_error(bench: &Bench) {
    let running = bench.running(1).await;
    assert_eq!(bench.complete(&running.failure("{\"code\":51}")).await, Written::Done);
    let record = bench.record(id(1)).await;
    assert_eq!((record.state, record.result), (State::Failed, Some(json("{\"code\":51}"))));
    assert!(record.done_at.is_some());
}

pub(super) async fn complete_without_a_result_keeps_why(bench: &Bench) {
    let running = bench.running(1).await;
    let result = StoredResult::Absent { reason: "it has 2 bytes more than it may".to_owned() };
    let completion = Completion { result: result.clone(), ..running.completion("") };
    assert_eq!(bench.complete(&completion).await, Written::Done);
    let record = bench.record(id(1)).await;
    assert_eq!((record.state, record.result), (State::Completed, Some(result)));
}

pub(super) async fn complete_of_a_lapsed_lease_that_nobody_took_is_done(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    assert_eq!(bench.complete(&lapsed.completion("1")).await, Written::Done);
    assert_eq!(bench.record(id(1)).await.state, State::Completed);
}

pub(super) async fn complete_after_a_takeover_clears_no_count(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let second = bench.succeed(&lapsed.taken_over_by(2)).await;
    assert_eq!(bench.complete(&second.completion("1")).await, Written::Done);
    let record = bench.record(id(1)).await;
    assert_eq!((record.attempts, record.crashes, record.token), (2, 1, second.token));
}

pub(super) async fn completion_sent_twice_is_done_both_times(bench: &Bench) {
    let running = bench.running(1).await;
    let completion = running.completion("1");
    assert_eq!(bench.complete(&completion).await, Written::Done);
    let again = bench.unchanged(id(1), bench.complete(&completion)).await;
    assert_eq!(again, Written::Done);
}

pub(super) async fn failure_sent_twice_is_done_both_times(bench: &Bench) {
    let running = bench.running(1).await;
    let failure = running.failure("1");
    assert_eq!(bench.complete(&failure).await, Written::Done);
    let again = bench.unchanged(id(1), bench.complete(&failure)).await;
    assert_eq!(again, Written::Done);
}

pub(super) async fn second_completion_does_not_replace_the_first(bench: &Bench) {
    let running = bench.running(1).await;
    assert_eq!(bench.complete(&running.completion("1")).await, Written::Done);
    bench.unchanged(id(1), bench.complete(&running.failure("2"))).await;
}

pub(super) async fn complete_with_another_owner_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    fenced(bench, &running.with_owner(owner(2)).completion("1")).await;
}

pub(super) async fn complete_with_another_token_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    for wrong in [running.token.0 - 1, running.token.0 + 1] {
        fenced(bench, &running.with_token(Token(wrong)).completion("1")).await;
    }
}

pub(super) async fn fail_with_another_owner_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    fenced(bench, &running.with_owner(owner(2)).failure("1")).await;
}

pub(super) async fn complete_of_an_absent_execution_is_fenced(bench: &Bench) {
    let nobody = Attempt { id: id(1), owner: owner(1), token: Token(1) };
    fenced(bench, &nobody.completion("1")).await;
}

pub(super) async fn complete_of_a_retryable_execution_is_fenced(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    fenced(bench, &retryable.completion("1")).await;
}

pub(super) async fn complete_of_an_execution_in_review_is_fenced(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    fenced(bench, &in_review.completion("1")).await;
}

pub(super) async fn complete_of_a_reaped_execution_is_fenced(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    assert_eq!(bench.store().reap(None, None, 10).await.expect("reap").lapsed.len(), 1);
    fenced(bench, &lapsed.completion("1")).await;
}

pub(super) async fn complete_of_what_another_owner_completed_is_fenced(bench: &Bench) {
    let completed = bench.completed(1).await;
    fenced(bench, &completed.with_owner(owner(2)).completion("1")).await;
}

pub(super) async fn complete_of_what_was_completed_under_another_token_is_fenced(bench: &Bench) {
    let completed = bench.completed(1).await;
    fenced(bench, &completed.with_token(Token(completed.token.0 + 1)).completion("1")).await;
}

pub(super) async fn complete_of_what_a_person_settled_is_fenced(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.settle(&in_review.settled_completed("1")).await;
    fenced(bench, &in_review.completion("2")).await;
}

pub(super) async fn late_completion_leaves_the_successors_result(bench: &Bench) {
    let zombie = bench.lapsed(1).await;
    let successor = bench.succeed(&zombie.taken_over_by(2)).await;
    assert_eq!(bench.complete(&successor.completion("\"mine\"")).await, Written::Done);
    fenced(bench, &zombie.completion("\"late\"")).await;
    fenced(bench, &zombie.failure("\"late\"")).await;
    assert_eq!(bench.record(id(1)).await.result, Some(json("\"mine\"")));
}

pub(super) async fn completions_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    let done_before = bench.completed(4).await;
    let gone = bench.retryable(2).await;
    let (fifth, first) = (bench.running(5).await, bench.running(1).await);
    let stranger = bench.running(3).await.with_owner(owner(9));
    let batch = [
        fifth.completion("5"),
        done_before.completion("4"),
        stranger.completion("3"),
        gone.completion("2"),
        first.failure("1"),
    ];
    assert_eq!(
        bench.store().complete(&batch).await.expect("complete"),
        [Written::Done, Written::Done, Written::Fenced, Written::Fenced, Written::Done]
    );
    let [fifth, first] = [bench.record(id(5)).await, bench.record(id(1)).await];
    assert_eq!((fifth.state, fifth.result), (State::Completed, Some(json("5"))));
    assert_eq!((first.state, first.result), (State::Failed, Some(json("1"))));
}

pub(super) async fn completions_of_one_execution_in_a_batch_store_one_of_them(bench: &Bench) {
    let running = bench.running(1).await;
    let batch = [
        running.completion("1"),
        running.with_owner(owner(9)).completion("2"),
        running.failure("3"),
    ];
    assert_eq!(
        bench.store().complete(&batch).await.expect("complete"),
        [Written::Done, Written::Fenced, Written::Done]
    );
    let record = bench.record(id(1)).await;
    let first = record.state == State::Completed && record.result == Some(json("1"));
    let last = record.state == State::Failed && record.result == Some(json("3"));
    assert!(first || last, "{record:?}");
}
