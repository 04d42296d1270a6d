//! What is delivered arrives as it is, under its id.

use super::bench::*;

pub(super) async fn delivered_message_has_arrived(bench: &Bench) {
    let message = delivery(1, "\"1\"");
    bench.delivered(&message).await;
    assert_eq!(bench.receiver.taken().await.len(), 1, "the sink said that the receiver has it");
}

pub(super) async fn message_arrives_with_its_id(bench: &Bench) {
    let message = delivery(1, "\"1\"");
    bench.delivered(&message).await;
    assert_eq!(bench.only().await.id, message.id());
}

pub(super) async fn message_arrives_with_its_topic(bench: &Bench) {
    bench.delivered(&delivery(1, "\"1\"")).await;
    // A receiver need not be told, and is told nothing else.
    assert_eq!(bench.only().await.topic.as_deref().unwrap_or(TOPIC), TOPIC);
}

async fn arrives(bench: &Bench, body: &str) {
    bench.delivered(&delivery(1, body)).await;
    let taken = bench.only().await.body;
    assert!(
        taken == body.as_bytes(),
        "{} bytes of {body:.40} came as {} others",
        body.len(),
        taken.len()
    );
}

pub(super) async fn body_arrives_byte_for_byte(bench: &Bench) {
    arrives(bench, "{ \"b\" :\t1e2,\n\"a\":\"\\u0000\\\\\\r\\n.\\r\\n\", \"a\": -0.0 }").await;
}

pub(super) async fn text_of_every_language_arrives_as_it_is(bench: &Bench) {
    arrives(bench, "\"grüße, 你好, שלום, e\u{301}\u{202E}, \u{1F9FE}\u{200D}\u{FEFF}\u{7F}\"")
        .await;
}

pub(super) async fn body_without_anything_in_it_arrives(bench: &Bench) {
    for (n, body) in (1..).zip(["null", "\"\"", "0", "[]"]) {
        bench.delivered(&delivery(n, body)).await;
        let last = bench.receiver.taken().await.pop().expect("it has arrived");
        assert_eq!(last.body, body.as_bytes());
    }
}

pub(super) async fn body_of_a_mebibyte_arrives_whole(bench: &Bench) {
    let filling: String = ('a'..='z').cycle().take(1_024 * 1_024).collect();
    arrives(bench, &format!("\"{filling}\"")).await;
}

pub(super) async fn one_delivery_arrives_once(bench: &Bench) {
    for n in 1..=3 {
        let message = delivery(n, "\"1\"");
        bench.delivered(&message).await;
        assert_eq!(bench.receiver.taken().await.len(), usize::from(n));
    }
}

pub(super) async fn message_delivered_again_has_the_same_id(bench: &Bench) {
    let message = delivery(1, "\"1\"");
    bench.delivered(&message).await;
    bench.delivered(&message).await;
    let taken = bench.receiver.taken().await;
    // A receiver that honours ids may have dropped the second.
    assert!(taken.iter().all(|taken| taken.id == message.id()), "{taken:?}");
}

pub(super) async fn later_attempt_has_the_same_id(bench: &Bench) {
    bench.delivered(&attempt(1, "\"1\"", 1)).await;
    let again = attempt(1, "\"1\"", 7);
    // Another process delivers it.
    let other = bench.receiver.sink().await;
    over(&*other, &again).await.expect("a receiver that takes everything has it");
    let taken = bench.receiver.taken().await;
    assert!(taken.iter().all(|taken| taken.id == again.id()), "{taken:?}");
}

pub(super) async fn two_messages_of_one_body_have_two_ids(bench: &Bench) {
    let (first, second) = (delivery(1, "\"1\""), delivery(2, "\"1\""));
    bench.delivered(&first).await;
    bench.delivered(&second).await;
    assert_eq!((bench.times(&first).await, bench.times(&second).await), (1, 1));
}
