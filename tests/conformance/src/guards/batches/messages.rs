//! Completions that bring messages.

use std::sync::Arc;

use idempotent_runtime::protocol::{
    Completion, Granted, Message, MessageId, MessageListing, MessageRecord, MessageState, Owner,
    ReleaseTo, StoredResult, Written,
};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory as _;

use super::{Fact, all_granted, claims, plain, second_is_done, share_a_commit};
use crate::guards::locks::{LATER, Place, message, release_to};
use crate::postgres::PostgresFactory;
use crate::sql::{EMPTY, Sql as _, completion, delivered, id, relay};

/// All of them.
pub(super) fn facts() -> Vec<Fact<PostgresFactory>> {
    vec![
        Fact::new("completions_with_messages_pass_over_a_locked_row", pass),
        Fact::new("completions_of_many_send_their_own_messages", send_their_own),
        Fact::new("completions_of_many_with_messages_store_their_own", store_their_own),
        Fact::new("completions_of_many_with_messages_do_not_pass_by_anothers_guard", guarded),
        Fact::new("messages_of_many_that_are_sent_again_share_a_commit", sent_again),
        Fact::new("messages_of_many_are_sent_over_no_undelivered_one", not_over),
    ]
}

async fn running(place: &Place, numbers: &[u8]) -> (Arc<dyn Store>, Vec<Granted>) {
    let store = plain(place).await;
    let granted = all_granted(&*store, &claims(numbers)).await;
    (store, granted)
}

/// A completion that sends the message of its number.
fn sends(n: u8, granted: Granted) -> Completion {
    Completion { messages: vec![message(n, None)], ..completion(n, granted) }
}

fn each_sends(granted: &[Granted]) -> Vec<Completion> {
    (1..).zip(granted).map(|(n, granted)| sends(n, *granted)).collect()
}

async fn completed(store: &dyn Store, completions: &[Completion]) {
    let answers = store.complete(completions).await.expect("complete");
    assert!(answers.iter().all(|answer| *answer == Written::Done), "{answers:?}");
}

/// All messages that wait, in the order of their places.
async fn pending(store: &dyn Store) -> Vec<MessageRecord> {
    let listing = MessageListing {
        namespace: "payments".to_owned(),
        topic: None,
        state: MessageState::Pending,
        after: None,
        rows_max: 1_000,
    };
    store.messages().list_messages(&listing).await.expect("list_messages")
}

async fn pass(place: Place) {
    let (store, granted) = running(&place, &[1, 2]).await;
    let completions = each_sends(&granted);
    let done = "SELECT count(*) FROM idempotent_outbox";
    let call = async move { store.complete(&completions).await };
    let answers = second_is_done(&place, done, call).await;
    assert_eq!(answers.expect("complete"), [Written::Done; 2]);
}

/// Executions that send no message, one, two and so on, in one batch: all in one commit, in their order.
async fn send_their_own(place: Place) {
    let numbers: Vec<u8> = (1..=9).collect();
    let (store, granted) = running(&place, &numbers).await;
    let sent = |n: u8| -> Vec<Message> {
        (0..n - 1).map(|m| Message { body: vec![n, m], ..message(n * 16 + m, None) }).collect()
    };
    let completions: Vec<_> = (1..)
        .zip(granted)
        .map(|(n, granted)| Completion { messages: sent(n), ..completion(n, granted) })
        .collect();
    completed(&*store, &completions).await;
    assert!(share_a_commit(&place, "execution", &numbers).await);
    let pending = pending(&*store).await;
    let expected: Vec<_> = numbers.iter().flat_map(|n| sent(*n)).collect();
    assert_eq!(pending.len(), expected.len());
    for (record, message) in pending.iter().zip(&expected) {
        assert_eq!((record.id, &record.body), (message.id, &message.body));
        assert_eq!(record.execution, id(message.body[0]));
    }
    let commits = "SELECT count(DISTINCT m.xmin::text) FROM idempotent_outbox m
        JOIN idempotent_execution e ON e.id = m.execution AND e.xmin = m.xmin";
    let commits: i64 =
        sqlx::query_scalar(commits).fetch_one(place.place.pool()).await.expect("it counts");
    assert_eq!(commits, 1);
}

async fn store_their_own(place: Place) {
    let numbers: Vec<u8> = (1..=20).collect();
    let (store, granted) = running(&place, &numbers).await;
    let result = |n: u8| StoredResult::Json(n.to_string().into_bytes());
    let completions: Vec<_> = (1..)
        .zip(granted)
        .map(|(n, granted)| Completion { result: result(n), ..sends(n, granted) })
        .collect();
    completed(&*store, &completions).await;
    assert!(share_a_commit(&place, "execution", &numbers).await);
    let ids: Vec<_> = numbers.iter().map(|n| id(*n)).collect();
    for (n, read) in numbers.iter().zip(store.read(&ids).await.expect("read")) {
        assert_eq!(read.expect("it is there").record.result, Some(result(*n)));
    }
}

/// Who owns the first does not complete the second, and sends nothing for it; nor does who does not own it any more.
async fn guarded(place: Place) {
    let (store, granted) = running(&place, &[1, 2, 3, 4]).await;
    release_to(&*store, 4, Owner([4; 16]), granted[3].token, ReleaseTo::Review).await;
    let completions = [
        Completion { id: id(2), ..sends(1, granted[0]) },
        sends(4, granted[3]),
        sends(3, granted[2]),
    ];
    let answers = store.complete(&completions).await.expect("complete");
    assert_eq!(answers, [Written::Fenced, Written::Fenced, Written::Done]);
    let sent: Vec<_> = pending(&*store).await.into_iter().map(|message| message.id).collect();
    assert_eq!(sent, [MessageId([3; 16])]);
}

/// The executions are purged and run again, while their messages, which were delivered, are still there.
async fn sent_again(place: Place) {
    let (store, granted) = running(&place, &[1, 2]).await;
    completed(&*store, &each_sends(&granted)).await;
    let claimed = store.messages().claim_messages(&[relay()]).await.expect("claim_messages");
    let ends: Vec<_> = claimed[0].messages.iter().map(delivered).collect();
    let ended = store.messages().end_deliveries(&ends).await.expect("end_deliveries");
    assert_eq!(ended, [Written::Done; 2]);
    place.age(LATER).await;
    assert_eq!(store.purge(None, 10).await.expect("purge").deleted, 2);
    let granted = all_granted(&*store, &claims(&[1, 2])).await;
    completed(&*store, &each_sends(&granted)).await;
    assert!(share_a_commit(&place, "execution", &[1, 2]).await);
    assert_eq!(pending(&*store).await.len(), 2);
}

/// A message that is to be delivered is in the way of one completion, which fails, and of no other.
async fn not_over(place: Place) {
    let (store, granted) = running(&place, &[1, 2, 3]).await;
    completed(&*store, &[sends(3, granted[2])]).await;
    place.place.execute("DELETE FROM idempotent_execution WHERE key = 'charge:3'").await;
    let again = all_granted(&*store, &claims(&[3])).await[0];
    let completions = [sends(1, granted[0]), sends(3, again), sends(2, granted[1])];
    // As callers of their own: one whose request fails has no answers to the others.
    let answers = store.complete(&completions).await;
    assert!(answers.is_err(), "{answers:?}");
    let read = store.read(&[id(3)]).await.expect("read").remove(0).expect("it is there");
    assert!(!read.record.state.is_finished(), "it is completed without its message");
    let third = pending(&*store).await.into_iter().filter(|it| it.id == MessageId([3; 16]));
    assert_eq!(third.count(), 1);
    place.place.execute(EMPTY).await;
}
