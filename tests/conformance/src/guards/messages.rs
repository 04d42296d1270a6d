//! What PostgreSQL's statements about messages, and some about single executions, keep as it was.

use std::sync::Arc;

use idempotent_runtime::protocol::{
    Completion, DecideTo, DeliveryEnd, DeliveryEndTo, MessageClaim, MessageDecision, MessageId,
    MessageListing, MessageRecord, MessageState, Micros, Owner, ReleaseTo, Renewal, Renewed,
    Settled, StoredResult, Token, Written,
};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory;

use super::Fact;
use super::locks::{
    LATER, Place, claims_behind_an_insert, holding, message, opened, read, record, release,
    released, renewal, running, sending, sends, until_blocked,
};
use crate::postgres::PostgresFactory;
use crate::sql::{Sql, claim, delivered, granted, id, relay};

/// All of them.
pub(super) fn facts() -> Vec<Fact<PostgresFactory>> {
    vec![
        Fact::new("lapsed_delivery_is_reviewed_by_what_either_relay_says", either_relay),
        Fact::new("message_of_a_lapsed_relay_is_claimed_without_an_error", says_nothing),
        Fact::new("message_decided_delivered_stays_but_for_that", decided_delivered),
        Fact::new("message_decided_to_be_retried_begins_anew", decided_retry),
        Fact::new("released_delivery_is_not_counted", released_delivery),
        Fact::new("failed_delivery_goes_behind_those_that_are_due", failed_delivery),
        Fact::new("list_of_pending_messages_shows_none_that_is_sent", pending_alone),
        Fact::new("renewal_of_a_message_leaves_the_others", renewal_alone),
        Fact::new("completion_with_messages_is_fenced_by_owner_and_token", fenced),
        Fact::new("completion_elsewhere_is_of_one_execution", elsewhere_of_one),
        Fact::new(
            "completion_elsewhere_with_messages_keeps_why_it_has_no_result",
            elsewhere_absent,
        ),
        Fact::new("messages_without_an_ordering_key_wait_for_nobody", keyless),
        Fact::new("messages_elsewhere_without_an_ordering_key_wait_for_nobody", keyless_elsewhere),
        Fact::new("absent_execution_is_not_taken_for_finished_twins", absent_of_twins),
        Fact::new("renewals_of_one_owner_are_each_judged_by_their_token", renewals_by_token),
        Fact::new("release_without_a_delay_leaves_no_backoff", no_backoff),
        Fact::new("claim_of_an_issued_operation_that_waits_for_an_insert_finds_it", issued_finds),
    ]
}

/// A claim of messages that is answered with one, or has sent one to review.
pub(super) async fn claimed_by(
    store: &dyn Store,
    relay: MessageClaim,
) -> (Vec<MessageRecord>, usize) {
    let claimed = store.messages().claim_messages(&[relay]).await.expect("claim_messages");
    let claimed = claimed.into_iter().next().expect("one answer");
    (claimed.messages, claimed.reviewed.len())
}

/// A message that is there, and due.
pub(super) async fn sent(place: &Place) -> Arc<dyn Store> {
    let store = opened(place).await;
    let token = running(&*store).await;
    let sends = sends(token, vec![message(1, None)]);
    assert_eq!(store.complete(&[sends]).await.expect("complete"), [Written::Done]);
    store
}

async fn either_relay(place: Place) {
    for (first, second) in [(true, false), (false, true)] {
        place.place.execute(crate::sql::EMPTY).await;
        let store = sent(&place).await;
        let (messages, _) =
            claimed_by(&*store, MessageClaim { at_most_once: first, ..relay() }).await;
        assert_eq!(messages.len(), 1);
        place.age(LATER).await;
        let before = read(&*store).await;
        let owner = Owner([8; 16]);
        let next = MessageClaim { at_most_once: second, owner, ..relay() };
        assert_eq!(claimed_by(&*store, next).await, (Vec::new(), 1), "{first}");
        let after = read(&*store).await;
        let last_error = after.last_error.clone();
        assert!(last_error.is_some());
        let expected =
            MessageRecord { state: MessageState::Review, asks: true, last_error, ..before };
        assert_eq!(after, expected);
    }
}

async fn says_nothing(place: Place) {
    let store = sent(&place).await;
    for n in [8, 9] {
        let next = MessageClaim { owner: Owner([n; 16]), ..relay() };
        let (messages, _) = claimed_by(&*store, next).await;
        assert_eq!(messages[0].last_error, None);
        place.age(LATER).await;
    }
}

pub(super) async fn column(place: &Place, column: &str) -> Micros {
    let sql = format!(
        "SELECT (extract(epoch FROM {column}) * 1000000)::bigint FROM idempotent_outbox
         WHERE id = repeat('01', 16)::uuid"
    );
    let value = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(place.place.pool()).await;
    Micros(value.expect("it is there"))
}

/// A message whose delivery failed for good, decided, as it was before and is after.
async fn decided(place: &Place, to: DecideTo, at_most_once: bool) -> [(MessageRecord, Micros); 2] {
    let store = sent(place).await;
    let relay = MessageClaim { at_most_once, ..relay() };
    let (messages, _) = claimed_by(&*store, relay).await;
    let dead = DeliveryEndTo::Dead { error: "refused".to_owned() };
    let end = DeliveryEnd { to: dead, ..delivered(&messages[0]) };
    let ended = store.messages().end_deliveries(&[end]).await.expect("end_deliveries");
    assert_eq!(ended, [Written::Done]);
    place.age(LATER).await;
    let before = read(&*store).await;
    let queued_at = column(place, "queued_at").await;
    let note = "ada: looked it up".to_owned();
    let decision = MessageDecision { id: before.id, seen: before.token, to, note };
    let decided = store.messages().decide_messages(&[decision]).await.expect("decide_messages");
    assert_eq!(decided, [Settled::Done]);
    let after = read(&*store).await;
    [(before, queued_at), (after, column(place, "queued_at").await)]
}

async fn decided_delivered(place: Place) {
    for at_most_once in [true, false] {
        place.place.execute(crate::sql::EMPTY).await;
        let [(before, was_queued_at), (after, queued_at)] =
            decided(&place, DecideTo::Delivered, at_most_once).await;
        assert!(after.token > before.token && after.done_at.is_some());
        assert_eq!(before.at_most_once, at_most_once);
        let expected = MessageRecord {
            state: MessageState::Delivered,
            token: after.token,
            done_at: after.done_at,
            last_error: after.last_error.clone(),
            ..before
        };
        assert_eq!((after, queued_at), (expected, was_queued_at));
    }
}

async fn decided_retry(place: Place) {
    let [(before, was_queued_at), (after, queued_at)] =
        decided(&place, DecideTo::Retry, true).await;
    assert!(queued_at > was_queued_at && after.token > before.token);
    let expected = MessageRecord {
        state: MessageState::Pending,
        token: after.token,
        last_error: after.last_error.clone(),
        attempts: 0,
        at_most_once: false,
        due_at: queued_at,
        ..before
    };
    assert_eq!(after, expected);
}

/// Ends the delivery of the first message.
async fn ended(store: &dyn Store, to: DeliveryEndTo) {
    let (messages, _) = claimed_by(store, relay()).await;
    let end = DeliveryEnd { to, ..delivered(&messages[0]) };
    let ended = store.messages().end_deliveries(&[end]).await.expect("end_deliveries");
    assert_eq!(ended, [Written::Done]);
}

async fn released_delivery(place: Place) {
    let store = sent(&place).await;
    let (messages, _) = claimed_by(&*store, relay()).await;
    let end = DeliveryEnd { to: DeliveryEndTo::Released, ..delivered(&messages[0]) };
    // One that is counted, and one that another hand has counted down.
    place.place.execute("UPDATE idempotent_outbox SET attempts = 1").await;
    store.messages().end_deliveries(&[end]).await.expect("end_deliveries");
    assert_eq!(read(&*store).await.attempts, 0);
    let (messages, _) = claimed_by(&*store, relay()).await;
    let end = DeliveryEnd { to: DeliveryEndTo::Released, ..delivered(&messages[0]) };
    place.place.execute("UPDATE idempotent_outbox SET attempts = 0").await;
    store.messages().end_deliveries(&[end]).await.expect("end_deliveries");
    assert_eq!(read(&*store).await.attempts, 0);
}

async fn failed_delivery(place: Place) {
    let store = sent(&place).await;
    let queued_at = column(&place, "queued_at").await;
    let error = "it is closed".to_owned();
    ended(&*store, DeliveryEndTo::Retry { delay_ms: 60_000, error }).await;
    assert!(column(&place, "queued_at").await >= queued_at.plus_ms(60_000));
}

async fn pending_alone(place: Place) {
    let store = opened(&place).await;
    sending(&*store).await;
    let listing = |state| MessageListing {
        namespace: "payments".to_owned(),
        topic: None,
        state,
        after: None,
        rows_max: 10,
    };
    for (state, shown) in [(MessageState::Pending, 0), (MessageState::Sending, 2)] {
        let listed = store.messages().list_messages(&listing(state)).await;
        assert_eq!(listed.expect("list_messages").len(), shown, "{state:?}");
    }
}

async fn renewal_alone(place: Place) {
    let store = opened(&place).await;
    let messages = sending(&*store).await;
    let second = messages.iter().find(|message| message.id == MessageId([2; 16]));
    let renewal = renewal(second.expect("it is sent"));
    let before = read(&*store).await;
    let renewed = store.messages().renew_messages(&[renewal]).await.expect("renew_messages");
    assert_eq!(renewed, [Renewed::Renewed]);
    assert_eq!(read(&*store).await, before);
}

async fn fenced(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let own = sends(token, vec![message(1, None)]);
    let fenced = [
        Completion { owner: Owner([9; 16]), ..own.clone() },
        Completion { token: Token(token.0 - 1), ..own },
    ];
    let before = record(&*store).await;
    for completion in fenced {
        let answer = store.complete(std::slice::from_ref(&completion)).await.expect("complete");
        assert_eq!(answer, [Written::Fenced], "{completion:?}");
        assert_eq!(record(&*store).await, before);
    }
}

/// Completes on a connection of its own, and says how many rows the statements affect.
async fn elsewhere(place: &Place, store: &dyn Store, completion: &Completion) -> Vec<u64> {
    let statements = store.completion(completion).expect("it is open").expect("it has SQL");
    let mut own = place.elsewhere().await.expect("it has a connection");
    let mut rows = Vec::new();
    for statement in &statements {
        rows.push(own.run(statement).await);
    }
    own.commit().await;
    rows
}

async fn elsewhere_of_one(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let mut twin = claim(2);
    twin.owner = Owner([1; 16]);
    granted(&*store, &twin).await;
    let alike = format!("UPDATE idempotent_execution SET token = {}", token.0);
    place.place.execute(&alike).await;
    assert_eq!(elsewhere(&place, &*store, &sends(token, Vec::new())).await, [1]);
}

async fn elsewhere_absent(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let result = StoredResult::Absent { reason: "it has no JSON".to_owned() };
    let completion = Completion { result: result.clone(), ..sends(token, vec![message(1, None)]) };
    assert_eq!(elsewhere(&place, &*store, &completion).await, [1]);
    assert_eq!(record(&*store).await.result, Some(result));
}

/// Somebody else commits under what all messages without a key would have in common; nobody waits for that.
async fn waits_for_nobody(place: &Place, call: impl Future<Output = ()>) {
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(chr(1), 'payments', 'receipt', NULL), 7))";
    let session = holding(place, lock).await;
    tokio::select! {
        biased;
        () = until_blocked(place) => panic!("it waits"),
        () = call => {}
    }
    release(session).await;
}

async fn keyless(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let sends = sends(token, vec![message(1, None)]);
    waits_for_nobody(&place, async {
        assert_eq!(store.complete(&[sends]).await.expect("complete"), [Written::Done]);
    })
    .await;
}

async fn keyless_elsewhere(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let sends = sends(token, vec![message(1, None)]);
    waits_for_nobody(&place, async {
        assert_eq!(elsewhere(&place, &*store, &sends).await, [1]);
    })
    .await;
}

async fn absent_of_twins(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    assert_eq!(
        store.complete(&[sends(token, Vec::new())]).await.expect("complete"),
        [Written::Done]
    );
    let absent = Completion { id: id(3), ..sends(token, Vec::new()) };
    assert_eq!(store.complete(&[absent]).await.expect("complete"), [Written::Fenced]);
}

async fn renewals_by_token(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let renewal = |token| Renewal { id: id(1), owner: Owner([1; 16]), token };
    let both = [renewal(token), renewal(Token(token.0 - 1))];
    let answers = store.renew(&both).await.expect("renew");
    assert_eq!(answers, [Renewed::Renewed, Renewed::Lost]);
}

async fn no_backoff(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    released(&*store, token, ReleaseTo::Retry { delay_ms: 0 }).await;
    assert_eq!(record(&*store).await.not_before, None);
}

async fn issued_finds(place: Place) {
    claims_behind_an_insert(place, |claim, token| {
        claim.owner = Owner([9; 16]);
        claim.issued_at = Some(Micros(token.0));
    })
    .await;
}
