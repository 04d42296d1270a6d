//! The time of a world, which all of its processes and its store share.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{Clock, sleep_until};

/// When a world begins: five seconds before the year 2027, in microseconds since the Unix epoch. So whatever lapses
/// crosses midnight, and a key that names a day, a month or a year is another one then.
const START_US: i64 = 1_798_761_595_000_000;

/// Virtual time. Each process has a paused tokio runtime, whose time moves while the process runs; what one process
/// has lived through is past for all.
#[derive(Clone, Debug)]
pub(super) struct VirtualClock {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// How far the world's time is.
    reached: Duration,
    /// When the world began, in the time of the process that runs now.
    origin: Option<Instant>,
}

impl VirtualClock {
    pub(super) fn new() -> Self {
        Self { shared: Arc::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // No code that may panic runs under the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets time pass while no process runs.
    pub(super) fn pass(&self, time: Duration) {
        self.shared().reached += time;
    }

    /// Where a process that starts now has the beginning of the world. Called on its tokio runtime.
    pub(super) fn origin(&self) -> Instant {
        let reached = self.shared().reached;
        Instant::now().checked_sub(reached).unwrap_or_else(Instant::now)
    }

    /// A process runs from here on. Called on its tokio runtime.
    pub(super) async fn enter(&self, origin: Instant) {
        let reached = {
            let mut shared = self.shared();
            shared.origin = Some(origin);
            shared.reached
        };
        let behind = reached.saturating_sub(origin.elapsed());
        if !behind.is_zero() {
            // What it slept through fires now.
            tokio::time::advance(behind).await;
        }
    }

    /// No process runs from here on.
    pub(super) fn leave(&self) {
        let _ = self.elapsed();
        self.shared().origin = None;
    }
}

impl Clock for VirtualClock {
    fn now_us(&self) -> i64 {
        START_US + i64::try_from(self.elapsed().as_micros()).unwrap_or(i64::MAX - START_US)
    }

    fn elapsed(&self) -> Duration {
        let mut shared = self.shared();
        if let Some(origin) = shared.origin {
            shared.reached = shared.reached.max(origin.elapsed());
        }
        shared.reached
    }

    fn sleep_until(&self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let origin = self.shared().origin;
        sleep_until(origin.unwrap_or_else(Instant::now), deadline)
    }
}
