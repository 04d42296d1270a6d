//! An orderly end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Runtime;
use crate::lease::Cancel;

/// How long cancelled bodies may take to give up their claims.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// What a shutdown found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Bodies that were still running when the grace was over. They were cancelled and their executions
    /// released: the next delivery runs them again.
    pub cancelled: usize,
}

impl Runtime {
    /// Stops claiming, lets running bodies finish for up to `grace`, cancels and releases the rest, and closes the
    /// store. Calls from now on get [`Error::ShuttingDown`](crate::Error::ShuttingDown), so that the queue delivers
    /// elsewhere.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the runtime stays closed to new calls and running bodies go on.
    pub async fn shutdown(&self, grace: Duration) -> Drained {
        let inner = &self.inner;
        inner.closing.store(true, Ordering::Release);
        inner.closed.send_replace(true);
        let clock = self.clock();
        let grace_end = clock.elapsed().saturating_add(grace);
        let mut cancelled = 0;
        tokio::select! {
            biased;
            () = inner.attempts.none_left() => {}
            () = clock.sleep_until(grace_end) => {
                cancelled = inner.attempts.cancel_all(Cancel::Shutdown);
                let release_end = clock.elapsed() + RELEASE_MAX;
                tokio::select! {
                    biased;
                    () = inner.attempts.none_left() => {}
                    () = clock.sleep_until(release_end) => {
                        tracing::warn!("bodies did not stop in time; their leases lapse");
                    }
                }
            }
        }
        inner.stop.send_replace(true);
        inner.heartbeat.stop();
        // In a task of its own, since a store's call is never dropped half-way.
        let store = std::sync::Arc::clone(&inner.store);
        // Fails only when the tokio runtime has ended, and with it the connections.
        let _ = self.in_own_task(async move { store.close().await }).await;
        Drained { cancelled }
    }
}
