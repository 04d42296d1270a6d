//! Messages beside those that a call is about.

use std::sync::Arc;

use super::*;

/// Completes the `n`th execution of another namespace with messages.
async fn send_in_another(bench: &Bench, n: u16, messages: Vec<Message>) {
    let mut other = claim(n);
    Arc::make_mut(&mut other.identity).namespace = "billing".to_owned();
    let running = bench.grant(&other).await;
    let completion = Completion { messages, ..running.completion("1") };
    assert_eq!(bench.complete(&completion).await, Written::Done);
}

fn of_topic(message: Message, topic: &str) -> Message {
    Message { topic: topic.to_owned(), ..message }
}

pub(in crate::testing::conformance) async fn claim_of_messages_is_filled_whatever_else_is_older(
    bench: &Bench,
) {
    send_in_another(bench, 1, vec![message(1), message(2)]).await;
    let others = vec![of_topic(message(3), "invoice"), of_topic(message(4), "invoice")];
    send(bench, 2, others).await;
    send(bench, 3, (5..=10).map(message).collect()).await;
    let earlier = claimed(bench, &relay(7, 6)).await;
    deliver(bench, &earlier[0]).await;
    let dead = DeliveryEndTo::Dead { error: "refused".to_owned() };
    assert_eq!(end(bench, &ended(&earlier[1], dead)).await, Written::Done);
    let review = DeliveryEndTo::Review { error: "cut off".to_owned() };
    assert_eq!(end(bench, &ended(&earlier[2], review)).await, Written::Done);
    assert_eq!(end(bench, &ended(&earlier[3], retry(900_000))).await, Written::Done);
    for message in &earlier[4..] {
        deliver(bench, message).await;
    }
    bench.age_s(LEASE_S + 60).await;
    send(bench, 4, vec![message(11)]).await;
    assert_eq!(claimed_one(bench, &relay(8, 1)).await.id, message_id(11));
}

pub(in crate::testing::conformance) async fn claim_sent_again_keeps_to_its_topic_and_namespace(
    bench: &Bench,
) {
    send_in_another(bench, 1, vec![message(1)]).await;
    send(bench, 2, vec![of_topic(message(2), "invoice"), message(3), message(4)]).await;
    let elsewhere = MessageClaim { namespace: "billing".to_owned(), ..relay(7, 10) };
    assert_eq!(claimed_one(bench, &elsewhere).await.id, message_id(1));
    let invoices = MessageClaim { topic: "invoice".to_owned(), ..relay(7, 10) };
    assert_eq!(claimed_one(bench, &invoices).await.id, message_id(2));
    let mine = claimed(bench, &relay(7, 10)).await;
    assert_eq!(ids(&mine), [message_id(3), message_id(4)]);
    // What has been ended since, however it was, is nobody's.
    assert_eq!(end(bench, &ended(&mine[1], retry(900_000))).await, Written::Done);
    let again = MessageClaim { again: true, rows_max: 0, ..relay(7, 10) };
    assert_eq!(claimed(bench, &again).await, mine[..1]);
}

pub(in crate::testing::conformance) async fn ordering_keys_of_two_namespaces_are_apart(
    bench: &Bench,
) {
    send_in_another(bench, 1, vec![ordered(1, "ada")]).await;
    send(bench, 2, vec![ordered(2, "ada")]).await;
    assert_eq!(claimed_one(bench, &relay(7, 10)).await.id, message_id(2));
}

pub(in crate::testing::conformance) async fn delivered_message_holds_back_nobody(bench: &Bench) {
    send(bench, 1, vec![ordered(1, "ada")]).await;
    let first = claimed_one(bench, &relay(7, 10)).await;
    deliver(bench, &first).await;
    send(bench, 2, vec![ordered(2, "ada"), ordered(3, "bob")]).await;
    let both = claimed(bench, &relay(7, 10)).await;
    assert_eq!(ids(&both), [message_id(2), message_id(3)]);
}

pub(in crate::testing::conformance) async fn list_of_messages_keeps_to_its_topic_and_namespace(
    bench: &Bench,
) {
    send_in_another(bench, 1, vec![message(1)]).await;
    send(bench, 2, vec![of_topic(message(2), "invoice"), message(3), message(4)]).await;
    let listed = async |topic: Option<&str>, rows_max| {
        let listing = MessageListing {
            namespace: "payments".to_owned(),
            topic: topic.map(str::to_owned),
            state: MessageState::Pending,
            after: None,
            rows_max,
        };
        ids(&bench.store().messages().list_messages(&listing).await.expect("list_messages"))
    };
    assert_eq!(listed(None, 10).await, [2, 3, 4].map(message_id));
    assert_eq!(listed(Some(TOPIC), 10).await, [3, 4].map(message_id));
    assert_eq!(listed(Some("invoice"), 10).await, [message_id(2)]);
    assert_eq!(listed(Some("Invoice"), 10).await, []);
    assert_eq!(listed(None, 2).await, [2, 3].map(message_id));
    assert_eq!(listed(None, 0).await, []);
}

pub(in crate::testing::conformance) async fn topic_without_an_undelivered_message_is_not_counted(
    bench: &Bench,
) {
    send(bench, 1, vec![message(1), of_topic(message(2), "invoice")]).await;
    deliver(bench, &claimed_one(bench, &relay(7, 10)).await).await;
    let counts = bench.store().messages().count_messages("payments").await.expect("count");
    let invoices = TopicCount { topic: "invoice".to_owned(), pending: 1, ..TopicCount::default() };
    assert_eq!(counts, [invoices]);
}
