use std::time::Duration;

use idempotent_runtime::Disposition;
use serde_json::Value;
use uuid::Uuid;

use super::*;

async fn broker(deliveries: usize) -> Broker {
    let delivery = Delivery {
        delivery: Uuid::from_u128(1),
        event: "ping".to_owned(),
        payload: Value::from("two\nlines"),
    };
    Broker::start(vec![delivery; deliveries]).await.unwrap()
}

async fn drained(broker: &Broker) -> Progress {
    broker.progress().wait_for(Progress::drained).await.unwrap().clone()
}

#[tokio::test]
async fn delivers_until_all_is_acknowledged_then_closes() {
    let broker = broker(2).await;
    let mut worker = Subscription::open(broker.address()).await.unwrap();
    for _ in 0..2 {
        let handed = worker.next().await.unwrap().unwrap();
        assert_eq!(handed.delivery.payload, Value::from("two\nlines"));
        worker.answers().ack(handed.tag).await.unwrap();
    }
    assert_eq!(drained(&broker).await.deliveries, 2);
    assert!(worker.next().await.unwrap().is_none());
    let mut late = Subscription::open(broker.address()).await.unwrap();
    assert!(late.next().await.unwrap().is_none());
}

#[tokio::test]
async fn delivers_again_when_the_connection_breaks() {
    let broker = broker(1).await;
    let mut first = Subscription::open(broker.address()).await.unwrap();
    let held = first.next().await.unwrap().unwrap();
    let mut second = Subscription::open(broker.address()).await.unwrap();
    drop(first);
    let again = second.next().await.unwrap().unwrap();
    assert_eq!(again.tag, held.tag);
}

#[tokio::test]
async fn delivers_again_what_is_to_be_retried() {
    let broker = broker(1).await;
    let mut worker = Subscription::open(broker.address()).await.unwrap();
    let Handed { tag, .. } = worker.next().await.unwrap().unwrap();
    let retry = Disposition::RetryAfter(Duration::from_millis(1));
    worker.answers().settle(tag, retry).await.unwrap();
    assert_eq!(worker.next().await.unwrap().unwrap().tag, tag);
}

#[tokio::test]
async fn gives_up_what_its_worker_gives_up() {
    let broker = broker(1).await;
    let mut worker = Subscription::open(broker.address()).await.unwrap();
    let Handed { tag, .. } = worker.next().await.unwrap().unwrap();
    worker.answers().settle(tag, Disposition::DeadLetter).await.unwrap();
    assert_eq!(drained(&broker).await.dead, 1);
}
