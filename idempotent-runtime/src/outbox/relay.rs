//! The relay: claims messages that are due and has sinks deliver them.

mod ending;
mod flight;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::names;
use super::route::Route;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::store::Wakeups;
use worker::Worker;

const POLL_DEFAULT: Duration = Duration::from_secs(1);
const GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// Before a connection that broke is asked again to listen.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Delivers the messages of the outbox. Any number of relays may run, in any number of processes.
///
/// Each topic is served for itself, so that a slow sink holds up no other. A message is claimed for a lease, which is
/// renewed while its delivery lasts; when a relay dies, another one takes the message over once the lease has lapsed.
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{Error, Runtime, outbox::{Delivery, Relay}};
/// # async fn serve(runtime: Runtime, shutdown: tokio::sync::oneshot::Receiver<()>) -> Result<(), Error> {
/// Relay::new(&runtime)
///     .sink("receipt-email", |delivery: Delivery| async move {
///         println!("{} {}", delivery.id(), String::from_utf8_lossy(delivery.body()));
///         Ok(())
///     })
///     .run_until(async { shutdown.await.unwrap_or(()) })
///     .await
/// # }
/// ```
#[must_use = "a relay delivers nothing until it runs"]
pub struct Relay {
    runtime: Runtime,
    routes: BTreeMap<String, Route>,
    twice: Option<String>,
    poll: Duration,
    grace: Duration,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("routes", &self.routes).finish_non_exhaustive()
    }
}

impl Relay {
    /// A relay for the messages of this runtime's namespace.
    pub fn new(runtime: &Runtime) -> Self {
        Self {
            runtime: runtime.clone(),
            routes: BTreeMap::new(),
            twice: None,
            poll: POLL_DEFAULT,
            grace: GRACE_DEFAULT,
        }
    }

    /// Has the messages of `topic` delivered to `sink`: a [`Sink`](super::Sink), or a [`Route`] that says more.
    ///
    /// Messages of topics without a sink here stay for another relay.
    pub fn sink(mut self, topic: impl Into<String>, sink: impl Into<Route>) -> Self {
        let topic = topic.into();
        if self.routes.insert(topic.clone(), sink.into()).is_some() {
            self.twice.get_or_insert(topic);
        }
        self
    }

    /// Stops where a test wants it to, before and behind each delivery.
    #[cfg(feature = "testing")]
    pub(crate) fn watched(mut self) -> Self {
        for (topic, route) in &mut self.routes {
            route.be_watched(&self.runtime, topic);
        }
        self
    }

    /// How often to look for messages, where nothing says that some were committed; 1 second unless set.
    pub fn poll_every(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// How long deliveries may go on once the relay is to stop; 10 seconds unless set.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Delivers until the runtime shuts down.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a wrong topic or setting, a topic with two sinks, or no sink at all. A store that is away
    /// is waited for.
    ///
    /// # Cancel safety
    ///
    /// Deliveries under way are dropped with the future; their messages are delivered again once their leases lapse.
    /// [`run_until`](Self::run_until) stops without that.
    pub async fn run(self) -> Result<(), Error> {
        self.run_until(pending()).await
    }

    /// Delivers until `stop` completes, or the runtime shuts down; lets deliveries under way finish for up to
    /// [`grace`](Self::grace).
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        self.check()?;
        // A shutdown waits for the relay to drain.
        let _entered = self.runtime.enter()?;
        let mut closed = self.runtime.closed();
        let (stopping, stopped) = watch::channel(false);
        let (wake, woken) = watch::channel(());
        let mut workers = JoinSet::new();
        for (topic, route) in self.routes {
            let worker = Worker::new(
                self.runtime.clone(),
                topic,
                Arc::new(route),
                (self.poll, self.grace),
                (woken.clone(), stopped.clone()),
            );
            workers.spawn(worker.run());
        }
        let mut listening = JoinSet::new();
        listening.spawn(listen(self.runtime.clone(), wake));
        let mut stop = std::pin::pin!(stop);
        let mut stop_asked = false;
        loop {
            tokio::select! {
                biased;
                () = &mut stop, if !stop_asked => {
                    stop_asked = true;
                    stopping.send_replace(true);
                }
                // The runtime that says so lives in `self`.
                _ = closed.wait_for(|closed| *closed), if !stop_asked => {
                    stop_asked = true;
                    stopping.send_replace(true);
                }
                ended = workers.join_next() => match ended {
                    None => return Ok(()),
                    Some(Ok(())) => {}
                    Some(Err(error)) => match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The tokio runtime ends.
                        Err(_) => return Err(Error::RuntimeEnded),
                    },
                }
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |reason| Err(Error::Config { setting: "topic", reason });
        if let Some(topic) = &self.twice {
            return wrong(format!("`{topic}` has two sinks; name one"));
        }
        if self.routes.is_empty() {
            return wrong("the relay has no sink; add one by `.sink(\"topic\", sink)`".to_owned());
        }
        if self.poll.is_zero() {
            let reason = "a relay cannot look without pause".to_owned();
            return Err(Error::Config { setting: "poll_every", reason });
        }
        for (topic, route) in &self.routes {
            names::topic(topic).map_err(|reason| Error::Config { setting: "topic", reason })?;
            route.check()?;
        }
        Ok(())
    }
}

/// Wakes the workers whenever the store says that messages were committed.
async fn listen(runtime: Runtime, wake: watch::Sender<()>) {
    let namespace = runtime.namespace().to_owned();
    let mut wakeups: Box<dyn Wakeups> = loop {
        match runtime.store().messages().wakeups(&namespace).await {
            Ok(Some(wakeups)) => break wakeups,
            // This store only lets us look.
            Ok(None) => return pending().await,
            Err(error) => {
                tracing::warn!(%error, "the relay cannot listen for messages; it looks for them");
                sleep(&runtime, LISTEN_AGAIN).await;
            }
        }
    };
    loop {
        match wakeups.woken().await {
            Ok(()) => {
                wake.send_replace(());
            }
            Err(error) => {
                tracing::warn!(%error, "the relay cannot listen for messages; it looks for them");
                sleep(&runtime, LISTEN_AGAIN).await;
            }
        }
    }
}

async fn sleep(runtime: &Runtime, duration: Duration) {
    let clock = runtime.clock();
    clock.sleep_until(clock.elapsed().saturating_add(duration)).await;
}
