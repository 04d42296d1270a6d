//! The clocks: one of the store, which jumps, and one of each process, which drifts and may stand still.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idempotent_runtime::Clock;
use tokio::time::Instant;

use crate::process::Process;

/// Where the store's clock starts, in microseconds since the Unix epoch.
const START_US: i64 = 1_767_225_600_000_000;

/// The store's clock.
#[derive(Debug)]
pub(crate) struct StoreClock {
    origin: Instant,
    ahead_us: AtomicI64,
    /// The time of an operation that is applied anew.
    set: Mutex<Option<i64>>,
}

impl StoreClock {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), ahead_us: AtomicI64::new(0), set: Mutex::new(None) }
    }

    /// Moves it, against all other clocks.
    pub(crate) fn jump(&self, by_us: i64) {
        self.ahead_us.fetch_add(by_us, Ordering::SeqCst);
    }

    /// Has it show this time until it is set to `None`.
    pub(crate) fn set(&self, to: Option<i64>) {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl Clock for StoreClock {
    fn now_us(&self) -> i64 {
        if let Some(set) = *self.set.lock().unwrap_or_else(PoisonError::into_inner) {
            return set;
        }
        let elapsed = i64::try_from(self.origin.elapsed().as_micros()).unwrap_or(i64::MAX / 2);
        START_US + elapsed + self.ahead_us.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep_until(self.origin + deadline))
    }
}

/// A process's clock. Its timers fire only while the process runs.
#[derive(Debug)]
pub(crate) struct ProcessClock(pub(crate) Arc<Process>);

impl Clock for ProcessClock {
    /// Wrong on purpose: nothing may depend on it.
    fn now_us(&self) -> i64 {
        i64::from(self.0.number()) * 1_000_000_000
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            loop {
                let left = deadline.saturating_sub(self.elapsed());
                if left.is_zero() {
                    return self.0.edge().await;
                }
                // Timers have milliseconds.
                tokio::time::sleep(left.max(Duration::from_millis(1))).await;
                if !self.0.runs() {
                    self.0.edge().await;
                }
            }
        })
    }
}
