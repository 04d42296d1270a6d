//! The outbox: what a completion sends is there with it, and relays deliver it one at a time.

mod deliveries;
mod others;
mod outlive;

use std::sync::Arc;

use super::bench::*;
use crate::protocol::{
    Completion, DecideTo, DeliveryEnd, DeliveryEndTo, Message, MessageClaim, MessageDecision,
    MessageId, MessageListing, MessageRecord, MessageRenewal, MessageState, MessagesClaimed,
    Micros, Owner, REASON_DELIVERY_LAPSED, Renewed, Settled, Token, TopicCount, Written,
};

pub(super) use deliveries::*;
pub(super) use others::*;
pub(super) use outlive::*;

const TOPIC: &str = "receipt";

pub(super) fn message_id(n: u16) -> MessageId {
    let mut bytes = [0x3C; 16];
    bytes[14..].copy_from_slice(&n.to_be_bytes());
    MessageId(bytes)
}

pub(super) fn message(n: u16) -> Message {
    Message {
        id: message_id(n),
        topic: TOPIC.to_owned(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"{\"a\":\"\\u0000\"}".to_vec(),
        delay_ms: 0,
    }
}

fn ordered(n: u16, key: &str) -> Message {
    Message { ordering_key: Some(key.to_owned()), ..message(n) }
}

fn relay(by: u16, rows_max: u32) -> MessageClaim {
    MessageClaim {
        namespace: "payments".to_owned(),
        topic: TOPIC.to_owned(),
        owner: owner(by),
        lease_ms: LEASE_S * 1_000,
        at_most_once: false,
        reconciles: false,
        rows_max,
        since: Micros(0),
        again: false,
    }
}

fn once(by: u16) -> MessageClaim {
    MessageClaim { at_most_once: true, ..relay(by, 10) }
}

fn asking(by: u16) -> MessageClaim {
    MessageClaim { reconciles: true, ..once(by) }
}

fn ended(message: &MessageRecord, to: DeliveryEndTo) -> DeliveryEnd {
    DeliveryEnd { id: message.id, owner: message.owner, token: message.token, to }
}

fn retry(delay_ms: u64) -> DeliveryEndTo {
    DeliveryEndTo::Retry { delay_ms, error: "away: ü".to_owned() }
}

/// Completes the `n`th execution with messages.
async fn send(bench: &Bench, n: u16, messages: Vec<Message>) {
    let running = bench.running(n).await;
    let completion = Completion { messages, ..running.completion("1") };
    assert_eq!(bench.complete(&completion).await, Written::Done);
}

async fn claim_all(bench: &Bench, claim: &MessageClaim) -> MessagesClaimed {
    let answers = bench.store().messages().claim_messages(std::slice::from_ref(claim)).await;
    only(answers.expect("claim_messages"))
}

async fn claimed(bench: &Bench, claim: &MessageClaim) -> Vec<MessageRecord> {
    claim_all(bench, claim).await.messages
}

async fn claimed_one(bench: &Bench, claim: &MessageClaim) -> MessageRecord {
    only(claimed(bench, claim).await)
}

async fn end(bench: &Bench, end: &DeliveryEnd) -> Written {
    let answers = bench.store().messages().end_deliveries(std::slice::from_ref(end)).await;
    only(answers.expect("end_deliveries"))
}

async fn deliver(bench: &Bench, message: &MessageRecord) {
    let delivered = ended(message, DeliveryEndTo::Delivered);
    assert_eq!(end(bench, &delivered).await, Written::Done);
}

/// Delivers what is due, and leaves one message in flight.
pub(super) async fn deliver_all_but(bench: &Bench, left: MessageId) {
    for sending in claimed(bench, &relay(7, 10)).await {
        if sending.id != left {
            deliver(bench, &sending).await;
        }
    }
}

async fn decide(bench: &Bench, message: &MessageRecord, to: DecideTo) -> Settled {
    let note = "ada: looked it up".to_owned();
    let decision = MessageDecision { id: message.id, seen: message.token, to, note };
    only(bench.store().messages().decide_messages(&[decision]).await.expect("decide_messages"))
}

async fn read(bench: &Bench, n: u16) -> Option<MessageRecord> {
    only(bench.store().messages().read_messages(&[message_id(n)]).await.expect("read_messages"))
}

async fn record(bench: &Bench, n: u16) -> MessageRecord {
    read(bench, n).await.expect("the message is there")
}

async fn list(bench: &Bench, state: MessageState, after: Option<i64>) -> Vec<MessageRecord> {
    let listing = MessageListing {
        namespace: "payments".to_owned(),
        topic: None,
        state,
        after,
        rows_max: 10,
    };
    bench.store().messages().list_messages(&listing).await.expect("list_messages")
}

fn ids(messages: &[MessageRecord]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

pub(super) async fn message_is_there_with_its_completion(bench: &Bench) {
    let headers = vec![("kind".to_owned(), "mäil".to_owned()), ("kind".to_owned(), String::new())];
    let sent = Message { headers, delay_ms: 90_000, ..ordered(1, "ada & söhne") };
    let from = bench.now().await;
    send(bench, 1, vec![sent.clone()]).await;
    let until = bench.now().await;
    let stored = record(bench, 1).await;
    assert_instant(stored.created_at, 0, from, until);
    assert_instant(stored.due_at, 90, from, until);
    let expected = MessageRecord {
        created_at: stored.created_at,
        due_at: stored.due_at,
        ..crate::protocol::send(&sent, id(1), "payments", stored.seq, stored.created_at)
    };
    assert_eq!(stored, expected);
}

pub(super) async fn failure_sends_no_message(bench: &Bench) {
    let running = bench.running(1).await;
    let failure = Completion { messages: vec![message(1)], ..running.failure("1") };
    assert_eq!(bench.complete(&failure).await, Written::Done);
    assert_eq!(read(bench, 1).await, None);
}

pub(super) async fn fenced_completion_sends_no_message(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    bench.succeed(&lapsed.taken_over_by(2)).await;
    let late = Completion { messages: vec![message(1)], ..lapsed.completion("1") };
    assert_eq!(bench.complete(&late).await, Written::Fenced);
    assert_eq!(read(bench, 1).await, None);
}

pub(super) async fn completion_sent_twice_sends_its_messages_once(bench: &Bench) {
    let running = bench.running(1).await;
    let completion = Completion { messages: vec![message(1)], ..running.completion("1") };
    assert_eq!(bench.complete(&completion).await, Written::Done);
    assert_eq!(bench.complete(&completion).await, Written::Done);
    assert_eq!(claimed(bench, &relay(7, 10)).await.len(), 1);
}

pub(super) async fn claim_of_messages_leases_them(bench: &Bench) {
    send(bench, 1, vec![message(1)]).await;
    let before = record(bench, 1).await;
    let from = bench.now().await;
    let sending = claimed_one(bench, &relay(7, 10)).await;
    let until = bench.now().await;
    assert_instant(sending.due_at, LEASE_S, from, until);
    assert!(sending.token > before.token);
    let expected = MessageRecord {
        state: MessageState::Sending,
        attempts: 1,
        owner: owner(7),
        token: sending.token,
        due_at: sending.due_at,
        ..before
    };
    assert_eq!((&sending, &record(bench, 1).await), (&expected, &expected));
}

pub(super) async fn claimed_message_is_not_claimed_again(bench: &Bench) {
    send(bench, 1, vec![message(1)]).await;
    claimed_one(bench, &relay(7, 10)).await;
    assert_eq!(claim_all(bench, &relay(8, 10)).await, MessagesClaimed::default());
}

pub(super) async fn claim_of_messages_takes_at_most_rows_max_and_the_oldest(bench: &Bench) {
    send(bench, 1, (1..=5).map(message).collect()).await;
    let first = claimed(bench, &relay(7, 2)).await;
    let second = claimed(bench, &relay(8, 10)).await;
    assert_eq!(ids(&first), [message_id(1), message_id(2)]);
    assert_eq!(ids(&second), [message_id(3), message_id(4), message_id(5)]);
    assert_eq!(claimed(bench, &relay(9, 0)).await, []);
}

pub(super) async fn claim_of_messages_keeps_to_its_topic_and_namespace(bench: &Bench) {
    send(bench, 1, vec![Message { topic: "receipts".to_owned(), ..message(1) }]).await;
    let mut elsewhere = claim(2);
    Arc::make_mut(&mut elsewhere.identity).namespace = "Payments".to_owned();
    let running = bench.grant(&elsewhere).await;
    let completion = Completion { messages: vec![message(2)], ..running.completion("1") };
    assert_eq!(bench.complete(&completion).await, Written::Done);
    assert_eq!(claimed(bench, &relay(7, 10)).await, []);
    let topic = MessageClaim { topic: "receipts".to_owned(), ..relay(7, 10) };
    assert_eq!(claimed_one(bench, &topic).await.id, message_id(1));
    let namespace = MessageClaim { namespace: "Payments".to_owned(), ..relay(7, 10) };
    assert_eq!(claimed_one(bench, &namespace).await.id, message_id(2));
}

pub(super) async fn delayed_message_is_claimed_once_it_is_due(bench: &Bench) {
    send(bench, 1, vec![Message { delay_ms: 600_000, ..message(1) }]).await;
    bench.age_s(540).await;
    assert_eq!(claimed(bench, &relay(7, 10)).await, []);
    bench.age_s(120).await;
    assert_eq!(claimed_one(bench, &relay(7, 10)).await.id, message_id(1));
}

pub(super) async fn message_of_a_lapsed_relay_is_claimed_under_a_raised_token(bench: &Bench) {
    send(bench, 1, vec![message(1)]).await;
    let first = claimed_one(bench, &relay(7, 10)).await;
    bench.age_s(LEASE_S + 60).await;
    let second = claimed_one(bench, &relay(8, 10)).await;
    assert_eq!((second.owner, second.attempts, second.asks), (owner(8), 2, false));
    assert!(second.token > first.token);
    // The relay of before can do nothing more.
    let late = ended(&first, DeliveryEndTo::Delivered);
    assert_eq!(end(bench, &late).await, Written::Fenced);
    assert_eq!(record(bench, 1).await, second);
}

pub(super) async fn lapsed_delivery_at_most_once_goes_to_review(bench: &Bench) {
    send(bench, 1, vec![message(1)]).await;
    let first = claimed_one(bench, &once(7)).await;
    bench.age_s(LEASE_S + 60).await;
    let answer = claim_all(bench, &once(8)).await;
    assert_eq!(answer, MessagesClaimed { messages: Vec::new(), reviewed: vec![message_id(1)] });
    let review = record(bench, 1).await;
    assert_eq!(
        (review.state, review.owner, review.token),
        (MessageState::Review, owner(7), first.token)
    );
    assert_eq!(review.last_error.as_deref(), Some(REASON_DELIVERY_LAPSED));
    assert_eq!(ids(&list(bench, MessageState::Review, None).await), [message_id(1)]);
}

pub(super) async fn lapsed_delivery_is_asked_about_where_somebody_can_be_asked(bench: &Bench) {
    send(bench, 1, vec![message(1)]).await;
    assert!(!claimed_one(bench, &asking(7)).await.asks);
    bench.age_s(LEASE_S + 60).await;
    let asked = claimed_one(bench, &asking(8)).await;
    assert!(asked.asks && asked.at_most_once);
    // It is asked about until somebody knows.
    let later = DeliveryEndTo::Ask { delay_ms: 0, error: "no answer".to_owned() };
    assert_eq!(end(bench, &ended(&asked, later)).await, Written::Done);
    assert!(claimed_one(bench, &asking(9)).await.asks);
}

pub(super) async fn message_to_be_asked_about_goes_to_review_where_nobody_can_be_asked(
    bench: &Bench,
) {
    send(bench, 1, vec![message(1)]).await;
    let sending = claimed_one(bench, &asking(7)).await;
    let ask = DeliveryEndTo::Ask { delay_ms: 0, error: "cut off".to_owned() };
    assert_eq!(end(bench, &ended(&sending, ask)).await, Written::Done);
    let answer = claim_all(bench, &relay(8, 10)).await;
    assert_eq!(answer.reviewed, [message_id(1)]);
    assert_eq!(record(bench, 1).await.last_error.as_deref(), Some("cut off"));
}

pub(super) async fn claim_sent_again_answers_what_it_claimed_before(bench: &Bench) {
    send(bench, 1, vec![message(1), message(2)]).await;
    let first = claimed(bench, &relay(7, 1)).await;
    let again = MessageClaim { again: true, rows_max: 0, ..relay(7, 1) };
    assert_eq!(claimed(bench, &again).await, first);
    let stranger = MessageClaim { again: true, rows_max: 0, ..relay(8, 1) };
    assert_eq!(claimed(bench, &stranger).await, []);
    deliver(bench, &first[0]).await;
    assert_eq!(claimed(bench, &again).await, []);
}

pub(super) async fn ordering_key_has_one_message_in_flight(bench: &Bench) {
    send(bench, 1, vec![ordered(1, "ada"), ordered(2, "ada"), ordered(3, "bob"), message(4)]).await;
    send(bench, 2, vec![ordered(5, "ada")]).await;
    let first = claimed(bench, &relay(7, 10)).await;
    assert_eq!(ids(&first), [message_id(1), message_id(3), message_id(4)]);
    assert_eq!(claimed(bench, &relay(8, 10)).await, []);
    deliver(bench, &first[0]).await;
    let second = claimed_one(bench, &relay(8, 10)).await;
    assert_eq!(second.id, message_id(2));
    deliver(bench, &second).await;
    assert_eq!(claimed_one(bench, &relay(9, 10)).await.id, message_id(5));
}

pub(super) async fn undelivered_message_holds_back_those_of_its_ordering_key(bench: &Bench) {
    send(bench, 1, vec![ordered(1, "ada"), ordered(2, "ada")]).await;
    let first = claimed_one(bench, &relay(7, 10)).await;
    assert_eq!(end(bench, &ended(&first, retry(600_000))).await, Written::Done);
    assert_eq!(claimed(bench, &relay(8, 10)).await, []);
    bench.age_s(660).await;
    let again = claimed_one(bench, &relay(8, 10)).await;
    assert_eq!(again.id, message_id(1));
    let dead = DeliveryEndTo::Dead { error: "refused".to_owned() };
    assert_eq!(end(bench, &ended(&again, dead)).await, Written::Done);
    assert_eq!(claimed(bench, &relay(9, 10)).await, []);
    assert_eq!(decide(bench, &record(bench, 1).await, DecideTo::Delivered).await, Settled::Done);
    assert_eq!(claimed_one(bench, &relay(9, 10)).await.id, message_id(2));
}

pub(super) async fn ordering_keys_of_two_topics_are_apart(bench: &Bench) {
    let other = Message { topic: "invoice".to_owned(), ..ordered(1, "ada") };
    send(bench, 1, vec![other, ordered(2, "ada")]).await;
    assert_eq!(claimed_one(bench, &relay(7, 10)).await.id, message_id(2));
}
