//! Serves one topic.

mod exchange;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

use exchange::write;

use super::ending::{end_of, given_up};
use super::flight::{Flight, Lease, Outcome, deliver};
use crate::error::Error;
use crate::execute::jittered;
use crate::metrics;
use crate::outbox::route::Route;
use crate::protocol::{DeliveryEnd, DeliveryEndTo, MessageClaim, MessageRecord, Micros, Renewed};
use crate::runtime::Runtime;

/// Between two tries to reach a store that is away.
const AGAIN: Duration = Duration::from_millis(200);
/// Tries to write the last ends of a relay that stops; then their leases lapse.
const LAST_TRIES_MAX: u32 = 5;

/// Claims messages of one topic, has them delivered, and writes what became of them.
pub(super) struct Worker {
    runtime: Runtime,
    topic: String,
    route: Arc<Route>,
    poll: Duration,
    grace: Duration,
    woken: watch::Receiver<()>,
    stopped: watch::Receiver<bool>,
    deliveries: JoinSet<Outcome>,
    flights: BTreeMap<Id, Flight>,
    /// What is to be written.
    ends: Vec<DeliveryEnd>,
    /// Whether they are written before the next claim: they failed before, or what they hold back may be due then.
    ends_first: bool,
    /// A claim whose answer was lost, and when it was first sent: from then on its lease counts.
    unanswered: Option<(MessageClaim, Duration)>,
    /// Whether there may be messages to claim.
    looks: bool,
    /// What was committed before is not looked for, until `all_at`: a store may have to pass over what was delivered.
    since: Micros,
    all_at: Duration,
    poll_at: Duration,
    renew_at: Duration,
    /// The store was away; not asked again before.
    again_at: Option<Duration>,
    grace_end: Option<Duration>,
}

impl Worker {
    pub(super) fn new(
        runtime: Runtime,
        topic: String,
        route: Arc<Route>,
        (poll, grace): (Duration, Duration),
        (woken, stopped): (watch::Receiver<()>, watch::Receiver<bool>),
    ) -> Self {
        let now = runtime.clock().elapsed();
        Self {
            renew_at: now.saturating_add(route.lease / 3),
            since: Micros(0),
            all_at: now,
            poll_at: now,
            runtime,
            topic,
            route,
            poll,
            grace,
            woken,
            stopped,
            deliveries: JoinSet::new(),
            flights: BTreeMap::new(),
            ends: Vec::new(),
            ends_first: false,
            unanswered: None,
            looks: true,
            again_at: None,
            grace_end: None,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.collect();
            if !self.waits_for_store() {
                self.renew().await;
                self.write_and_claim().await;
            }
            if self.is_stopping() && self.flights.is_empty() && self.unanswered.is_none() {
                return self.write_last_ends().await;
            }
            self.wait().await;
        }
    }

    fn now(&self) -> Duration {
        self.runtime.clock().elapsed()
    }

    fn is_stopping(&self) -> bool {
        // An error says that the relay is gone.
        *self.stopped.borrow() || self.runtime.check_open().is_err()
    }

    fn waits_for_store(&mut self) -> bool {
        let now = self.now();
        self.again_at = self.again_at.filter(|again| *again > now);
        self.again_at.is_some()
    }

    fn store_failed(&mut self, error: &Error) {
        tracing::warn!(%error, topic = self.topic, "the relay could not reach the store; it asks again");
        self.again_at = Some(self.now().saturating_add(jittered(AGAIN)));
    }

    /// Waits until there is something to do.
    async fn wait(&mut self) {
        let stopping = self.is_stopping();
        let now = self.now();
        if stopping && self.grace_end.is_none() {
            self.grace_end = Some(now.saturating_add(self.grace));
        }
        let mut until = self.poll_at.max(now);
        if !self.flights.is_empty() {
            until = until.min(self.renew_at);
        }
        if let Some(grace_end) = self.grace_end {
            until = until.min(grace_end);
        }
        if let Some(again_at) = self.again_at {
            // Nothing else is done before.
            until = again_at;
        } else if !self.ends.is_empty() || self.looks && self.free() > 0 && !stopping {
            return;
        }
        let clock = self.runtime.shared_clock();
        let mut joined = None;
        tokio::select! {
            biased;
            _ = self.stopped.changed(), if !stopping => {}
            Some(ended) = self.deliveries.join_next_with_id() => joined = Some(ended),
            Ok(()) = self.woken.changed() => self.looks = true,
            () = clock.sleep_until(until) => {}
        }
        if let Some(ended) = joined {
            self.ended(ended);
            self.gather().await;
        }
        let now = self.now();
        if now >= self.poll_at {
            self.looks = true;
            self.poll_at = now.saturating_add(jittered(self.poll.saturating_mul(4) / 3));
        }
        if self.grace_end.is_some_and(|grace_end| now >= grace_end) {
            self.give_up().await;
        }
    }

    /// So many more deliveries may begin.
    fn free(&self) -> u32 {
        let under_way = u32::try_from(self.flights.len()).unwrap_or(u32::MAX);
        self.route.concurrency.saturating_sub(under_way)
    }

    /// Lets the deliveries that are about to end do so, so that one write notes them all and one claim follows.
    async fn gather(&mut self) {
        let mut ends = 0;
        while ends < self.ends.len() {
            ends = self.ends.len();
            // To behind the tasks that are ready.
            tokio::task::yield_now().await;
            self.collect();
        }
    }

    /// Takes in the deliveries that have ended.
    fn collect(&mut self) {
        while let Some(ended) = self.deliveries.try_join_next_with_id() {
            self.ended(ended);
        }
    }

    fn ended(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, outcome),
            // Aborted, since the lease was lost.
            Err(error) => (error.id(), Outcome::Expired),
        };
        let Some(Flight { message, .. }) = self.flights.remove(&id) else { return };
        let Some(to) = end_of(&self.route, &message, &outcome) else {
            tracing::warn!(topic = self.topic, message = %message.id, "a delivery lost its lease");
            return;
        };
        self.note(&message, &to);
        self.end(&message, to);
    }

    /// Tells of an end.
    fn note(&mut self, message: &MessageRecord, to: &DeliveryEndTo) {
        let id = message.id;
        let ended = match to {
            DeliveryEndTo::Delivered => "delivered",
            DeliveryEndTo::Retry { delay_ms, error } | DeliveryEndTo::Ask { delay_ms, error } => {
                tracing::warn!(topic = self.topic, message = %id, error, delay_ms, "a delivery failed");
                let again = self.now().saturating_add(Duration::from_millis(*delay_ms));
                self.poll_at = self.poll_at.min(again);
                "retry"
            }
            DeliveryEndTo::Dead { error } => {
                tracing::error!(topic = self.topic, message = %id, error, "a message is dead");
                "dead"
            }
            DeliveryEndTo::Review { error } => {
                tracing::error!(topic = self.topic, message = %id, error, "a message needs review");
                "review"
            }
            DeliveryEndTo::Released => "released",
        };
        metrics::delivery(&self.topic, ended);
        // What it held back may be due.
        if message.ordering_key.is_some() {
            self.ends_first = true;
            self.looks = true;
            self.since = Micros(0);
        }
    }

    fn end(&mut self, message: &MessageRecord, to: DeliveryEndTo) {
        let MessageRecord { id, owner, token, .. } = *message;
        self.ends.push(DeliveryEnd { id, owner, token, to });
    }

    /// What cannot be written now is delivered again, or goes to review, once its lease lapses.
    async fn write_last_ends(&mut self) {
        for _ in 0..LAST_TRIES_MAX {
            if self.ends.is_empty() {
                return;
            }
            let written = write(&self.runtime, &self.ends).await;
            self.written(written);
            if self.ends.is_empty() {
                return;
            }
            let clock = self.runtime.shared_clock();
            clock.sleep_until(clock.elapsed().saturating_add(AGAIN)).await;
        }
    }

    /// Renews all leases, once a third of one is over.
    async fn renew(&mut self) {
        let (asked, lease) = (self.now(), self.route.lease);
        if asked < self.renew_at {
            return;
        }
        self.renew_at = asked.saturating_add(lease / 3);
        let flights = self.flights.iter().filter(|(_, flight)| asked < flight.lease.until);
        let (ids, renewals): (Vec<Id>, Vec<_>) =
            flights.map(|(id, flight)| (*id, flight.renewal(lease))).unzip();
        if renewals.is_empty() {
            return;
        }
        let store = Arc::clone(self.runtime.store());
        let renewing = async move { store.messages().renew_messages(&renewals).await };
        match flat(self.runtime.in_own_task(renewing).await) {
            Ok(answers) => {
                for (id, answer) in ids.into_iter().zip(answers) {
                    let Some(flight) = self.flights.get(&id) else { continue };
                    match answer {
                        Renewed::Renewed => flight.lease.renewed(asked, lease),
                        Renewed::Lost => flight.task.abort(),
                        Renewed::Skipped => {}
                    }
                }
            }
            Err(error) => {
                self.renew_at = asked;
                self.store_failed(&error);
            }
        }
    }

    fn begin(&mut self, message: MessageRecord, asked: Duration) {
        let now = self.now();
        let until = now.saturating_add(self.route.timeout);
        let lease = Arc::new(Lease::new(asked, self.route.lease, until));
        // An answer that was lost comes late; what is left of the lease may be too little, or nothing.
        if self.is_stopping() || lease.is_over(now) {
            // Before the lease lapses, and before a claim that would find that it has.
            self.ends_first = true;
            return self.end(&message, DeliveryEndTo::Released);
        }
        let message = Arc::new(message);
        let renew_at = asked.saturating_add(self.route.lease / 3);
        self.renew_at =
            if self.flights.is_empty() { renew_at } else { self.renew_at.min(renew_at) };
        let delivering = deliver(
            Arc::clone(&self.route),
            Arc::clone(&message),
            Arc::clone(&lease),
            self.runtime.shared_clock(),
        );
        let task = self.deliveries.spawn(delivering);
        self.flights.insert(task.id(), Flight { message, task, lease });
    }

    /// Drops the deliveries that did not end within the grace.
    async fn give_up(&mut self) {
        self.deliveries.abort_all();
        // One that ended before it was dropped says itself what became of it: it may have delivered.
        while let Some(ended) = self.deliveries.join_next_with_id().await {
            if ended.is_ok() {
                self.ended(ended);
            }
        }
        let given_up = given_up(&self.route);
        for flight in std::mem::take(&mut self.flights).into_values() {
            self.note(&flight.message, &given_up);
            self.end(&flight.message, given_up.clone());
        }
        // What it may have claimed was not begun, and lapses.
        self.unanswered = None;
    }
}

fn flat<T>(answer: Result<Result<T, crate::store::StoreError>, Error>) -> Result<T, Error> {
    Ok(answer??)
}
