//! Clocks that tests move.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::{Clock, sleep_until};

/// Where the wall clock of a test starts: 2026-01-01 00:00:00 UTC, in microseconds since the Unix epoch.
const START_US: i64 = 1_767_225_600_000_000;

/// A clock that follows tokio's, wall clock included: under `#[tokio::test(start_paused = true)]` leases lapse as
/// soon as every task waits.
///
/// Give it to both the `memory` store and the runtime, whose heartbeat must then be a task
/// ([`Builder::heartbeat_task`](crate::Builder::heartbeat_task)). It always starts on 2026-01-01.
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{Error, Runtime, testing::TokioClock};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Error> {
/// let runtime = Runtime::builder("test")
///     .url("memory:")
///     .clock(TokioClock::new())
///     .heartbeat_task()
///     .connect()
///     .await?;
/// # drop(runtime);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Instant,
}

impl TokioClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now_us(&self) -> i64 {
        START_US + i64::try_from(self.elapsed().as_micros()).unwrap_or(i64::MAX - START_US)
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        sleep_until(self.origin, deadline)
    }
}

/// A clock that stands still until a test moves it.
///
/// Give clones of one clock to the `memory` store and to the runtime: then a lease lapses when the test says so, whatever
/// tokio's time does. What waits on it goes on as soon as it has been moved there.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use idempotent_runtime::{Clock, Error, Runtime, testing::ManualClock};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let clock = ManualClock::new();
/// let runtime = Runtime::builder("test").url("memory:").clock(clock.clone()).connect().await?;
/// clock.advance(Duration::from_secs(31)); // every lease of the default length has lapsed
/// assert_eq!(clock.elapsed(), Duration::from_secs(31));
/// # drop(runtime);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    elapsed: watch::Sender<Duration>,
}

impl ManualClock {
    /// A clock on 2026-01-01 00:00:00 UTC.
    #[must_use]
    pub fn new() -> Self {
        Self { elapsed: watch::Sender::new(Duration::ZERO) }
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        self.elapsed.send_modify(|elapsed| *elapsed = elapsed.saturating_add(by));
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> i64 {
        START_US + i64::try_from(self.elapsed().as_micros()).unwrap_or(i64::MAX - START_US)
    }

    fn elapsed(&self) -> Duration {
        *self.elapsed.borrow()
    }

    fn sleep_until(&self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let mut moved = self.elapsed.subscribe();
            // It cannot be closed: its sender is here.
            let _ = moved.wait_for(|elapsed| *elapsed >= deadline).await;
        })
    }
}
