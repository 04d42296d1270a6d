#![doc = include_str!("outbox/docs.md")]

mod buffer;
mod desk;
#[cfg(feature = "webhooks")]
mod http;
mod names;
mod relay;
mod route;
mod sink;
#[cfg(feature = "smtp")]
mod smtp;

use serde::Serialize;
use std::time::Duration;

use crate::effect::Effect;
use crate::error::Error;
use crate::execution::Execution;
use crate::policy::ms;

pub(crate) use buffer::Buffer;
use buffer::Unsent;
pub use desk::{HeldMessage, Outbox};
#[cfg(feature = "webhooks")]
pub use http::HttpSink;
pub use relay::Relay;
pub use route::Route;
#[cfg(feature = "testing")]
pub(crate) use sink::Then;
pub use sink::{Delivery, Sink, SinkError, SinkExt};
#[cfg(feature = "smtp")]
pub use smtp::SmtpSink;

pub use crate::protocol::{MessageId, TopicCount};

/// Sends `body`, as JSON, to `topic`, once this handler's completion is committed.
///
/// Encodes and keeps the message; nothing is written and nothing is waited for here. If the attempt ends in any other
/// way than with `Ok`, the message is never sent. A [`Relay`] delivers it, in this process or another.
///
/// # Errors
///
/// [`Error::MessageRefused`] if the topic is not 1 to 128 letters, digits and `._:/-`, the body does not encode as
/// JSON or has more than `max_result_bytes`, or the execution has sent 1,000 messages already; and in a step, which
/// is not run again once it is recorded and would not send it again: send behind it.
///
/// # Panics
///
/// Outside a handler's body, also in a task that the body spawned, unless it is wrapped in
/// [`Execution::scope`](crate::Execution::scope).
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{Error, idempotent, outbox};
/// #[idempotent(key = "order:{order_id}")]
/// async fn order(order_id: String) -> Result<(), Error> {
///     outbox::send("receipt-email", &order_id)?;
///     Ok(())
/// }
/// ```
pub fn send<T: Serialize + ?Sized>(topic: &str, body: &T) -> Result<(), Error> {
    message(topic, body).send()
}

/// A message with more than a body; [`send`](MessageBuilder::send) it.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use idempotent_runtime::{Error, idempotent, outbox};
/// #[idempotent(key = "order:{order_id}")]
/// async fn order(order_id: String, customer: String) -> Result<(), Error> {
///     outbox::message("reminder", &order_id)
///         .ordering_key(&customer)
///         .delay(Duration::from_hours(24))
///         .header("language", "en")
///         .send()
/// }
/// ```
pub fn message<'a, T: Serialize + ?Sized>(topic: &'a str, body: &T) -> MessageBuilder<'a> {
    let body = serde_json::to_vec(body).map_err(|error| error.to_string());
    MessageBuilder { topic, body, ordering_key: None, headers: Vec::new(), delay: Duration::ZERO }
}

/// A message that is being written; from [`message`].
#[derive(Clone, Debug)]
#[must_use = "a message is sent by `send`"]
pub struct MessageBuilder<'a> {
    topic: &'a str,
    body: Result<Vec<u8>, String>,
    ordering_key: Option<String>,
    headers: Vec<(String, String)>,
    delay: Duration,
}

impl MessageBuilder<'_> {
    /// Has the messages of this topic with the same key delivered one after the other, in the order of commit. One
    /// that is dead or in review holds back those behind it until a person decides.
    ///
    /// 1 to 255 bytes without NUL.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.ordering_key = Some(key.into());
        self
    }

    /// Has it delivered no earlier than `delay` after the commit.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Adds a header, which the sink delivers as it can: as an HTTP header, for one.
    ///
    /// A name has 1 to 128 letters, digits and `-_`; a value at most 1,024 bytes without control characters; there
    /// are at most 32.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends it, once this handler's completion is committed.
    ///
    /// # Errors
    ///
    /// [`Error::MessageRefused`] as said at [`outbox::send`](send()), and for an ordering key or a header that is not as said here.
    ///
    /// # Panics
    ///
    /// As [`outbox::send`](send()).
    #[expect(
        clippy::panic_in_result_fn,
        reason = "a send outside a handler is a mistake in the code"
    )]
    pub fn send(self) -> Result<(), Error> {
        let topic = self.topic;
        let Some(execution) = Execution::try_current() else {
            panic!(
                "a message to \"{topic}\" was sent outside the body of an #[idempotent] handler; a task that \
                 the body spawned is wrapped in `Execution::current().scope(..)`"
            );
        };
        let bytes_max = execution.runtime().settings().result_bytes_max;
        let effect = Effect::current().map(|effect| effect.step().to_owned());
        let sent = match effect.or_else(|| execution.step_around()) {
            Some(step) => Err(format!(
                "step `{step}` sends it, which is not run again once it is recorded, and the message would be \
                 lost with the attempt; send it behind the step"
            )),
            None => self.checked(bytes_max).and_then(|unsent| execution.outbox().push(unsent)),
        };
        sent.map_err(|reason| {
            execution.note_own_error();
            Error::MessageRefused { topic: topic.to_owned(), reason }
        })
    }

    fn checked(self, bytes_max: usize) -> Result<Unsent, String> {
        let Self { topic, body, ordering_key, headers, delay } = self;
        names::topic(topic)?;
        ordering_key.as_deref().map_or(Ok(()), names::ordering_key)?;
        names::headers(&headers)?;
        let body = body.map_err(|error| format!("the body does not encode as JSON: {error}"))?;
        if body.len() > bytes_max {
            let bytes = body.len();
            return Err(format!(
                "the body has {bytes} bytes, more than max_result_bytes ({bytes_max}); send an id instead"
            ));
        }
        Ok(Unsent { topic: topic.to_owned(), ordering_key, headers, body, delay_ms: ms(delay) })
    }
}

#[cfg(test)]
mod tests;
