//! Sinks that keep what they were given.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use idempotent_runtime::outbox::{Delivery, Sink, SinkError};
use tokio::sync::watch;

/// What arrived: id and body, in the order of arrival. Clones share it.
#[derive(Clone)]
pub(crate) struct Receiver {
    arrived: Arc<Mutex<Vec<(String, u32)>>>,
    count: watch::Sender<usize>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self { arrived: Arc::default(), count: watch::Sender::new(0) }
    }

    pub(crate) fn take(&self, delivery: &Delivery) {
        let body = delivery.json().unwrap();
        self.arrived.lock().unwrap().push((delivery.id().to_owned(), body));
        self.count.send_modify(|count| *count += 1);
    }

    /// Waits until `count` deliveries were made.
    pub(crate) async fn until(&self, count: usize) {
        self.count.subscribe().wait_for(|made| *made >= count).await.unwrap();
    }

    pub(crate) fn arrived(&self) -> Vec<(String, u32)> {
        self.arrived.lock().unwrap().clone()
    }

    pub(crate) fn bodies(&self) -> Vec<u32> {
        self.arrived().into_iter().map(|(_, body)| body).collect()
    }

    /// How often each message arrived.
    pub(crate) fn times(&self) -> HashMap<String, usize> {
        let mut times = HashMap::new();
        for (id, _) in self.arrived() {
            *times.entry(id).or_default() += 1;
        }
        times
    }
}

#[async_trait]
impl Sink for Receiver {
    async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        self.take(delivery);
        Ok(())
    }
}

/// Takes a message and never says so.
pub(crate) struct Silent(pub(crate) Receiver);

#[async_trait]
impl Sink for Silent {
    async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        self.0.take(delivery);
        pending().await
    }
}

/// Takes a message once the gate is open.
pub(crate) struct Gated {
    pub(crate) begun: Receiver,
    pub(crate) done: Receiver,
    pub(crate) gate: watch::Receiver<bool>,
}

#[async_trait]
impl Sink for Gated {
    async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        self.begun.take(delivery);
        self.gate.clone().wait_for(|open| *open).await.map_err(SinkError::retry)?;
        self.done.take(delivery);
        Ok(())
    }
}
