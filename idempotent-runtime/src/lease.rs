//! The attempts of this process: their leases, their heartbeats, their cancellation.

mod heartbeat;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::clock::Clock;
use crate::protocol::{ExecutionId, Granted, Limits, Owner, Renewal, Renewed, Token};

pub(crate) use heartbeat::{Heartbeat, HeartbeatOn};

/// Why a body is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// Another attempt owns the execution, or the lease could not be renewed in time.
    LeaseLost,
    /// The body ran past `max_runtime`.
    MaxRuntime,
    /// The runtime is shutting down and the grace is over.
    Shutdown,
}

/// One attempt of this process, from claim to outcome.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) id: ExecutionId,
    pub(crate) owner: Owner,
    pub(crate) token: Token,
    pub(crate) number: u32,
    pub(crate) handler: &'static str,
    pub(crate) limits: Limits,
    /// On the process's clock, taken before the claim was sent.
    started: Duration,
    /// On the process's clock, in microseconds; never later than the store's lease ends.
    lease_end_us: AtomicU64,
    renew_at_us: AtomicU64,
    ended: AtomicBool,
    cancel: watch::Sender<Option<Cancel>>,
}

impl Attempt {
    /// The attempt that was granted in answer to a claim sent at `started`.
    pub(crate) fn new(
        id: ExecutionId,
        owner: Owner,
        granted: Granted,
        handler: &'static str,
        limits: Limits,
        started: Duration,
    ) -> Self {
        let lease = Duration::from_millis(limits.lease_ms);
        Self {
            id,
            owner,
            token: granted.token,
            number: granted.attempts,
            handler,
            limits,
            started,
            lease_end_us: AtomicU64::new(us(started + lease)),
            renew_at_us: AtomicU64::new(us(started + lease / 3)),
            ended: AtomicBool::new(false),
            cancel: watch::Sender::new(None),
        }
    }

    /// When the body must have stopped, on the process's clock.
    pub(crate) fn deadline(&self) -> Duration {
        self.lease_end().saturating_sub(Duration::from_millis(self.limits.margin_ms()))
    }

    /// When the lease ends at the earliest, on the process's clock.
    pub(crate) fn lease_end(&self) -> Duration {
        Duration::from_micros(self.lease_end_us.load(Ordering::Acquire))
    }

    /// When the attempt may no longer hold a lease, on the process's clock.
    fn runtime_end(&self) -> Duration {
        self.started + Duration::from_millis(self.limits.max_runtime_ms)
    }

    /// Marks the body as over: what the store says of the lease from now on concerns nobody.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn cancel(&self, cause: Cancel) {
        if !self.ended.load(Ordering::Acquire) {
            self.cancel.send_if_modified(|seen| {
                let first = seen.is_none();
                seen.get_or_insert(cause);
                first
            });
        }
    }

    /// Completes when the body must stop, with the reason.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub(crate) async fn cancelled(&self, clock: &dyn Clock) -> Cancel {
        let mut cancel = self.cancel.subscribe();
        loop {
            let deadline = self.deadline();
            if clock.elapsed() >= deadline {
                return if self.lease_end() >= self.runtime_end() {
                    Cancel::MaxRuntime
                } else {
                    Cancel::LeaseLost
                };
            }
            tokio::select! {
                biased;
                told = cancel.wait_for(Option::is_some) => {
                    // The sender lives in `self`, so there is always an answer.
                    return told.ok().and_then(|cause| *cause).unwrap_or(Cancel::LeaseLost);
                }
                () = clock.sleep_until(deadline) => {}
            }
        }
    }

    fn renewal(&self) -> Renewal {
        Renewal { id: self.id, owner: self.owner, token: self.token }
    }

    /// Takes in what the store said of a renewal that was sent at `sent`.
    fn renewed(&self, answer: Renewed, sent: Duration) {
        match answer {
            Renewed::Renewed => {
                let lease = Duration::from_millis(self.limits.lease_ms);
                let end = (sent + lease).min(self.runtime_end());
                self.lease_end_us.fetch_max(us(end), Ordering::AcqRel);
                self.renew_at_us.store(us(sent + lease / 3), Ordering::Release);
            }
            Renewed::Lost => self.cancel(Cancel::LeaseLost),
            Renewed::Skipped => self.ask_again(sent),
        }
    }

    /// Asks for a renewal again a little later: a locked row or a store that was away.
    fn ask_again(&self, sent: Duration) {
        let soon = Duration::from_millis(self.limits.lease_ms / 12);
        self.renew_at_us.store(us(sent + soon), Ordering::Release);
    }

    fn renew_at(&self) -> Duration {
        Duration::from_micros(self.renew_at_us.load(Ordering::Acquire))
    }
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The attempts of this process that own an execution now.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    live: Mutex<HashMap<Owner, Arc<Attempt>>>,
    /// Attempts, and callers who are asking for one.
    count: watch::Sender<usize>,
    /// When the heartbeat wakes next, on the process's clock, in microseconds.
    wakes_at_us: AtomicU64,
    earlier: Notify,
}

impl Attempts {
    fn live(&self) -> MutexGuard<'_, HashMap<Owner, Arc<Attempt>>> {
        // No code that may panic runs under the lock, so a poisoned one still holds a whole map.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts renewing the attempt's lease.
    pub(crate) fn insert(&self, attempt: &Arc<Attempt>) {
        let renew_at = us(attempt.renew_at());
        self.live().insert(attempt.owner, Arc::clone(attempt));
        self.count.send_modify(|count| *count += 1);
        if renew_at < self.wakes_at_us.load(Ordering::Acquire) {
            self.earlier.notify_one();
        }
    }

    /// Stops renewing the attempt's lease.
    pub(crate) fn remove(&self, owner: Owner) {
        if self.live().remove(&owner).is_some() {
            self.count.send_modify(|count| *count -= 1);
        }
    }

    /// Cancels every body that is running.
    pub(crate) fn cancel_all(&self, cause: Cancel) -> usize {
        let live: Vec<_> = self.live().values().map(Arc::clone).collect();
        live.iter().for_each(|attempt| attempt.cancel(cause));
        live.len()
    }

    /// Completes when no attempt is left, and nobody is asking for one.
    pub(crate) async fn none_left(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    /// The attempts whose renewal is due at `now`, and when the next one is, if there is one.
    fn due(&self, now: Duration) -> (Vec<Arc<Attempt>>, Option<Duration>) {
        let live = self.live();
        let due = live.values().filter(|attempt| attempt.renew_at() <= now).map(Arc::clone);
        let due: Vec<_> = due.collect();
        let next = live.values().map(|attempt| attempt.renew_at()).filter(|at| *at > now).min();
        (due, next)
    }
}

/// A caller who is asking for an execution.
#[derive(Debug)]
pub(crate) struct Entered {
    attempts: Arc<Attempts>,
}

impl Entered {
    pub(crate) fn new(attempts: &Arc<Attempts>) -> Self {
        attempts.count.send_modify(|count| *count += 1);
        Self { attempts: Arc::clone(attempts) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.attempts.count.send_modify(|count| *count -= 1);
    }
}
