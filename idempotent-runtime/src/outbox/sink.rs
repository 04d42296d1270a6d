//! What takes messages to the outside.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use super::Route;
use crate::protocol::{MessageId, MessageRecord};
use crate::step::Found;

/// Takes messages of one topic to the outside.
///
/// A function of a [`Delivery`] is one. A sink that is asked again with the same [`Delivery::id`] should have no
/// second effect: pass the id on as the idempotency key, or let the receiver keep the ids that it has seen. For a
/// receiver that can do neither see [`SinkExt::at_most_once`].
///
/// # Examples
///
/// ```
/// use async_trait::async_trait;
/// use idempotent_runtime::outbox::{Delivery, Sink, SinkError};
///
/// struct Log;
///
/// #[async_trait]
/// impl Sink for Log {
///     async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
///         let order: String = delivery.json()?;
///         println!("{} {order}", delivery.id());
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Delivers a message. Without an error the receiver has it.
    ///
    /// # Errors
    ///
    /// [`SinkError`] says whether another try makes sense.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the relay is, or when it can no longer keep its lease: then another relay
    /// delivers the message.
    async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError>;
}

#[async_trait]
impl<F, D> Sink for F
where
    F: Fn(Delivery) -> D + Send + Sync + 'static,
    D: Future<Output = Result<(), SinkError>> + Send,
{
    async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        self(delivery.clone()).await
    }
}

/// What a sink can be declared as; [`Route`] has the same and more.
pub trait SinkExt: Sink + Sized {
    /// For a receiver without any dedupe: no message is delivered a second time unless the sink said that the first
    /// try reached nobody ([`SinkError::not_delivered`]). Where a relay dies in between, or the sink cannot tell, the
    /// message goes to review.
    fn at_most_once(self) -> Route {
        Route::new(self).at_most_once()
    }

    /// As [`at_most_once`](Self::at_most_once), and asks `question` what became of a delivery that nobody knows the
    /// outcome of, instead of a person.
    fn reconcile<Q, A>(self, question: Q) -> Route
    where
        Q: Fn(Delivery) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Found<()>, SinkError>> + Send + 'static,
    {
        Route::new(self).reconcile(question)
    }
}

impl<S: Sink> SinkExt for S {}

/// A sink that stops where a test wants it to, before and behind each delivery.
#[cfg(feature = "testing")]
pub(super) struct Watched {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) runtime: crate::runtime::Runtime,
    pub(super) topic: String,
    pub(super) at_most_once: bool,
}

#[cfg(feature = "testing")]
#[async_trait]
impl Sink for Watched {
    async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        use crate::watch::Place;

        self.runtime.comes_to(|| Place::Delivers(self.topic.clone(), self.at_most_once)).await;
        self.sink.deliver(delivery).await?;
        self.runtime.comes_to(|| Place::Delivered(self.topic.clone(), self.at_most_once)).await;
        Ok(())
    }
}

/// A message on its way to the outside. Clones share it.
#[derive(Clone, Debug)]
pub struct Delivery {
    message: Arc<MessageRecord>,
    id: Arc<str>,
}

impl Delivery {
    pub(crate) fn new(message: Arc<MessageRecord>) -> Self {
        let id = message.id.to_string().into();
        Self { message, id }
    }

    /// Its id: 36 characters in the form of a UUID (version 5), the same on every delivery. Send it as the
    /// idempotency key.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its id, as a value.
    #[must_use]
    pub fn message_id(&self) -> MessageId {
        self.message.id
    }

    /// The topic that it was sent to.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.message.topic
    }

    /// What it must not overtake.
    #[must_use]
    pub fn ordering_key(&self) -> Option<&str> {
        self.message.ordering_key.as_deref()
    }

    /// Names and values, in the order in which they were added.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first header of this name, in whatever case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The body: JSON.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.message.body
    }

    /// The body as a value.
    ///
    /// # Errors
    ///
    /// [`SinkError::dead`] if it does not decode: another try would not, either.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, SinkError> {
        serde_json::from_slice(self.body()).map_err(SinkError::dead)
    }

    /// Which delivery of the message this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.message.attempts
    }

    /// When it was committed, in microseconds since the Unix epoch.
    #[must_use]
    pub fn created_at_us(&self) -> i64 {
        self.message.created_at.0
    }
}

/// Why a message was not delivered, and what follows.
#[derive(Debug)]
pub struct SinkError {
    pub(crate) then: Then,
    pub(crate) retry_after: Option<Duration>,
    source: Box<dyn StdError + Send + Sync>,
}

/// What follows a failed delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It may have arrived.
    Retry,
    /// It did not arrive.
    NotDelivered,
    /// It never will.
    Dead,
}

impl SinkError {
    fn new(then: Then, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { then, retry_after: None, source: error.into() }
    }

    /// It may or may not have arrived; try again. A sink that delivers at most once is not tried again: the message
    /// goes to review, or `reconcile` is asked.
    pub fn retry(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Then::Retry, error)
    }

    /// It certainly did not arrive, as when no connection could be opened; try again, at most once or not.
    pub fn not_delivered(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Then::NotDelivered, error)
    }

    /// It will never be taken as it is: no other try. The message is dead until a person decides.
    pub fn dead(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Then::Dead, error)
    }

    /// Sets when to try again at the earliest; never before the backoff would.
    #[must_use]
    pub fn after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl StdError for SinkError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}
