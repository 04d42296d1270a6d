//! Turns lapsed attempts into retryable ones, and deletes what is past its retention.
//!
//! Any number of processes may do it at once: each write is conditional, rows that are locked are passed over,
//! and each handler's policy stands in its rows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::error::Error;
use crate::metrics;
use crate::policy::ms;
use crate::protocol::State;
use crate::runtime::{Runtime, WeakRuntime};
use crate::store::Cursor;

/// How often the reaper looks, unless set: half a default lease.
pub(crate) const EVERY_DEFAULT: Duration = Duration::from_secs(15);
/// Rows examined in one statement.
const ROWS_MAX: u32 = 1_000;
/// Statements between two sleeps, so that a large table does not keep a process busy.
const BATCHES_MAX: u32 = 16;

/// Delivered messages are of no use but to a person who looks.
const DELIVERED_RETAIN: Duration = Duration::from_hours(7 * 24);

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Lapsed executions that the next call claims.
    pub retryable: u64,
    /// Lapsed executions that went to review.
    pub review: u64,
    /// Executions deleted.
    pub purged: u64,
}

impl Runtime {
    /// Reaps and purges once through the whole table, now.
    ///
    /// The reaper does the same little by little in the background; this is for a scheduled job of your own, and
    /// for tests.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store fails; what was done stays done.
    ///
    /// # Cancel safety
    ///
    /// The statement under way is finished.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        let mut after = None;
        loop {
            after = reap(self, after, None, &mut swept).await?;
            if after.is_none() {
                break;
            }
        }
        loop {
            after = purge(self, after, &mut swept).await?;
            if after.is_none() {
                purge_messages(self).await?;
                return Ok(swept);
            }
        }
    }
}

async fn reap(
    runtime: &Runtime,
    after: Option<Cursor>,
    younger_than_ms: Option<u64>,
    swept: &mut Swept,
) -> Result<Option<Cursor>, Error> {
    let store = Arc::clone(runtime.store());
    let reaping = async move { store.reap(after, younger_than_ms, ROWS_MAX).await };
    let reaped = runtime.in_own_task(reaping).await??;
    for (id, handler, state) in reaped.lapsed {
        let to = if state == State::Review { "review" } else { "retryable" };
        tracing::warn!(execution = %id.short(), handler, to, "a lease had lapsed");
        metrics::lapse(handler, to);
        match state {
            State::Review => swept.review += 1,
            State::Running | State::Retryable | State::Completed | State::Failed => {
                swept.retryable += 1;
            }
        }
    }
    Ok(reaped.next)
}

async fn purge(
    runtime: &Runtime,
    after: Option<Cursor>,
    swept: &mut Swept,
) -> Result<Option<Cursor>, Error> {
    let store = Arc::clone(runtime.store());
    let purging = async move { store.purge(after, ROWS_MAX).await };
    let purged = runtime.in_own_task(purging).await??;
    metrics::purged(purged.deleted);
    swept.purged += purged.deleted;
    swept.review += purged.reviewed;
    Ok(purged.next)
}

/// Starts the reaper of a runtime; it ends with the runtime.
pub(crate) fn start(runtime: &Runtime, every: Duration) {
    let reaper = Reaper {
        runtime: runtime.downgrade(),
        stop: runtime.stopped(),
        every,
        sweep: Sweep::default(),
    };
    drop(runtime.tasks().spawn(reaper.run()));
}

struct Reaper {
    runtime: WeakRuntime,
    stop: watch::Receiver<bool>,
    every: Duration,
    sweep: Sweep,
}

/// Where the sweeps are: over what was created lately, and the slow ones over the whole table.
#[derive(Default)]
struct Sweep {
    recent: Option<Cursor>,
    reaped: Option<Cursor>,
    purged: Option<Cursor>,
}

impl Reaper {
    async fn run(mut self) {
        while let Some(runtime) = self.runtime.upgrade() {
            // Jittered, so that replicas do not look all at once.
            let every = crate::execute::jittered(self.every.saturating_mul(4) / 3);
            let wake = runtime.clock().elapsed().saturating_add(every);
            let clock = runtime.shared_clock();
            drop(runtime);
            tokio::select! {
                biased;
                // `true` is sent by a shutdown; an error says that the runtime was dropped.
                _ = self.stop.wait_for(|stop| *stop) => return,
                () = clock.sleep_until(wake) => {}
            }
            let Some(runtime) = self.runtime.upgrade() else { return };
            if let Err(error) = self.sweep.step(&runtime).await {
                tracing::warn!(%error, "the reaper could not reach the store; it looks again");
            }
        }
    }
}

impl Sweep {
    /// Reaps what was created lately, then goes on a stretch through the whole table.
    async fn step(&mut self, runtime: &Runtime) -> Result<(), Error> {
        let mut swept = Swept::default();
        let limits = runtime.settings().defaults;
        let lately_ms = ms(limits.max_runtime.saturating_add(limits.lease));
        for _ in 0..BATCHES_MAX {
            self.recent = reap(runtime, self.recent, Some(lately_ms), &mut swept).await?;
            if self.recent.is_none() {
                break;
            }
        }
        self.reaped = reap(runtime, self.reaped, None, &mut swept).await?;
        purge_messages(runtime).await?;
        // What is oldest expires first: from there on, and where the slow sweep is.
        let oldest = purge_on(runtime, None, &mut swept).await?;
        self.purged = match self.purged {
            None => oldest,
            reached => purge_on(runtime, reached, &mut swept).await?,
        };
        Ok(())
    }
}

/// Deletes messages that were delivered long ago. Those of an execution that is purged go with it.
async fn purge_messages(runtime: &Runtime) -> Result<(), Error> {
    for _ in 0..BATCHES_MAX {
        let store = Arc::clone(runtime.store());
        let retain_ms = ms(DELIVERED_RETAIN);
        let purging = async move { store.messages().purge_messages(retain_ms, ROWS_MAX).await };
        if runtime.in_own_task(purging).await?? < u64::from(ROWS_MAX) {
            break;
        }
    }
    Ok(())
}

/// Purges for as long as there is something to purge, so that a busy table does not outgrow its retention.
async fn purge_on(
    runtime: &Runtime,
    mut after: Option<Cursor>,
    swept: &mut Swept,
) -> Result<Option<Cursor>, Error> {
    for _ in 0..BATCHES_MAX {
        let before = swept.purged;
        after = purge(runtime, after, swept).await?;
        if after.is_none() || swept.purged == before {
            break;
        }
    }
    Ok(after)
}
