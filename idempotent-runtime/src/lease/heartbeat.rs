//! Renews the leases of all attempts of the process, from a thread of its own.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use super::{Attempt, Attempts, us};
use crate::clock::Clock;
use crate::protocol::{Renewal, Renewed};
use crate::store::{Store, StoreError, StoreErrorKind};

/// Most renewals in one statement.
const BATCH_MAX: usize = 1_024;
/// A store that does not answer for this long is asked again over a new connection.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Between two tries to reach a store that is away.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// Where the heartbeat runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeartbeatOn {
    /// A thread of its own, so that a handler that blocks its thread cannot starve it.
    Thread,
    /// A task on the runtime that `connect` was called on, so that paused time moves it too.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only tests pause time"))]
    Task,
}

/// The heartbeat of one runtime: started by the first claim, ended with the runtime.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    on: HeartbeatOn,
    started: OnceLock<()>,
    stop: watch::Sender<()>,
}

impl Heartbeat {
    pub(crate) fn new(on: HeartbeatOn) -> Self {
        Self { on, started: OnceLock::new(), stop: watch::Sender::new(()) }
    }

    /// Ends it: from here on no lease is renewed.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(());
    }

    /// Starts it, once.
    pub(crate) fn start(
        &self,
        attempts: &Arc<Attempts>,
        store: &Arc<dyn Store>,
        clock: &Arc<dyn Clock>,
        tasks: &Handle,
    ) {
        self.started.get_or_init(|| {
            let beat = Beat {
                attempts: Arc::clone(attempts),
                store: Arc::clone(store),
                clock: Arc::clone(clock),
                stop: self.stop.subscribe(),
            };
            match self.on {
                HeartbeatOn::Task => drop(tasks.spawn(beat.run())),
                HeartbeatOn::Thread => spawn_thread(beat),
            }
        });
    }
}

fn spawn_thread(beat: Beat) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let spawned = runtime.and_then(|runtime| {
        let name = "idempotent-heartbeat".to_owned();
        thread::Builder::new().name(name).spawn(move || runtime.block_on(beat.run()))
    });
    if let Err(error) = spawned {
        // Bodies are then cancelled before their first lease ends, which is safe.
        tracing::error!(%error, "no thread for the heartbeat: leases are not renewed");
    }
}

struct Beat {
    attempts: Arc<Attempts>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    stop: watch::Receiver<()>,
}

impl Beat {
    async fn run(mut self) {
        let mut handle = None;
        loop {
            let (due, next) = self.attempts.due(self.clock.elapsed());
            if due.is_empty() {
                if !self.sleep(next).await {
                    return;
                }
                continue;
            }
            for batch in due.chunks(BATCH_MAX) {
                self.renew(&mut handle, batch).await;
            }
        }
    }

    /// Sleeps until `next`, or until an attempt is due earlier. False when it has been stopped, or the runtime has ended.
    async fn sleep(&mut self, next: Option<Duration>) -> bool {
        let attempts = &self.attempts;
        let until = next.unwrap_or(Duration::MAX / 4);
        attempts.wakes_at_us.store(us(until), Ordering::Release);
        // An attempt that came between `due` and the store above did not see it: look again.
        let (due, earlier) = attempts.due(self.clock.elapsed());
        if !due.is_empty() || earlier.is_some_and(|earlier| earlier < until) {
            return true;
        }
        let asleep = async {
            match next {
                Some(next) => self.clock.sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // Told to stop, or the sender is gone.
            _ = self.stop.changed() => false,
            () = attempts.earlier.notified() => true,
            () = asleep => true,
        }
    }

    /// Renews one batch; what fails is asked again soon.
    async fn renew(&self, handle: &mut Option<Arc<dyn Store>>, batch: &[Arc<Attempt>]) {
        let sent = self.clock.elapsed();
        let renewals: Vec<Renewal> = batch.iter().map(|attempt| attempt.renewal()).collect();
        match self.ask(handle, renewals, sent).await {
            Ok(answers) => {
                for (attempt, answer) in batch.iter().zip(answers) {
                    attempt.renewed(answer, sent);
                }
            }
            Err(error) => {
                tracing::warn!(%error, attempts = batch.len(), "leases could not be renewed");
                *handle = None;
                let now = self.clock.elapsed();
                batch.iter().for_each(|attempt| attempt.ask_again(now));
                self.clock.sleep_until(now + RETRY_EVERY).await;
            }
        }
    }

    /// The store's answers. The call runs in a task of its own: it is never dropped half-way.
    async fn ask(
        &self,
        handle: &mut Option<Arc<dyn Store>>,
        renewals: Vec<Renewal>,
        sent: Duration,
    ) -> Result<Vec<Renewed>, StoreError> {
        let store = Arc::clone(&self.store);
        let opened = handle.clone();
        let call = tokio::spawn(async move {
            let opened = match opened {
                Some(opened) => Some(opened),
                None => match store.heartbeat_handle().await {
                    Ok(opened) => Some(opened),
                    // The server has no room for one more connection: the others have to do.
                    Err(error) if error.kind() == StoreErrorKind::Busy => {
                        tracing::warn!(%error, "the heartbeat has no connection of its own");
                        None
                    }
                    Err(error) => return Err(error),
                },
            };
            let answers = opened.as_ref().unwrap_or(&store).renew(&renewals).await?;
            Ok((opened, answers))
        });
        let away = |what: &str| StoreError::new(StoreErrorKind::Unavailable, what);
        let (opened, answers) = tokio::select! {
            biased;
            answered = call => answered.map_err(|_| away("the renewal ended without an answer"))??,
            () = self.clock.sleep_until(sent + ANSWER_MAX) => {
                return Err(away("the store did not answer a renewal in time"));
            }
        };
        *handle = opened;
        Ok(answers)
    }
}
