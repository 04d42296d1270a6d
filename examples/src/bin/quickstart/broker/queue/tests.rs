use serde_json::Value;
use uuid::Uuid;

use super::*;

const FIRST: WorkerId = 1;
const SECOND: WorkerId = 2;

/// A queue of one message for each number; messages of one number are copies of one delivery.
fn queue(deliveries: &[u128], workers: &[WorkerId]) -> Queue {
    let copy = |id: &u128| Delivery {
        delivery: Uuid::from_u128(*id),
        event: "ping".to_owned(),
        payload: Value::Null,
    };
    let mut queue = Queue::new(deliveries.iter().map(copy).collect());
    for worker in workers {
        queue.join(*worker);
    }
    queue
}

fn handed_out(queue: &mut Queue) -> Vec<(WorkerId, Tag)> {
    queue.hand_out().into_iter().map(|(worker, handed)| (worker, handed.tag)).collect()
}

#[test]
fn hands_out_in_order_to_whoever_holds_least() {
    let mut queue = queue(&[1, 2, 3], &[FIRST, SECOND]);
    assert_eq!(handed_out(&mut queue), [(FIRST, 0), (SECOND, 1), (FIRST, 2)]);
}

#[test]
fn keeps_back_what_nobody_has_a_hand_free_for() {
    let mut queue = queue(&[1, 2, 3, 4], &[FIRST]);
    assert_eq!(handed_out(&mut queue).len(), IN_HAND_MAX);
    assert!(queue.settle(FIRST, 1, Verdict::Ack));
    assert_eq!(handed_out(&mut queue), [(FIRST, 3)]);
}

#[test]
fn hands_out_again_what_a_worker_held_that_is_gone() {
    let mut queue = queue(&[1, 2], &[FIRST]);
    handed_out(&mut queue);
    queue.settle(FIRST, 0, Verdict::Ack);
    queue.leave(FIRST);
    queue.join(SECOND);
    assert_eq!(handed_out(&mut queue), [(SECOND, 1)]);
    assert_eq!(queue.progress().deliveries, 3);
}

#[test]
fn hands_out_a_retry_only_when_it_is_due() {
    let mut queue = queue(&[1], &[FIRST]);
    handed_out(&mut queue);
    assert!(queue.settle(FIRST, 0, Verdict::RetryAfter { ms: 5 }));
    assert_eq!(handed_out(&mut queue), []);
    queue.due(0);
    assert_eq!(handed_out(&mut queue), [(FIRST, 0)]);
}

#[test]
fn is_drained_when_all_is_acknowledged_or_dead() {
    let mut queue = queue(&[1, 2], &[FIRST]);
    handed_out(&mut queue);
    queue.settle(FIRST, 0, Verdict::Ack);
    assert!(!queue.progress().drained());
    queue.settle(FIRST, 1, Verdict::DeadLetter);
    assert!(queue.progress().drained());
    assert_eq!(queue.progress().dead, 1);
}

#[test]
fn ignores_an_answer_from_a_worker_that_does_not_hold_the_message() {
    let mut queue = queue(&[1], &[FIRST, SECOND]);
    handed_out(&mut queue);
    assert!(!queue.settle(SECOND, 0, Verdict::Ack));
    assert!(!queue.settle(FIRST, 9, Verdict::Ack));
    assert!(!queue.progress().drained());
}

#[test]
fn counts_copies_that_are_in_two_hands_at_once() {
    let mut queue = queue(&[1, 1, 2], &[FIRST, SECOND]);
    handed_out(&mut queue);
    assert_eq!(queue.progress().overlapping, 1);
}
