//! The process's clock: local deadlines, and the time of the embedded stores.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Where this crate takes the time from.
///
/// Server databases judge leases by their own clock; this one serves for local deadlines and for the embedded
/// stores, whose processes share one machine.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The wall clock: microseconds since the Unix epoch.
    fn now_us(&self) -> i64;

    /// Time since some fixed point; never goes back.
    fn elapsed(&self) -> Duration;

    /// Completes once [`elapsed`](Self::elapsed) has reached `deadline`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    fn sleep_until(&self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The system's clocks. Under tokio's paused time, `elapsed` follows it and `now_us` does not.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose `elapsed` starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_us(&self) -> i64 {
        #[expect(clippy::disallowed_methods, reason = "this is the `Clock` that all others ask")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        sleep_until(self.origin, deadline)
    }
}

/// Completes `deadline` after `origin`; never, if no clock gets there.
pub(crate) fn sleep_until(
    origin: Instant,
    deadline: Duration,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    match origin.checked_add(deadline) {
        Some(deadline) => Box::pin(tokio::time::sleep_until(deadline)),
        None => Box::pin(std::future::pending()),
    }
}
