//! Messages whose transactions commit in another order than they were written in.

use std::time::Duration;

use idempotent_conformance::sql::{claim, completion, granted};
use idempotent_runtime::Runtime;
use idempotent_runtime::outbox::{Delivery, Relay};
use idempotent_runtime::protocol::{Completion, Limits, Message, MessageId, Written};
use idempotent_runtime::store::{Store, Transaction};
use tokio::sync::mpsc;

use crate::Place;

const LIMITS: Limits =
    Limits { lease_ms: 30_000, max_runtime_ms: 60_000, crashes_max: 3, retain_ms: 60_000 };

fn message(n: u8) -> Message {
    Message {
        id: MessageId([n; 16]),
        topic: "receipt".to_owned(),
        ordering_key: None,
        headers: Vec::new(),
        body: n.to_string().into_bytes(),
        delay_ms: 0,
    }
}

/// A transaction with the `n`th outcome and message, and all but its commit.
async fn written(store: &dyn Store, n: u8) -> Box<dyn Transaction> {
    let messages = vec![message(n)];
    let granted = granted(store, &claim(n)).await;
    let completion = Completion { messages, ..completion(n, granted) };
    let mut transaction = store.begin(&LIMITS).await.unwrap();
    assert_eq!(transaction.complete(&completion).await.unwrap(), Written::Done);
    transaction
}

/// Case 31.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_committed_behind_a_later_one_is_delivered() {
    let place = Place::fresh().await;
    let store = place.store().await;
    let payments = Runtime::builder("payments").url(place.url()).reaper(false);
    let payments = payments.connect().await.unwrap();
    let (deliver, mut delivered) = mpsc::unbounded_channel();
    let sink = move |delivery: Delivery| {
        let sent = deliver.send(delivery.json::<u8>().unwrap());
        async move { sent.map_err(|_| unreachable!("the test listens")) }
    };
    let relay = Relay::new(&payments).sink("receipt", sink).poll_every(Duration::from_millis(20));
    let relay = tokio::spawn(relay.run());

    let first = written(&*store, 1).await;
    let second = written(&*store, 2).await;
    second.commit().await.unwrap();
    assert_eq!(delivered.recv().await, Some(2));
    while !payments.outbox().counts().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    first.commit().await.unwrap();
    assert_eq!(delivered.recv().await, Some(1));
    // It has the lower place, which the relay had passed.
    let ids = [MessageId([1; 16]), MessageId([2; 16])];
    let read = store.messages().read_messages(&ids).await.unwrap();
    let places: Vec<i64> = read.into_iter().map(|message| message.unwrap().seq).collect();
    assert!(places[0] < places[1], "{places:?}");
    relay.abort();
}
