//! The attempts of this process: their leases, their heartbeats, their cancellation.

mod heartbeat;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;
use crate::protocol::{ExecutionId, Granted, IdMap, Limits, Owner, Renewal, Renewed, Token};

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
    pub(crate) generation: u32,
    pub(crate) handler: &'static str,
    pub(crate) limits: Limits,
    /// On the process's clock, taken before the claim was sent.
    started: Duration,
    /// On the process's clock, in microseconds; never later than the store's lease ends.
    lease_end_us: AtomicU64,
    renew_at_us: AtomicU64,
    ended: AtomicBool,
    /// The body may complete the execution by itself, which then has no lease to renew.
    may_be_completed: AtomicBool,
    cancel: OnceLock<Cancel>,
    /// Wakes the body's supervisor, of which there is one.
    told: Notify,
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
        // Cut as the ends below are, so that a lease that lasts until the end of `max_runtime` is seen to.
        let started = Duration::from_micros(us(started));
        Self {
            id,
            owner,
            token: granted.token,
            number: granted.attempts,
            generation: granted.generation,
            handler,
            limits,
            started,
            lease_end_us: AtomicU64::new(us(started + lease)),
            renew_at_us: AtomicU64::new(us(started + lease / 3)),
            ended: AtomicBool::new(false),
            may_be_completed: AtomicBool::new(false),
            cancel: OnceLock::new(),
            told: Notify::new(),
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

    /// Whether the guard of a write may still hold.
    pub(crate) fn holds(&self, clock: &dyn Clock) -> bool {
        clock.elapsed() < self.lease_end()
    }

    /// Marks the body as over: what the store says of the lease from now on concerns nobody.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Notes that the body was given its completion.
    pub(crate) fn may_be_completed(&self) {
        self.may_be_completed.store(true, Ordering::Release);
    }

    /// Cancels the body; false if it was over already.
    pub(crate) fn cancel(&self, cause: Cancel) -> bool {
        let runs = !self.ended.load(Ordering::Acquire);
        if runs && self.cancel.set(cause).is_ok() {
            self.told.notify_one();
        }
        runs
    }

    /// Completes when the body must stop, with the reason.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub(crate) async fn cancelled(&self, clock: &dyn Clock) -> Cancel {
        loop {
            if let Some(cause) = self.must_stop(clock) {
                return cause;
            }
            tokio::select! {
                biased;
                // A call before this one left a permit, so none is missed.
                () = self.told.notified() => {}
                () = clock.sleep_until(self.deadline()) => {}
            }
        }
    }

    /// Why the body must not run, or not any more.
    pub(crate) fn must_stop(&self, clock: &dyn Clock) -> Option<Cancel> {
        if let Some(cause) = self.cancel.get() {
            return Some(*cause);
        }
        let over = clock.elapsed() >= self.deadline();
        let at_the_end = self.lease_end() >= self.runtime_end();
        over.then_some(if at_the_end { Cancel::MaxRuntime } else { Cancel::LeaseLost })
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
            Renewed::Lost => {
                // What is lost stays lost, however long the body takes to notice.
                self.renew_at_us.store(NEVER, Ordering::Release);
                // A body that has committed its completion ends in peace; any other one at its deadline.
                if !self.may_be_completed.load(Ordering::Acquire) {
                    let _ = self.cancel(Cancel::LeaseLost);
                }
            }
            Renewed::Skipped => self.ask_again(sent),
        }
    }

    /// Asks for a renewal again a little later: a locked row or a store that was away.
    fn ask_again(&self, sent: Duration) {
        let soon = Duration::from_millis(self.limits.lease_ms / 12);
        self.renew_at_us.store(us(sent + soon), Ordering::Release);
    }

    /// When the lease is to be renewed, if ever again.
    fn renew_at(&self) -> Option<Duration> {
        let us = self.renew_at_us.load(Ordering::Acquire);
        (us != NEVER).then(|| Duration::from_micros(us))
    }
}

/// No time to renew a lease at.
const NEVER: u64 = u64::MAX;

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The attempts of this process that own an execution now.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    live: Mutex<IdMap<Owner, Arc<Attempt>>>,
    /// Why all were cancelled, and with them those that are granted from then on.
    all_cancelled: OnceLock<Cancel>,
    /// Attempts, and callers who are asking for one.
    count: AtomicUsize,
    /// There are none any more.
    emptied: Notify,
    /// When the heartbeat wakes next, on the process's clock, in microseconds.
    wakes_at_us: AtomicU64,
    earlier: Notify,
}

impl Attempts {
    fn live(&self) -> MutexGuard<'_, IdMap<Owner, Arc<Attempt>>> {
        // No code that may panic runs under the lock, so a poisoned one still holds a whole map.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts renewing the attempt's lease.
    pub(crate) fn insert(&self, attempt: &Arc<Attempt>) {
        let renew_at = attempt.renew_at_us.load(Ordering::Acquire);
        self.live().insert(attempt.owner, Arc::clone(attempt));
        self.one_more();
        if renew_at < self.wakes_at_us.load(Ordering::Acquire) {
            self.earlier.notify_one();
        }
        // Inserted first and asked then, while `cancel_all` says so first and looks then: one sees the other.
        if let Some(cause) = self.all_cancelled.get() {
            let _ = attempt.cancel(*cause);
        }
    }

    /// Stops renewing the attempt's lease.
    pub(crate) fn remove(&self, owner: Owner) {
        if self.live().remove(&owner).is_some() {
            self.one_less();
        }
    }

    fn one_more(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    fn one_less(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.emptied.notify_waiters();
        }
    }

    /// Cancels every body that is running, and those that would start from now on. How many were running.
    pub(crate) fn cancel_all(&self, cause: Cancel) -> usize {
        self.all_cancelled.get_or_init(|| cause);
        let live: Vec<_> = self.live().values().map(Arc::clone).collect();
        live.iter().filter(|attempt| attempt.cancel(cause)).count()
    }

    /// Completes when no attempt is left, and nobody is asking for one.
    pub(crate) async fn none_left(&self) {
        loop {
            // Made first and asked then, while the last one counts first and wakes then: one sees the other.
            let emptied = self.emptied.notified();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// The attempts whose renewal is due at `now`, and when the next one is, if there is one.
    fn due(&self, now: Duration) -> (Vec<Arc<Attempt>>, Option<Duration>) {
        let live = self.live();
        let is_due = |attempt: &&Arc<Attempt>| attempt.renew_at().is_some_and(|at| at <= now);
        let due = live.values().filter(is_due).map(Arc::clone).collect();
        let next = live.values().filter_map(|attempt| attempt.renew_at());
        (due, next.filter(|at| *at > now).min())
    }
}

/// A caller who is asking for an execution.
#[derive(Debug)]
pub(crate) struct Entered {
    attempts: Arc<Attempts>,
}

impl Entered {
    pub(crate) fn new(attempts: &Arc<Attempts>) -> Self {
        attempts.one_more();
        Self { attempts: Arc::clone(attempts) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.attempts.one_less();
    }
}
