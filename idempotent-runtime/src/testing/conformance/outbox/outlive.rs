//! Messages that outlive their execution, and are sent again by its next life.

use super::*;
use crate::testing::conformance::elsewhere;

/// Sends a message with the first execution, delivers it at the second try, and purges the execution.
async fn outlived(bench: &Bench) -> MessageRecord {
    send(bench, 1, vec![ordered(1, "ada")]).await;
    let sending = claimed_one(bench, &asking(7)).await;
    let ask = DeliveryEndTo::Ask { delay_ms: 0, error: "cut off".to_owned() };
    assert_eq!(end(bench, &ended(&sending, ask)).await, Written::Done);
    deliver(bench, &claimed_one(bench, &asking(8)).await).await;
    bench.age_s(RETAIN_S + 60).await;
    assert_eq!(purge(bench).await, 1);
    assert_eq!(bench.read(id(1)).await, None);
    record(bench, 1).await
}

async fn purge(bench: &Bench) -> u64 {
    bench.store().purge(None, 100).await.expect("purge").deleted
}

/// The message of the next life: the same id, and nothing else.
fn other() -> Message {
    Message {
        topic: "invoice".to_owned(),
        headers: vec![("kind".to_owned(), "mail".to_owned())],
        body: b"2".to_vec(),
        delay_ms: 90_000,
        ..ordered(1, "bob")
    }
}

/// Shows that [`other`] is stored as if there had been none before, behind `earlier`.
async fn is_new(bench: &Bench, earlier: &MessageRecord) {
    let stored = record(bench, 1).await;
    let now = stored.created_at;
    let expected = crate::protocol::send(&other(), id(1), "payments", stored.seq, now);
    assert_eq!(stored, MessageRecord { due_at: stored.due_at, ..expected });
    assert_eq!(now.ms_until(stored.due_at), 90_000);
    assert!(stored.seq > earlier.seq, "{} is not behind {}", stored.seq, earlier.seq);
}

pub(in crate::testing::conformance) async fn purge_leaves_the_delivered_messages_of_what_it_deletes(
    bench: &Bench,
) {
    let left = outlived(bench).await;
    assert_eq!((left.state, left.attempts), (MessageState::Delivered, 2));
    assert_eq!(list(bench, MessageState::Delivered, None).await, [left]);
    let messages = bench.store().messages();
    assert_eq!(messages.purge_messages(RETAIN_S * 1_000, 10).await.expect("purge_messages"), 1);
    assert_eq!(read(bench, 1).await, None);
}

pub(in crate::testing::conformance) async fn message_sent_again_after_the_purge_is_new_and_delivered_once_more(
    bench: &Bench,
) {
    let left = outlived(bench).await;
    send(bench, 2, vec![ordered(2, "bob")]).await;
    let between = record(bench, 2).await;
    let from = bench.now().await;
    send(bench, 1, vec![other()]).await;
    let until = bench.now().await;
    is_new(bench, &between).await;
    assert_instant(record(bench, 1).await.created_at, 0, from, until);
    // What was told of the old one says nothing of the new one.
    let late = ended(&left, DeliveryEndTo::Delivered);
    assert_eq!(end(bench, &late).await, Written::Fenced);
    bench.age_s(RETAIN_S + 60).await;
    assert_eq!(purge(bench).await, 0);
    let invoices = MessageClaim { topic: "invoice".to_owned(), ..relay(9, 10) };
    let sending = claimed_one(bench, &invoices).await;
    assert_eq!((sending.id, sending.attempts), (left.id, 1));
    deliver(bench, &sending).await;
    assert_eq!(claimed(bench, &invoices).await, []);
    assert_eq!(record(bench, 1).await.state, MessageState::Delivered);
    assert_eq!(purge(bench).await, 1);
}

pub(in crate::testing::conformance) async fn message_sent_again_elsewhere_is_new(bench: &Bench) {
    let left = outlived(bench).await;
    let running = bench.running(1).await;
    let completion = Completion { messages: vec![other()], ..running.completion("1") };
    let Some(affected) = elsewhere::complete(bench, &completion).await else { return };
    assert!(affected);
    is_new(bench, &left).await;
}

pub(in crate::testing::conformance) async fn message_is_not_sent_over_an_undelivered_one(
    bench: &Bench,
) {
    send(bench, 1, vec![message(1)]).await;
    let pending = record(bench, 1).await;
    let running = bench.running(2).await;
    let completion = Completion { messages: vec![other()], ..running.completion("1") };
    let completing = bench.store().complete(std::slice::from_ref(&completion));
    let answer = bench.unchanged(id(2), completing).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(record(bench, 1).await, pending);
    // Once that one is delivered, nothing stands in the way.
    deliver(bench, &claimed_one(bench, &relay(7, 10)).await).await;
    assert_eq!(bench.complete(&completion).await, Written::Done);
    assert_eq!(record(bench, 1).await.execution, id(2));
}
