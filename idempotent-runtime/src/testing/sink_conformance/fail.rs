//! What failed is told for what it is: it never will arrive, it did not, or nobody knows.

use std::time::Duration;

use super::Reply;
use super::bench::*;
use crate::outbox::{Delivery, SinkError, Then};

const FAILURES: [Reply; 3] = [Reply::Refuse, Reply::Postpone, Reply::HangUp];
/// When a receiver that postpones wants to be asked again.
const LATER: Duration = Duration::from_mins(7);

/// That another try follows, and that nobody is told that it did not arrive if it did.
async fn is_tried_again(bench: &Bench, error: &SinkError, delivery: &Delivery) {
    assert_ne!(error.then, Then::Dead, "another try makes sense: {error}");
    if error.then == Then::NotDelivered {
        let times = bench.times(delivery).await;
        assert_eq!(times, 0, "the receiver has it, and would be sent it once more: {error}");
    }
}

pub(super) async fn refusal_is_no_success(bench: &Bench) {
    for reply in [Reply::Refuse, Reply::Postpone] {
        let message = delivery(1, "\"1\"");
        if let Some(answer) = bench.answered(reply, &message).await {
            assert!(answer.is_err(), "{reply:?}: nobody has it, and the sink says that it arrived");
        }
    }
}

pub(super) async fn refusal_for_good_is_dead(bench: &Bench) {
    if let Some(error) = bench.failed(Reply::Refuse, &delivery(1, "\"1\"")).await {
        assert_eq!(error.then, Then::Dead, "no other try makes sense: {error}");
    }
}

pub(super) async fn refusal_for_now_is_tried_again(bench: &Bench) {
    let message = delivery(1, "\"1\"");
    if let Some(error) = bench.failed(Reply::Postpone, &message).await {
        is_tried_again(bench, &error, &message).await;
        bench.delivered(&message).await;
        assert_eq!(bench.times(&message).await, 1);
    }
}

pub(super) async fn refusal_for_now_says_when_to_come_back(bench: &Bench) {
    let message = delivery(1, "\"1\"");
    if let Some(error) = bench.failed(Reply::PostponeFor(LATER), &message).await {
        is_tried_again(bench, &error, &message).await;
        assert_eq!(error.retry_after, Some(LATER), "{error}");
    }
}

pub(super) async fn lost_answer_is_no_success(bench: &Bench) {
    if let Some(answer) = bench.answered(Reply::HangUp, &delivery(1, "\"1\"")).await {
        assert!(answer.is_err(), "nobody said that it has it");
    }
}

pub(super) async fn lost_answer_is_tried_again_for_it_may_have_arrived(bench: &Bench) {
    let message = delivery(1, "\"1\"");
    if let Some(error) = bench.failed(Reply::HangUp, &message).await {
        assert_eq!(bench.times(&message).await, 1, "it has arrived, and nothing was sent again");
        is_tried_again(bench, &error, &message).await;
    }
}

pub(super) async fn receiver_that_is_not_there_is_tried_again(bench: &Bench) {
    if let Some(sink) = bench.receiver.nowhere().await {
        let message = delivery(1, "\"1\"");
        let error = over(&*sink, &message).await.expect_err("nobody has it");
        is_tried_again(bench, &error, &message).await;
        assert_eq!(bench.receiver.taken().await, []);
    }
}

pub(super) async fn silent_receiver_is_given_up_and_may_have_taken_it(bench: &Bench) {
    let message = delivery(1, "\"1\"");
    if let Some(error) = bench.failed(Reply::Hold, &message).await {
        assert_eq!(error.then, Then::Retry, "nobody knows whether it has it: {error}");
    }
}

pub(super) async fn failure_says_why(bench: &Bench) {
    for reply in FAILURES {
        if let Some(error) = bench.failed(reply, &delivery(1, "\"1\"")).await {
            assert!(!error.to_string().trim().is_empty(), "a person reads it: {error:?}");
        }
    }
}

pub(super) async fn failure_is_not_tried_again_by_the_sink_itself(bench: &Bench) {
    // The relay tries again, with its backoff; it is the next reply that the receiver would take.
    for (n, reply) in (1..).zip([Reply::Refuse, Reply::Postpone]) {
        let message = delivery(n, "\"1\"");
        if bench.answered(reply, &message).await.is_some() {
            assert_eq!(bench.times(&message).await, 0, "{reply:?}");
        }
    }
}

pub(super) async fn message_is_delivered_after_each_failure(bench: &Bench) {
    for (n, reply) in (1..).zip(FAILURES) {
        if bench.answered(reply, &delivery(n, "\"1\"")).await.is_some() {
            let next = delivery(100 + n, "\"2\"");
            bench.delivered(&next).await;
            assert_eq!(bench.times(&next).await, 1, "behind {reply:?}");
        }
    }
}
