use proptest::prelude::*;

use super::*;
use crate::protocol::MessageId;

const LEASE_MS: u64 = 30_000;
const NOW: Micros = Micros(1_000_000_000);

fn later(ms: u64) -> Micros {
    NOW.plus_ms(ms)
}

fn pending() -> MessageRecord {
    let message = Message {
        id: MessageId([7; 16]),
        topic: "receipt".to_owned(),
        ordering_key: None,
        headers: vec![("kind".to_owned(), "mail".to_owned())],
        body: b"1".to_vec(),
        delay_ms: 0,
    };
    send(&message, ExecutionId([1; 16]), "payments", 4, NOW)
}

fn claim(by: u8) -> MessageClaim {
    MessageClaim {
        namespace: "payments".to_owned(),
        topic: "receipt".to_owned(),
        owner: Owner([by; 16]),
        lease_ms: LEASE_MS,
        at_most_once: false,
        reconciles: false,
        rows_max: 10,
        since: Micros(0),
        again: false,
    }
}

fn once(by: u8) -> MessageClaim {
    MessageClaim { at_most_once: true, ..claim(by) }
}

fn asking(by: u8) -> MessageClaim {
    MessageClaim { reconciles: true, ..once(by) }
}

fn end(record: &MessageRecord, to: DeliveryEndTo) -> DeliveryEnd {
    DeliveryEnd { id: record.id, owner: record.owner, token: record.token, to }
}

fn error() -> String {
    "the server was away".to_owned()
}

/// Claims what must be claimable.
fn take(record: &MessageRecord, claim: &MessageClaim, now: Micros) -> MessageRecord {
    claim_message(record, false, claim, now).expect("it is claimable")
}

/// Ends a delivery that must be one.
fn ended(record: &MessageRecord, to: DeliveryEndTo, now: Micros) -> MessageRecord {
    let (write, answer) = end_delivery(Some(record), &end(record, to), now);
    assert_eq!(answer, Written::Done);
    write.expect("something is written")
}

#[test]
fn a_message_is_pending_until_its_delay_is_over() {
    let delayed = MessageRecord { due_at: later(5_000), ..pending() };
    assert_eq!(claim_message(&delayed, false, &claim(1), later(4_999)), None);
    assert_eq!(take(&delayed, &claim(1), later(5_000)).state, MessageState::Sending);
}

#[test]
fn a_delivery_that_lapsed_and_must_not_be_repeated_stays_one_to_ask_about() {
    let sending = take(&pending(), &once(1), NOW);
    let reviewed = take(&sending, &once(2), later(LEASE_MS + 1));
    let expected = MessageRecord {
        state: MessageState::Review,
        asks: true,
        last_error: Some(REASON_DELIVERY_LAPSED.to_owned()),
        ..sending
    };
    assert_eq!(reviewed, expected);
}

#[test]
fn a_claim_leases_and_raises_token_and_attempts() {
    let sending = take(&pending(), &claim(1), NOW);
    let expected = MessageRecord {
        state: MessageState::Sending,
        attempts: 1,
        owner: Owner([1; 16]),
        token: Token(NOW.0),
        due_at: later(LEASE_MS),
        ..pending()
    };
    assert_eq!(sending, expected);
    let second = take(&sending, &claim(2), Micros(sending.due_at.0 + 1));
    assert!(second.token > sending.token && second.attempts == 2);
}

#[test]
fn what_is_held_back_or_of_another_topic_or_namespace_is_not_claimed() {
    assert_eq!(claim_message(&pending(), true, &claim(1), NOW), None);
    let topic = MessageClaim { topic: "invoice".to_owned(), ..claim(1) };
    assert_eq!(claim_message(&pending(), false, &topic, NOW), None);
    let namespace = MessageClaim { namespace: "other".to_owned(), ..claim(1) };
    assert_eq!(claim_message(&pending(), false, &namespace, NOW), None);
}

#[test]
fn a_lease_that_has_not_lapsed_is_respected() {
    let sending = take(&pending(), &claim(1), NOW);
    assert_eq!(claim_message(&sending, false, &claim(2), sending.due_at), None);
}

#[test]
fn a_lapsed_delivery_at_most_once_goes_to_review() {
    let sending = take(&pending(), &once(1), NOW);
    let after = Micros(sending.due_at.0 + 1);
    for by in [once(2), claim(2)] {
        let review = take(&sending, &by, after);
        assert_eq!(review.state, MessageState::Review);
        assert_eq!(review.last_error.as_deref(), Some(REASON_DELIVERY_LAPSED));
        assert_eq!((review.owner, review.token), (sending.owner, sending.token));
    }
}

#[test]
fn a_lapsed_delivery_at_most_once_asks_where_somebody_can_be_asked() {
    let sending = take(&pending(), &once(1), NOW);
    let asked = take(&sending, &asking(2), Micros(sending.due_at.0 + 1));
    assert_eq!((asked.state, asked.asks, asked.attempts), (MessageState::Sending, true, 2));
    // It keeps asking until somebody knows.
    let again = take(&asked, &asking(3), Micros(asked.due_at.0 + 1));
    assert!(again.asks);
    assert_eq!(take(&again, &claim(4), Micros(again.due_at.0 + 1)).state, MessageState::Review);
}

#[test]
fn a_lapsed_blind_delivery_is_not_repeated_when_the_sink_became_at_most_once() {
    let sending = take(&pending(), &claim(1), NOW);
    let after = Micros(sending.due_at.0 + 1);
    assert_eq!(take(&sending, &once(2), after).state, MessageState::Review);
}

#[test]
fn renewing_prolongs_only_the_own_lease() {
    let sending = take(&pending(), &claim(1), NOW);
    let mine = MessageRenewal {
        id: sending.id,
        owner: sending.owner,
        token: sending.token,
        lease_ms: LEASE_MS,
    };
    let (write, answer) = renew_message(Some(&sending), &mine, later(10_000));
    assert_eq!(answer, Renewed::Renewed);
    assert_eq!(write.map(|record| record.due_at), Some(later(10_000 + LEASE_MS)));
    let second = take(&sending, &claim(2), Micros(sending.due_at.0 + 1));
    assert_eq!(renew_message(Some(&second), &mine, NOW), (None, Renewed::Lost));
    assert_eq!(renew_message(None, &mine, NOW), (None, Renewed::Lost));
}

#[test]
fn each_end_leads_where_it_says() {
    let sending = take(&pending(), &once(1), NOW);
    let to = |to| ended(&sending, to, later(1_000));
    let delivered = to(DeliveryEndTo::Delivered);
    assert_eq!((delivered.state, delivered.done_at), (MessageState::Delivered, Some(later(1_000))));
    let retry = to(DeliveryEndTo::Retry { delay_ms: 500, error: error() });
    assert_eq!(
        (retry.state, retry.due_at, retry.asks),
        (MessageState::Pending, later(1_500), false)
    );
    assert_eq!(retry.last_error, Some(error()));
    let ask = to(DeliveryEndTo::Ask { delay_ms: 500, error: error() });
    assert_eq!((ask.state, ask.due_at, ask.asks), (MessageState::Pending, later(1_500), true));
    assert_eq!(to(DeliveryEndTo::Dead { error: error() }).state, MessageState::Dead);
    assert_eq!(to(DeliveryEndTo::Review { error: error() }).state, MessageState::Review);
    let released = to(DeliveryEndTo::Released);
    assert_eq!((released.state, released.attempts), (MessageState::Pending, 0));
}

#[test]
fn an_end_sent_twice_is_done_both_times_and_written_once() {
    let sending = take(&pending(), &claim(1), NOW);
    for to in [
        DeliveryEndTo::Delivered,
        DeliveryEndTo::Retry { delay_ms: 5, error: error() },
        DeliveryEndTo::Dead { error: error() },
        DeliveryEndTo::Released,
    ] {
        let request = end(&sending, to);
        let (write, _) = end_delivery(Some(&sending), &request, NOW);
        assert_eq!(end_delivery(write.as_ref(), &request, later(1)), (None, Written::Done));
    }
}

#[test]
fn an_end_of_an_older_claim_is_fenced() {
    let first = take(&pending(), &claim(1), NOW);
    let second = take(&first, &claim(2), Micros(first.due_at.0 + 1));
    let late = end(&first, DeliveryEndTo::Delivered);
    assert_eq!(end_delivery(Some(&second), &late, NOW), (None, Written::Fenced));
    assert_eq!(end_delivery(None, &late, NOW), (None, Written::Fenced));
}

#[test]
fn a_late_acknowledgement_clears_a_review() {
    let sending = take(&pending(), &once(1), NOW);
    let review = take(&sending, &once(2), Micros(sending.due_at.0 + 1));
    let (write, answer) =
        end_delivery(Some(&review), &end(&sending, DeliveryEndTo::Delivered), NOW);
    assert_eq!(answer, Written::Done);
    assert_eq!(write.map(|record| record.state), Some(MessageState::Delivered));
}

#[test]
fn a_person_retries_or_closes_what_is_dead_or_in_review() {
    let sending = take(&pending(), &once(1), NOW);
    for held in [
        ended(&sending, DeliveryEndTo::Dead { error: error() }, NOW),
        ended(&sending, DeliveryEndTo::Review { error: error() }, NOW),
    ] {
        let decision =
            |to| MessageDecision { id: held.id, seen: held.token, to, note: "ada".to_owned() };
        let (retried, answer) = decide_message(Some(&held), &decision(DecideTo::Retry), later(9));
        let retried = retried.expect("written");
        assert_eq!(answer, Settled::Done);
        assert_eq!(
            (retried.state, retried.attempts, retried.due_at),
            (MessageState::Pending, 0, later(9))
        );
        assert!(retried.token > held.token);
        // The relay of before is fenced, and a second person, too.
        let late = end(&sending, DeliveryEndTo::Delivered);
        assert_eq!(end_delivery(Some(&retried), &late, NOW), (None, Written::Fenced));
        let again = decide_message(Some(&retried), &decision(DecideTo::Delivered), NOW);
        assert_eq!(again, (None, Settled::Outrun));
        let (closed, _) = decide_message(Some(&held), &decision(DecideTo::Delivered), later(9));
        assert_eq!(closed.map(|record| record.state), Some(MessageState::Delivered));
    }
}

#[test]
fn only_the_delivered_expire_and_hold_nobody_back() {
    let sending = take(&pending(), &claim(1), NOW);
    let delivered = ended(&sending, DeliveryEndTo::Delivered, NOW);
    assert!(!holds_back(&delivered) && !message_expired(&delivered, 1_000, later(1_000)));
    assert!(message_expired(&delivered, 1_000, Micros(later(1_000).0 + 1)));
    let dead = ended(&sending, DeliveryEndTo::Dead { error: error() }, NOW);
    for held in [pending(), sending, dead] {
        assert!(holds_back(&held) && !message_expired(&held, 0, later(u64::MAX)));
    }
}

#[derive(Clone, Debug)]
enum Event {
    Claim(MessageClaim),
    End(DeliveryEndTo),
    Lapse,
}

fn event() -> impl Strategy<Value = Event> {
    let error = error();
    prop_oneof![
        (1..4_u8, any::<bool>())
            .prop_map(|(by, asks)| { Event::Claim(if asks { asking(by) } else { once(by) }) }),
        Just(Event::End(DeliveryEndTo::Delivered)),
        Just(Event::End(DeliveryEndTo::Ask { delay_ms: 1, error: error.clone() })),
        Just(Event::End(DeliveryEndTo::Review { error })),
        Just(Event::Lapse),
    ]
}

proptest! {
    /// At most one claim of a sink that delivers at most once begins without being told to ask, unless a relay said
    /// that nothing was delivered.
    #[test]
    fn at_most_once_begins_blindly_once(events in prop::collection::vec(event(), 1..40)) {
        let (mut record, mut now, mut blind) = (pending(), NOW, 0);
        for event in events {
            match event {
                Event::Claim(claim) => {
                    if let Some(next) = claim_message(&record, false, &claim, now) {
                        blind += u32::from(next.state == MessageState::Sending && !next.asks);
                        record = next;
                    }
                }
                Event::End(to) => {
                    let request = end(&record, to);
                    if let (Some(next), _) = end_delivery(Some(&record), &request, now) {
                        record = next;
                    }
                }
                Event::Lapse => now = now.plus_ms(LEASE_MS + 1),
            }
        }
        prop_assert!(blind <= 1);
    }
}
