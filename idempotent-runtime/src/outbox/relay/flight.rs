//! One delivery under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::AbortHandle;
use tracing::Instrument;

use super::ending::text;
use crate::caught::caught;
use crate::clock::Clock;
use crate::outbox::route::Route;
use crate::outbox::sink::{Delivery, SinkError, Then};
use crate::policy::ms;
use crate::protocol::{MessageRecord, MessageRenewal};
use crate::step::Found;

/// How a delivery ended in this process.
#[derive(Debug)]
pub(super) enum Outcome {
    Delivered,
    Failed(Failure),
    /// The outside was asked, and nobody knows.
    Unknown(String),
    Panicked,
    /// It did not end in the time that it was given.
    TooLong,
    /// The lease could not be kept.
    Expired,
}

/// What a sink's error says; read where its code may panic as the sink may.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) then: Then,
    pub(super) retry_after: Option<Duration>,
    pub(super) text: String,
}

impl Failure {
    fn of(error: &SinkError) -> Self {
        Self { then: error.then, retry_after: error.retry_after, text: text(error) }
    }
}

/// A message that this relay has claimed, beside the task that delivers it.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) message: Arc<MessageRecord>,
    pub(super) task: AbortHandle,
    pub(super) lease: Arc<Lease>,
}

impl Flight {
    pub(super) fn renewal(&self, lease: Duration) -> MessageRenewal {
        let MessageRecord { id, owner, token, .. } = *self.message;
        MessageRenewal { id, owner, token, lease_ms: ms(lease) }
    }
}

/// When a delivery must have stopped, on the process's clock: a margin before the store's lease ends.
#[derive(Debug)]
pub(super) struct Lease {
    deadline_us: AtomicU64,
    /// From then on it is renewed no more, on the same clock.
    pub(super) until: Duration,
}

impl Lease {
    /// A lease that was asked for at `asked`.
    pub(super) fn new(asked: Duration, lease: Duration, until: Duration) -> Self {
        let this = Self { deadline_us: AtomicU64::new(0), until };
        this.renewed(asked, lease);
        this
    }

    pub(super) fn renewed(&self, asked: Duration, lease: Duration) {
        let margin = (lease / 10).max((lease / 3).min(Duration::from_secs(1)));
        let deadline = asked.saturating_add(lease).saturating_sub(margin);
        let us = u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX);
        self.deadline_us.store(us, Ordering::Release);
    }

    fn deadline(&self) -> Duration {
        Duration::from_micros(self.deadline_us.load(Ordering::Acquire))
    }

    /// Whether nothing may be begun under it at `now`.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        now >= self.deadline()
    }

    /// Completes at the deadline, however often it is moved.
    async fn over(&self, clock: &dyn Clock) {
        loop {
            if self.is_over(clock.elapsed()) {
                return;
            }
            clock.sleep_until(self.deadline()).await;
        }
    }
}

/// Delivers a message, or asks first what became of the delivery before.
pub(super) async fn deliver(
    route: Arc<Route>,
    message: Arc<MessageRecord>,
    lease: Arc<Lease>,
    clock: Arc<dyn Clock>,
) -> Outcome {
    let span = tracing::info_span!(
        "deliver",
        topic = message.topic,
        message = %message.id,
        attempt = message.attempts,
    );
    let asks = message.asks;
    let delivery = Delivery::new(message);
    let delivering = async {
        if asks && let Some(question) = &route.question {
            match question(delivery.clone()).await {
                Ok(Found::Happened(())) => return Outcome::Delivered,
                Ok(Found::DidNotHappen) => {}
                Ok(Found::Unknown) => {
                    return Outcome::Unknown("nobody knows whether it was delivered".to_owned());
                }
                Err(error) => return Outcome::Unknown(error.to_string()),
            }
        }
        match route.sink.deliver(&delivery).await {
            Ok(()) => Outcome::Delivered,
            Err(error) => Outcome::Failed(Failure::of(&error)),
        }
    };
    tokio::select! {
        biased;
        // First, so that it is looked at directly before the effect.
        () = lease.over(&*clock) => Outcome::Expired,
        outcome = caught(delivering).instrument(span) => outcome.unwrap_or(Outcome::Panicked),
        () = clock.sleep_until(lease.until) => Outcome::TooLong,
    }
}
