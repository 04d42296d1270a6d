//! How deliveries end, what a person decides, and what is purged.

use super::*;

pub(in crate::testing::conformance) async fn renewal_of_a_message_prolongs_its_lease(
    bench: &Bench,
) {
    send(bench, 1, vec![message(1)]).await;
    let MessageRecord { id, owner, token, .. } = claimed_one(bench, &relay(7, 10)).await;
    bench.age_s(LEASE_S - 60).await;
    let mine = MessageRenewal { id, owner, token, lease_ms: LEASE_S * 1_000 };
    let wrong_owner = MessageRenewal { owner: Owner([9; 16]), ..mine };
    let wrong_token = MessageRenewal { token: Token(token.0 + 1), ..mine };
    let absent = MessageRenewal { id: message_id(9), ..mine };
    let messages = bench.store().messages();
    let answers = messages.renew_messages(&[wrong_owner, mine, wrong_token, absent]).await;
    let expected = [Renewed::Lost, Renewed::Renewed, Renewed::Lost, Renewed::Lost];
    assert_eq!(answers.expect("renew_messages"), expected);
    bench.age_s(120).await;
    assert_eq!(claimed(bench, &relay(8, 10)).await, []);
    bench.age_s(LEASE_S).await;
    assert_eq!(claimed_one(bench, &relay(8, 10)).await.id, id);
    assert_eq!(messages.renew_messages(&[mine]).await.expect("renew_messages"), [Renewed::Lost]);
    let taken = record(bench, 1).await;
    deliver(bench, &taken).await;
    let late = MessageRenewal { owner: taken.owner, token: taken.token, ..mine };
    assert_eq!(messages.renew_messages(&[late]).await.expect("renew_messages"), [Renewed::Lost]);
}

pub(in crate::testing::conformance) async fn delivered_message_is_done(bench: &Bench) {
    send(bench, 1, vec![message(1)]).await;
    let sending = claimed_one(bench, &relay(7, 10)).await;
    let from = bench.now().await;
    deliver(bench, &sending).await;
    let until = bench.now().await;
    let done = record(bench, 1).await;
    assert_instant(done.done_at.expect("it is done"), 0, from, until);
    let expected =
        MessageRecord { state: MessageState::Delivered, done_at: done.done_at, ..sending };
    assert_eq!(done, expected);
    bench.age_s(LEASE_S + 60).await;
    assert_eq!(claimed(bench, &relay(8, 10)).await, []);
}

pub(in crate::testing::conformance) async fn failed_delivery_is_due_after_its_delay(bench: &Bench) {
    send(bench, 1, vec![message(1)]).await;
    let sending = claimed_one(bench, &relay(7, 10)).await;
    let from = bench.now().await;
    assert_eq!(end(bench, &ended(&sending, retry(600_000))).await, Written::Done);
    let until = bench.now().await;
    let pending = record(bench, 1).await;
    assert_instant(pending.due_at, 600, from, until);
    let expected = MessageRecord {
        state: MessageState::Pending,
        due_at: pending.due_at,
        last_error: Some("away: ü".to_owned()),
        ..sending
    };
    assert_eq!(pending, expected);
    assert_eq!(claimed(bench, &relay(8, 10)).await, []);
    bench.age_s(660).await;
    assert_eq!(claimed_one(bench, &relay(8, 10)).await.attempts, 2);
}

pub(in crate::testing::conformance) async fn released_message_is_due_at_once_and_not_counted(
    bench: &Bench,
) {
    send(bench, 1, vec![message(1)]).await;
    let sending = claimed_one(bench, &asking(7)).await;
    assert_eq!(end(bench, &ended(&sending, DeliveryEndTo::Released)).await, Written::Done);
    let again = claimed_one(bench, &asking(8)).await;
    assert_eq!((again.attempts, again.asks, again.last_error), (1, false, None));
}

pub(in crate::testing::conformance) async fn end_sent_twice_is_written_once(bench: &Bench) {
    send(bench, 1, (1..=4).map(message).collect()).await;
    let sending = claimed(bench, &relay(7, 10)).await;
    let error = || "refused".to_owned();
    let tos = [
        DeliveryEndTo::Delivered,
        retry(600_000),
        DeliveryEndTo::Dead { error: error() },
        DeliveryEndTo::Review { error: error() },
    ];
    for (message, to) in sending.iter().zip(tos) {
        let request = ended(message, to);
        assert_eq!(end(bench, &request).await, Written::Done);
        let after =
            only(bench.store().messages().read_messages(&[message.id]).await.expect("read"));
        assert_eq!(end(bench, &request).await, Written::Done);
        let again =
            only(bench.store().messages().read_messages(&[message.id]).await.expect("read"));
        assert_eq!(after, again);
    }
}

pub(in crate::testing::conformance) async fn end_by_another_claim_is_fenced(bench: &Bench) {
    send(bench, 1, vec![message(1)]).await;
    let sending = claimed_one(bench, &relay(7, 10)).await;
    let mine = ended(&sending, DeliveryEndTo::Delivered);
    let wrong_owner = DeliveryEnd { owner: owner(8), ..mine.clone() };
    let wrong_token = DeliveryEnd { token: Token(mine.token.0 + 1), ..mine.clone() };
    let absent = DeliveryEnd { id: message_id(9), ..mine };
    let ends = [wrong_owner, wrong_token, absent];
    let answers = bench.store().messages().end_deliveries(&ends).await.expect("end_deliveries");
    assert_eq!(answers, [Written::Fenced; 3]);
    assert_eq!(record(bench, 1).await, sending);
}

pub(in crate::testing::conformance) async fn late_acknowledgement_clears_a_review(bench: &Bench) {
    send(bench, 1, vec![message(1)]).await;
    let sending = claimed_one(bench, &once(7)).await;
    bench.age_s(LEASE_S + 60).await;
    assert_eq!(claim_all(bench, &once(8)).await.reviewed, [message_id(1)]);
    // What failed late does not.
    assert_eq!(end(bench, &ended(&sending, retry(0))).await, Written::Done);
    assert_eq!(record(bench, 1).await.state, MessageState::Review);
    deliver(bench, &sending).await;
    assert_eq!(record(bench, 1).await.state, MessageState::Delivered);
}

pub(in crate::testing::conformance) async fn dead_message_is_listed_and_retried(bench: &Bench) {
    send(bench, 1, vec![message(1), message(2)]).await;
    let sending = claimed(bench, &relay(7, 10)).await;
    for message in &sending {
        let dead = DeliveryEndTo::Dead { error: "refused".to_owned() };
        assert_eq!(end(bench, &ended(message, dead)).await, Written::Done);
    }
    let dead = list(bench, MessageState::Dead, None).await;
    assert_eq!(ids(&dead), [message_id(1), message_id(2)]);
    assert_eq!(ids(&list(bench, MessageState::Dead, Some(dead[0].seq)).await), [message_id(2)]);
    assert_eq!(list(bench, MessageState::Review, None).await, []);
    assert_eq!(claimed(bench, &relay(8, 10)).await, []);
    assert_eq!(decide(bench, &dead[0], DecideTo::Retry).await, Settled::Done);
    assert!(record(bench, 1).await.token > dead[0].token);
    // Decided by another person before.
    assert_eq!(decide(bench, &dead[0], DecideTo::Delivered).await, Settled::Outrun);
    let again = claimed_one(bench, &relay(8, 10)).await;
    assert_eq!((again.id, again.attempts), (message_id(1), 1));
    assert_eq!(again.last_error.as_deref(), Some("ada: looked it up"));
    let late = ended(&sending[0], DeliveryEndTo::Delivered);
    assert_eq!(end(bench, &late).await, Written::Fenced);
    // Dead again is not as it was listed.
    let refused = DeliveryEndTo::Dead { error: "refused".to_owned() };
    assert_eq!(end(bench, &ended(&again, refused)).await, Written::Done);
    assert_eq!(decide(bench, &dead[0], DecideTo::Retry).await, Settled::Outrun);
}

pub(in crate::testing::conformance) async fn message_in_review_that_is_retried_is_not_asked_about(
    bench: &Bench,
) {
    send(bench, 1, vec![message(1)]).await;
    claimed_one(bench, &once(7)).await;
    bench.age_s(LEASE_S + 60).await;
    claim_all(bench, &once(8)).await;
    assert_eq!(decide(bench, &record(bench, 1).await, DecideTo::Retry).await, Settled::Done);
    let again = claimed_one(bench, &once(9)).await;
    assert_eq!((again.asks, again.attempts), (false, 1));
}

pub(in crate::testing::conformance) async fn only_what_is_dead_or_in_review_is_decided(
    bench: &Bench,
) {
    send(bench, 1, vec![message(1)]).await;
    assert_eq!(decide(bench, &record(bench, 1).await, DecideTo::Retry).await, Settled::Outrun);
    let sending = claimed_one(bench, &relay(7, 10)).await;
    assert_eq!(decide(bench, &sending, DecideTo::Delivered).await, Settled::Outrun);
    deliver(bench, &sending).await;
    assert_eq!(decide(bench, &sending, DecideTo::Retry).await, Settled::Outrun);
    let absent = MessageRecord { id: message_id(9), ..sending };
    assert_eq!(decide(bench, &absent, DecideTo::Retry).await, Settled::Outrun);
}

pub(in crate::testing::conformance) async fn undelivered_messages_are_counted_by_topic(
    bench: &Bench,
) {
    let other = |n| Message { topic: "Invoice".to_owned(), ..message(n) };
    send(bench, 1, vec![message(1), message(2), message(3), message(4), other(5)]).await;
    let sending = claimed(bench, &relay(7, 4)).await;
    deliver(bench, &sending[0]).await;
    let dead = DeliveryEndTo::Dead { error: "refused".to_owned() };
    assert_eq!(end(bench, &ended(&sending[1], dead)).await, Written::Done);
    let review = DeliveryEndTo::Review { error: "cut off".to_owned() };
    assert_eq!(end(bench, &ended(&sending[2], review)).await, Written::Done);
    let counts = bench.store().messages().count_messages("payments").await.expect("count");
    let expected = [
        TopicCount { topic: "Invoice".to_owned(), pending: 1, ..TopicCount::default() },
        TopicCount { topic: TOPIC.to_owned(), pending: 0, sending: 1, dead: 1, review: 1 },
    ];
    assert_eq!(counts, expected);
    let elsewhere = bench.store().messages().count_messages("Payments").await.expect("count");
    assert_eq!(elsewhere, []);
}

pub(in crate::testing::conformance) async fn purge_spares_an_execution_with_an_undelivered_message(
    bench: &Bench,
) {
    send(bench, 1, vec![message(1), message(2)]).await;
    let sending = claimed(bench, &relay(7, 10)).await;
    deliver(bench, &sending[0]).await;
    bench.age_s(RETAIN_S + 60).await;
    let purged = bench.store().purge(None, 100).await.expect("purge");
    assert_eq!(purged.deleted, 0);
    assert!(bench.read(id(1)).await.is_some() && read(bench, 1).await.is_some());
    let again = claimed_one(bench, &relay(8, 10)).await;
    deliver(bench, &again).await;
    let purged = bench.store().purge(None, 100).await.expect("purge");
    assert_eq!(purged.deleted, 1);
}

pub(in crate::testing::conformance) async fn purge_of_messages_deletes_what_was_delivered_long_ago(
    bench: &Bench,
) {
    send(bench, 1, (1..=4).map(message).collect()).await;
    let sending = claimed(bench, &relay(7, 2)).await;
    deliver(bench, &sending[0]).await;
    bench.age_s(600).await;
    deliver(bench, &sending[1]).await;
    bench.age_s(60).await;
    let messages = bench.store().messages();
    assert_eq!(messages.purge_messages(300_000, 0).await.expect("purge_messages"), 0);
    assert_eq!(messages.purge_messages(300_000, 10).await.expect("purge_messages"), 1);
    assert_eq!(read(bench, 1).await, None);
    assert_eq!(record(bench, 2).await.state, MessageState::Delivered);
    assert_eq!(record(bench, 3).await.state, MessageState::Pending);
    assert!(bench.read(id(1)).await.is_some());
}

pub(in crate::testing::conformance) async fn claim_of_messages_since_an_instant_finds_all_that_were_committed_then(
    bench: &Bench,
) {
    send(bench, 1, vec![message(1), Message { delay_ms: 5_000, ..message(2) }]).await;
    bench.age_s(10).await;
    send(bench, 2, vec![message(3), message(4)]).await;
    send(bench, 3, vec![message(5)]).await;
    let since = record(bench, 3).await.created_at;
    let newest = claimed(bench, &MessageClaim { since, ..relay(7, 10) }).await;
    // The store may have left out what is older, or not.
    let mut all = ids(&newest);
    assert!([3, 4, 5].iter().all(|n| all.contains(&message_id(*n))), "{all:?}");
    all.extend(ids(&claimed(bench, &relay(8, 10)).await));
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 4, 5].map(message_id));
}

pub(in crate::testing::conformance) async fn relays_at_once_claim_each_message_once(bench: &Bench) {
    send(bench, 1, (1..=40).map(message).collect()).await;
    let answers =
        bench.at_once(8, |bench, by| async move { claimed(&bench, &relay(by, 10)).await }).await;
    let mut all = ids(&answers.concat());
    // A relay may have passed over what another one had locked.
    for by in 10..20 {
        all.extend(ids(&claimed(bench, &relay(by, 40)).await));
    }
    all.sort_unstable();
    let expected: Vec<MessageId> = (1..=40).map(message_id).collect();
    assert_eq!(all, expected);
}

pub(in crate::testing::conformance) async fn relays_at_once_claim_one_message_of_an_ordering_key(
    bench: &Bench,
) {
    send(bench, 1, (1..=8).map(|n| ordered(n, "ada")).collect()).await;
    for expected in 1..=8 {
        let answers = bench
            .at_once(4, move |bench, by| async move {
                claimed(&bench, &relay(100 * expected + by, 10)).await
            })
            .await
            .concat();
        let message = only(answers);
        assert_eq!(message.id, message_id(expected));
        deliver(bench, &message).await;
    }
}

pub(in crate::testing::conformance) async fn completions_at_once_keep_their_messages_of_a_key_in_one_order(
    bench: &Bench,
) {
    let mut running = Vec::new();
    for n in 0..20 {
        running.push(bench.running(n).await);
    }
    bench
        .at_once(20, |bench, n| {
            let attempt = running[usize::from(n)];
            async move {
                let messages = vec![ordered(n, "ada"), ordered(100 + n, "bob")];
                let completion = Completion { messages, ..attempt.completion("1") };
                assert_eq!(bench.complete(&completion).await, Written::Done);
            }
        })
        .await;
    let pending = list(bench, MessageState::Pending, None).await;
    assert_eq!(pending.len(), 10, "the first page");
    for _ in 0..20 {
        let heads = claimed(bench, &relay(7, 10)).await;
        assert_eq!(heads.len(), 2, "one of each key");
        for head in &heads {
            deliver(bench, head).await;
        }
    }
    assert_eq!(claimed(bench, &relay(7, 10)).await, []);
}
