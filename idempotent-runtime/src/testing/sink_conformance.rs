//! The contract of a [`Sink`], one named property a sentence, for every sink that there is or will be.
//!
//! A sink of your own is held to it by a [`Receiver`] that it delivers to, and one line,
//! [`sink_conformance!`](crate::sink_conformance), which expands to one `#[test]` per property. The receiver is what
//! stands at the other end: a small server on loopback, or the fake that comes with a client. It says what it took, and
//! answers as it is told to.
//!
//! | property of | what goes wrong without it |
//! |---|---|
//! | the id: the same on every delivery, another for each message | the receiver cannot tell a repetition, or drops what is none |
//! | the body: byte for byte, whatever its text and size | signatures fail, receivers decode something else |
//! | success: only what the receiver said that it has | messages are lost |
//! | "dead": only what it refused for good | a receiver that is away for an hour empties the outbox |
//! | "not delivered": only what certainly did not arrive | at most once sends twice |
//! | deliveries beside each other | one slow receiver stops a topic; bodies are mixed up |
//! | a delivery that is dropped | the relay that takes over is refused, or sends under another id |
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use async_trait::async_trait;
//! use idempotent_runtime::outbox::{Delivery, Sink, SinkError};
//! use idempotent_runtime::testing::sink_conformance::{Receiver, Reply, Taken};
//!
//! /// What arrived, and how the next one is answered.
//! #[derive(Clone, Default)]
//! struct Inbox(Arc<Mutex<(Vec<Taken>, Option<Reply>)>>);
//!
//! struct MySink(Inbox);
//!
//! #[async_trait]
//! impl Sink for MySink {
//!     async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
//!         let mut inbox = self.0.0.lock().expect("nobody panics");
//!         if let Some(Reply::Refuse) = inbox.1.take() {
//!             return Err(SinkError::dead("the inbox refused it"));
//!         }
//!         let (id, body) = (delivery.id().to_owned(), delivery.body().to_vec());
//!         inbox.0.push(Taken { id, body, topic: Some(delivery.topic().to_owned()) });
//!         Ok(())
//!     }
//! }
//!
//! #[async_trait]
//! impl Receiver for Inbox {
//!     async fn sink(&self) -> Arc<dyn Sink> {
//!         Arc::new(MySink(self.clone()))
//!     }
//!
//!     async fn nowhere(&self) -> Option<Arc<dyn Sink>> {
//!         None // it is always there
//!     }
//!
//!     async fn reply(&self, reply: Reply) -> bool {
//!         let refuses = reply == Reply::Refuse; // it has no other answer
//!         if refuses {
//!             self.0.lock().expect("nobody panics").1 = Some(reply);
//!         }
//!         refuses
//!     }
//!
//!     async fn until_held(&self) {}
//!
//!     async fn let_go(&self) {}
//!
//!     async fn taken(&self) -> Vec<Taken> {
//!         self.0.lock().expect("nobody panics").0.clone()
//!     }
//! }
//!
//! // In `tests/my_sink.rs`; one fresh receiver for each property.
//! idempotent_runtime::sink_conformance!(async { Inbox::default() });
//! # fn main() {
//! #     for property in idempotent_runtime::testing::sink_conformance::PROPERTIES {
//! #         idempotent_runtime::testing::sink_conformance::check(property.name(), async { Inbox::default() });
//! #     }
//! # }
//! ```

#[macro_use]
mod properties;
mod arrive;
mod bench;
mod fail;
mod together;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::suite;
use crate::outbox::Sink;
use bench::Bench;

/// What a sink delivers to, fresh and shared with no other property.
#[async_trait]
pub trait Receiver: Send + Sync + 'static {
    /// Opens a sink that delivers here. It gives up after a few seconds what is not answered.
    async fn sink(&self) -> Arc<dyn Sink>;

    /// Opens a sink that is set up in the same way and reaches nobody; nothing, where there is always somebody.
    async fn nowhere(&self) -> Option<Arc<dyn Sink>>;

    /// Sets what becomes of the next delivery; those behind it are taken. `false`: it knows no such answer, and the
    /// properties about it have nothing to show.
    async fn reply(&self, reply: Reply) -> bool;

    /// Waits until a delivery is [held](Reply::Hold). It is not called where `reply` said `false`.
    async fn until_held(&self);

    /// Takes what is held, and answers it.
    async fn let_go(&self);

    /// What it took, in the order in which it came; a message that came twice is there twice.
    async fn taken(&self) -> Vec<Taken>;
}

/// What becomes of a delivery that is not simply taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// It is refused for good, and not taken.
    Refuse,
    /// It is refused for now, and not taken.
    Postpone,
    /// The same, and the receiver says when to come back.
    PostponeFor(Duration),
    /// It is taken, and the answer is lost.
    HangUp,
    /// It is left without an answer until [`Receiver::let_go`].
    Hold,
}

/// What a receiver took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The id that came with it, in the form of [`Delivery::id`](crate::outbox::Delivery::id).
    pub id: String,
    /// The body.
    pub body: Vec<u8>,
    /// The topic, where the receiver is told.
    pub topic: Option<String>,
}

/// A sentence of the contract that can be checked.
pub struct Property {
    name: &'static str,
    run: for<'a> fn(&'a Bench) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

impl Property {
    /// The sentence, in snake case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Checks it with a fresh receiver.
    ///
    /// # Panics
    ///
    /// If the property does not hold.
    pub async fn check(&self, receiver: Arc<dyn Receiver>) {
        (self.run)(&Bench::new(receiver).await).await;
    }
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Property").field(&self.name).finish()
    }
}

/// Checks the property of that name on a tokio runtime of its own: the body of a test.
///
/// # Panics
///
/// If the property does not hold, or no property has that name.
pub fn check<R: Receiver>(name: &str, receiver: impl Future<Output = R>) {
    let property = suite::named(PROPERTIES, Property::name, name);
    suite::run(async { property.check(Arc::new(receiver.await)).await });
}

__sink_properties! { table () }
