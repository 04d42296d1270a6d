//! A simulated process: its tasks go on only at edges, which are held back while it is frozen, and for ever once it is dead.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::world::World;

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Runs,
    /// Since then on the world's clock; `suspended`: its own clock stands still, too.
    Frozen {
        since: Duration,
        suspended: bool,
    },
    Dead,
}

/// A process, as far as the world sees it.
#[derive(Debug)]
pub(crate) struct Process {
    number: u32,
    world: Arc<World>,
    pace: Mutex<Pace>,
    /// How long its clock has stood still.
    stood_still: Mutex<Duration>,
    /// How much its clock gains or loses, in parts of a million.
    drift_ppm: i64,
    turned: Notify,
    freezes: AtomicU32,
}

impl Process {
    pub(crate) fn new(number: u32, world: &Arc<World>, drift_ppm: i64) -> Arc<Self> {
        Arc::new(Self {
            number,
            world: Arc::clone(world),
            pace: Mutex::new(Pace::Runs),
            stood_still: Mutex::default(),
            drift_ppm,
            turned: Notify::new(),
            freezes: AtomicU32::new(0),
        })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        &self.world
    }

    pub(crate) fn name(&self) -> String {
        format!("p{}", self.number)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn runs(&self) -> bool {
        *self.pace() == Pace::Runs
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.pace() == Pace::Dead
    }

    /// Whether its own clock has stood still: then it may take a lease for its own that has long lapsed.
    pub(crate) fn has_stood_still(&self) -> bool {
        let stood_still = *self.stood_still.lock().unwrap_or_else(PoisonError::into_inner);
        stood_still > Duration::ZERO
    }

    /// How often it was frozen.
    pub(crate) fn freezes(&self) -> u32 {
        self.freezes.load(Ordering::SeqCst)
    }

    /// Where a task of the process goes on: an answer has come, a timer fired, a request is about to leave. In which order
    /// those of the same instant go on is drawn.
    pub(crate) async fn edge(self: &Arc<Self>) {
        loop {
            // Made first and asked then, so that no turn is missed.
            let turned = self.turned.notified();
            let pace = *self.pace();
            match pace {
                Pace::Dead => pending().await,
                Pace::Frozen { .. } => turned.await,
                Pace::Runs => {
                    for _ in 0..self.world.dice.small(0..3) {
                        tokio::task::yield_now().await;
                    }
                    self.may_fall();
                    if self.runs() {
                        return;
                    }
                }
            }
        }
    }

    /// Falls here by chance: between any two things that it does.
    fn may_fall(self: &Arc<Self>) {
        let (world, dice) = (&self.world, &self.world.dice);
        if !world.rates().is_some_and(|rates| dice.chance(rates.falls)) || !self.runs() {
            return;
        }
        if dice.chance(300) {
            return self.kill();
        }
        let lasts = if dice.chance(700) { dice.ms(1_100..4_000) } else { dice.ms(50..1_000) };
        self.freeze_for(lasts, dice.chance(300));
    }

    /// Lets `duration` pass on the process's clock.
    pub(crate) async fn sleep(self: &Arc<Self>, duration: Duration) {
        tokio::time::sleep(duration).await;
        self.edge().await;
    }

    /// Time on its own clock.
    pub(crate) fn elapsed(&self) -> Duration {
        let stood_still = *self.stood_still.lock().unwrap_or_else(PoisonError::into_inner);
        let ran = self.world.now().saturating_sub(stood_still);
        let us = i64::try_from(ran.as_micros()).unwrap_or(i64::MAX / 2);
        let shown = us + us.saturating_mul(self.drift_ppm) / 1_000_000;
        Duration::from_secs(u64::from(self.number) * 1_000)
            + Duration::from_micros(shown.unsigned_abs())
    }

    /// Stops it for so long: then it is a zombie.
    pub(crate) fn freeze_for(self: &Arc<Self>, lasts: Duration, suspended: bool) {
        let since = self.world.now();
        match &mut *self.pace() {
            pace @ Pace::Runs => *pace = Pace::Frozen { since, suspended },
            Pace::Frozen { .. } | Pace::Dead => return,
        }
        self.freezes.fetch_add(1, Ordering::SeqCst);
        self.world.saw(if suspended { "suspended" } else { "frozen" });
        let how = if suspended { "is suspended" } else { "is frozen" };
        self.world.note(self.name(), || format!("{how} for {} ms", lasts.as_millis()));
        let this = Arc::clone(self);
        drop(tokio::spawn(async move {
            tokio::time::sleep(lasts).await;
            this.thaw();
        }));
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        let mut pace = self.pace();
        if let Pace::Frozen { since, suspended } = *pace {
            if suspended {
                let mut stood_still =
                    self.stood_still.lock().unwrap_or_else(PoisonError::into_inner);
                *stood_still += self.world.now().saturating_sub(since);
            }
            *pace = Pace::Runs;
            self.world.note(self.name(), || "wakes up".to_owned());
            self.turned.notify_waiters();
        }
    }

    /// Ends it: none of its tasks is ever polled again.
    pub(crate) fn kill(&self) {
        *self.pace() = Pace::Dead;
        self.world.note(self.name(), || "is killed".to_owned());
        self.world.saw("killed");
        self.world.process_died();
        self.turned.notify_waiters();
    }

    /// Completes when it is dead.
    pub(crate) async fn died(&self) {
        loop {
            let turned = self.turned.notified();
            if self.is_dead() {
                return;
            }
            turned.await;
        }
    }
}
