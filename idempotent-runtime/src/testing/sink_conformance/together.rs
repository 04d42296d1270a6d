//! Deliveries beside each other, and those that nobody waits for any more.

use super::Reply;
use super::bench::*;
use crate::outbox::Delivery;

/// How many are delivered at once.
const AT_ONCE: u16 = 16;

pub(super) async fn slow_receiver_holds_up_no_other_delivery(bench: &Bench) {
    let (slow, other) = (delivery(1, "\"slow\""), delivery(2, "\"other\""));
    if let Some(held) = bench.held(&slow).await {
        bench.delivered(&other).await;
        assert_eq!(bench.times(&other).await, 1);
        bench.receiver.let_go().await;
        let answer = held.await.expect("a delivery does not panic");
        assert!(answer.is_ok(), "the other one waited until the slow one was given up: {answer:?}");
    }
}

pub(super) async fn slow_delivery_succeeds_once_it_is_answered(bench: &Bench) {
    let slow = delivery(1, "\"slow\"");
    if let Some(held) = bench.held(&slow).await {
        bench.receiver.let_go().await;
        let answer = held.await.expect("a delivery does not panic");
        assert!(answer.is_ok(), "{answer:?}");
        assert_eq!(bench.times(&slow).await, 1);
    }
}

pub(super) async fn deliveries_at_once_are_not_mixed_up(bench: &Bench) {
    let body = |n: u16| format!("\"{}\"", n.to_string().repeat(usize::from(n) * 100));
    let messages: Vec<Delivery> = (1..=AT_ONCE).map(|n| delivery(n, body(n))).collect();
    let deliveries: Vec<_> = messages.iter().map(|message| bench.delivers(message)).collect();
    for delivery in deliveries {
        let answer = delivery.await.expect("a delivery does not panic");
        assert!(answer.is_ok(), "{answer:?}");
    }
    let taken = bench.receiver.taken().await;
    assert_eq!(taken.len(), messages.len());
    for message in &messages {
        let mine = taken.iter().find(|taken| taken.id == message.id()).expect("it has arrived");
        assert!(mine.body == message.body(), "{} came with another's body", message.id());
    }
}

pub(super) async fn failure_concerns_one_delivery(bench: &Bench) {
    for (n, reply) in (1..).zip([Reply::Refuse, Reply::Postpone, Reply::HangUp]) {
        let held = delivery(100 + n, "\"slow\"");
        let Some(slow) = bench.held(&held).await else { return };
        if bench.answered(reply, &delivery(n, "\"1\"")).await.is_some_and(|answer| answer.is_ok()) {
            panic!("{reply:?} is no success");
        }
        bench.receiver.let_go().await;
        let answer = slow.await.expect("a delivery does not panic");
        assert!(answer.is_ok(), "{reply:?} of another: {answer:?}");
    }
}

pub(super) async fn dropped_delivery_is_repeated_under_its_id(bench: &Bench) {
    let message = delivery(1, "\"1\"");
    if let Some(held) = bench.held(&message).await {
        held.abort();
        let dropped = held.await.expect_err("it was left");
        assert!(dropped.is_cancelled());
        bench.delivered(&message).await;
        let taken = bench.receiver.taken().await;
        assert!(!taken.is_empty());
        assert!(taken.iter().all(|taken| taken.id == message.id()), "{taken:?}");
    }
}

pub(super) async fn dropped_delivery_leaves_others_alone(bench: &Bench) {
    let (dropped, other) = (delivery(1, "\"dropped\""), delivery(2, "\"other\""));
    if let Some(held) = bench.held(&dropped).await {
        held.abort();
        let _ = held.await;
        bench.delivered(&other).await;
        let taken = bench.receiver.taken().await;
        let mine: Vec<_> = taken.iter().filter(|taken| taken.id == other.id()).collect();
        assert_eq!(mine.len(), 1);
        assert_eq!(mine[0].body, other.body());
    }
}
