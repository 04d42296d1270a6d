//! A sink with how it is to be asked.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::sink::{Delivery, Sink, SinkError};
use crate::error::Error;
use crate::step::Found;

type Answer = Pin<Box<dyn Future<Output = Result<Found<()>, SinkError>> + Send>>;
pub(super) type Question = dyn Fn(Delivery) -> Answer + Send + Sync;

/// A sink, and how messages are delivered to it.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use idempotent_runtime::outbox::{Delivery, Route};
/// let route = Route::new(|delivery: Delivery| async move {
///     println!("{}", delivery.id());
///     Ok(())
/// })
/// .concurrency(4)
/// .max_attempts(10)
/// .backoff(Duration::from_secs(1), Duration::from_mins(10));
/// # let _ = route;
/// ```
#[derive(Clone)]
pub struct Route {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) question: Option<Arc<Question>>,
    pub(super) at_most_once: bool,
    pub(super) concurrency: u32,
    pub(super) attempts_max: u32,
    pub(super) backoff: (Duration, Duration),
    pub(super) lease: Duration,
    pub(super) timeout: Duration,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("at_most_once", &self.at_most_once)
            .field("reconciles", &self.question.is_some())
            .field("concurrency", &self.concurrency)
            .field("attempts_max", &self.attempts_max)
            .field("backoff", &self.backoff)
            .field("lease", &self.lease)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl<S: Sink> From<S> for Route {
    fn from(sink: S) -> Self {
        Self::new(sink)
    }
}

impl Route {
    /// A sink with the defaults: at least once, 16 deliveries at a time, 20 tries between 1 second and 15 minutes
    /// apart, a lease of 30 seconds, which is renewed during a longer delivery, and 15 minutes for one try.
    pub fn new(sink: impl Sink) -> Self {
        Self {
            sink: Arc::new(sink),
            question: None,
            at_most_once: false,
            concurrency: 16,
            attempts_max: 20,
            backoff: (Duration::from_secs(1), Duration::from_mins(15)),
            lease: Duration::from_secs(30),
            timeout: Duration::from_mins(15),
        }
    }

    /// As [`SinkExt::at_most_once`](super::SinkExt::at_most_once).
    #[must_use]
    pub fn at_most_once(mut self) -> Self {
        self.at_most_once = true;
        self
    }

    /// As [`SinkExt::reconcile`](super::SinkExt::reconcile).
    ///
    /// The question is asked once the relay that died can no longer hold its lease. [`Found::DidNotHappen`] delivers;
    /// [`Found::Unknown`], like an error, asks again later, and after `max_attempts` a person.
    #[must_use]
    pub fn reconcile<Q, A>(mut self, question: Q) -> Self
    where
        Q: Fn(Delivery) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Found<()>, SinkError>> + Send + 'static,
    {
        self.at_most_once = true;
        self.question = Some(Arc::new(move |delivery| Box::pin(question(delivery))));
        self
    }

    /// At most so many deliveries at a time in one relay; at least 1.
    #[must_use]
    pub fn concurrency(mut self, deliveries: u32) -> Self {
        self.concurrency = deliveries;
        self
    }

    /// So many tries, at least 1; then the message is dead.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.attempts_max = attempts;
        self
    }

    /// Waits `first` before the second try, twice as long before each further one, and never longer than `last`;
    /// jittered down to a half.
    #[must_use]
    pub fn backoff(mut self, first: Duration, last: Duration) -> Self {
        self.backoff = (first, last);
        self
    }

    /// How long a message stays claimed when its relay dies; from 100 milliseconds to 1 hour.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Gives one try this long, the question before it included; 15 minutes unless set. What is cut off may have
    /// arrived, as after [`SinkError::retry`]. A sink that blocks its thread is not cut off, but keeps its message from
    /// others no longer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    #[cfg(feature = "testing")]
    pub(super) fn be_watched(&mut self, runtime: &crate::runtime::Runtime, topic: &str) {
        let (runtime, topic) = (runtime.clone(), topic.to_owned());
        let (sink, at_most_once) = (Arc::clone(&self.sink), self.at_most_once);
        self.sink = Arc::new(super::sink::Watched { sink, runtime, topic, at_most_once });
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong =
            |setting, reason: &str| Err(Error::Config { setting, reason: reason.to_owned() });
        if self.concurrency == 0 {
            return wrong("concurrency", "a relay needs at least 1 delivery at a time");
        }
        if self.attempts_max == 0 {
            return wrong("max_attempts", "a message needs at least 1 attempt");
        }
        if self.backoff.0 > self.backoff.1 {
            return wrong("backoff", "the first wait must not be longer than the last");
        }
        if !(Duration::from_millis(100)..=Duration::from_hours(1)).contains(&self.lease) {
            return wrong("lease", "a lease lasts from 100 ms to 1 h");
        }
        if self.timeout.is_zero() {
            return wrong("timeout", "a delivery needs some time");
        }
        Ok(())
    }

    /// How long to wait after this many attempts.
    pub(super) fn wait(&self, attempts: u32) -> Duration {
        let (first, last) = self.backoff;
        let doubled = first.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1)));
        crate::execute::jittered(doubled.min(last))
    }
}
