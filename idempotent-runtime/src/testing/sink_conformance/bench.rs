//! What the properties are written with.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Receiver, Reply, Taken};
use crate::outbox::{Delivery, Sink, SinkError};
use crate::protocol::{self, ExecutionId, Message, MessageId, MessageRecord, MessageState, Micros};

/// Longer than a sink may take to give up.
const PATIENCE: Duration = Duration::from_secs(20);
/// The topic of every message.
pub(super) const TOPIC: &str = "receipt-email";

/// A sink under test, and its receiver.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(super) receiver: Arc<dyn Receiver>,
    sink: Arc<dyn Sink>,
}

/// The `n`th message, on its first delivery.
pub(super) fn delivery(n: u16, body: impl Into<Vec<u8>>) -> Delivery {
    attempt(n, body, 1)
}

/// The `n`th message, on a later delivery.
pub(super) fn attempt(n: u16, body: impl Into<Vec<u8>>, attempts: u32) -> Delivery {
    let mut id = [0x3C; 16];
    id[14..].copy_from_slice(&n.to_be_bytes());
    let message = Message {
        id: MessageId(id),
        topic: TOPIC.to_owned(),
        ordering_key: None,
        headers: Vec::new(),
        body: body.into(),
        delay_ms: 0,
    };
    let sent = protocol::send(&message, ExecutionId([7; 16]), "payments", 1, Micros(1));
    let record = MessageRecord { state: MessageState::Sending, attempts, ..sent };
    Delivery::new(Arc::new(record))
}

impl Bench {
    pub(super) async fn new(receiver: Arc<dyn Receiver>) -> Self {
        let sink = receiver.sink().await;
        Self { receiver, sink }
    }

    /// Delivers a message.
    pub(super) async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        over(&*self.sink, delivery).await
    }

    /// Delivers a message that must be taken.
    pub(super) async fn delivered(&self, delivery: &Delivery) {
        if let Err(error) = self.deliver(delivery).await {
            panic!("a receiver that takes everything has it, and the sink says: {error}");
        }
    }

    /// Delivers in a task of its own.
    pub(super) fn delivers(&self, delivery: &Delivery) -> JoinHandle<Result<(), SinkError>> {
        let (bench, delivery) = (self.clone(), delivery.clone());
        tokio::spawn(async move { bench.deliver(&delivery).await })
    }

    /// Delivers a message that the receiver answers so; nothing, if it knows no such answer.
    pub(super) async fn answered(
        &self,
        reply: Reply,
        delivery: &Delivery,
    ) -> Option<Result<(), SinkError>> {
        if !self.receiver.reply(reply).await {
            return None;
        }
        Some(self.deliver(delivery).await)
    }

    /// As [`answered`](Self::answered), where the sink must fail.
    pub(super) async fn failed(&self, reply: Reply, delivery: &Delivery) -> Option<SinkError> {
        let answer = self.answered(reply, delivery).await?;
        Some(answer.expect_err("the receiver did not say that it has it"))
    }

    /// Holds a delivery at the receiver; nothing, if it cannot.
    pub(super) async fn held(
        &self,
        delivery: &Delivery,
    ) -> Option<JoinHandle<Result<(), SinkError>>> {
        if !self.receiver.reply(Reply::Hold).await {
            return None;
        }
        let held = self.delivers(delivery);
        let until = timeout(PATIENCE, self.receiver.until_held()).await;
        until.expect("the delivery reaches the receiver");
        Some(held)
    }

    /// How often a message was taken.
    pub(super) async fn times(&self, delivery: &Delivery) -> usize {
        let taken = self.receiver.taken().await;
        taken.iter().filter(|taken| taken.id == delivery.id()).count()
    }

    /// The only thing that was taken.
    pub(super) async fn only(&self) -> Taken {
        let mut taken = self.receiver.taken().await;
        assert_eq!(taken.len(), 1, "one delivery arrives once: {taken:?}");
        taken.remove(0)
    }
}

/// Delivers over a sink, and waits no longer than a sink may take.
pub(super) async fn over(sink: &dyn Sink, delivery: &Delivery) -> Result<(), SinkError> {
    let answer = timeout(PATIENCE, sink.deliver(delivery)).await;
    answer.unwrap_or_else(|_| panic!("the sink gave no answer in {PATIENCE:?}"))
}
