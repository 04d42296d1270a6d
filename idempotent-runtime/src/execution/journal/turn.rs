//! In which order the body is handed recorded values: in that of their records, one poll apart, on the first attempt
//! as on those after it. So a race between steps is won by the same one every time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Journal;
use crate::clock::Clock;
use crate::protocol::{Micros, StepFound, StepName, StepRecord};

/// A step goes on before recorded ones that the body has not come to when none goes on for so long: each may stand behind
/// something that takes its time, or the body may never come to it.
const PATIENCE: Duration = Duration::from_secs(1);
/// That, or so large a part of `max_runtime` where it is less: an attempt that is over in a second has other things to do.
const PART_OF_RUNTIME: u64 = 4;

/// How long an attempt waits, whose `max_runtime` is this long.
pub(super) fn patience(max_runtime_ms: u64) -> Duration {
    PATIENCE.min(Duration::from_millis(max_runtime_ms / PART_OF_RUNTIME))
}

/// A step goes on before others when they have not moved for so many polls of it. Between two of its polls the other
/// branches of a `select!` need not have been polled, which starts with a random one; between three they have.
const QUIET: u32 = 2;

/// When a value counts as recorded, and of those that were recorded side by side at one instant the name.
type Place = (Micros, StepName);

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Of the values that are recorded and that the body has not been handed yet.
    ahead: BTreeSet<Place>,
    /// When the latest value that is known was recorded.
    latest: Option<Micros>,
    /// Those of `ahead` that the body has not come to in this attempt.
    unvisited: BTreeSet<Place>,
    /// Records on their way to the store, by a number that rises.
    on_the_way: BTreeSet<u64>,
    sent: u64,
    /// Rises whenever the body comes to a step, or a value is handed over or dropped.
    moves: u64,
}

impl Turns {
    /// With the values that attempts before have recorded.
    pub(super) fn new(recorded: impl Iterator<Item = Place>) -> Self {
        let ahead: BTreeSet<Place> = recorded.collect();
        let latest = ahead.last().map(|(done_at, _)| *done_at);
        Self { unvisited: ahead.clone(), ahead, latest, ..Self::default() }
    }

    /// The body came to a step.
    pub(super) fn visited(&mut self, place: Option<&Place>) {
        self.moves += 1;
        if let Some(place) = place {
            self.unvisited.remove(place);
        }
    }

    /// Whom a step waits for.
    fn before(&self, place: Option<&Place>) -> Option<Before> {
        let is_before = |first: &Place| place.is_none_or(|place| first < place);
        self.ahead.first().filter(|first| is_before(first))?;
        let is_unvisited = self.unvisited.first().is_some_and(is_before);
        Some(if is_unvisited { Before::Unvisited } else { Before::Visited { moves: self.moves } })
    }

    /// Waits no more for those before a step that the body has not come to.
    fn give_up_unvisited(&mut self, place: Option<&Place>) {
        let later = place.map_or_else(BTreeSet::new, |place| self.unvisited.split_off(place));
        for given_up in std::mem::replace(&mut self.unvisited, later) {
            self.ahead.remove(&given_up);
        }
        self.moves += 1;
    }
}

/// Whom a step waits for.
enum Before {
    /// One that the body has not come to.
    Unvisited,
    /// Only such as the body has come to. `moves` rises when one goes on.
    Visited { moves: u64 },
}

/// A step's turn to go on; over when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    journal: Arc<Journal>,
    /// Where its value is recorded; without one, it goes behind all that are.
    place: Option<Place>,
    /// Records that were sent up to this one may turn out to lie before it.
    sent_before: u64,
}

impl Turn {
    pub(super) fn of(journal: &Arc<Journal>, place: Option<Place>) -> Self {
        Self { journal: Arc::clone(journal), place, sent_before: 0 }
    }

    /// Lets the steps go first whose values were recorded before: those that can, and as long as one of them does. A
    /// step that the body keeps and does not poll holds nobody up; one that it does not come to, for as long as its patience lasts.
    pub(crate) async fn come(&self, clock: &dyn Clock) {
        self.records_before().await;
        let (mut seen, mut quiet) = (None, 0);
        loop {
            // Made first and asked then, while a move is noted first and wakes then.
            let moved = self.journal.moved.notified();
            let before = self.journal.known().turns.before(self.place.as_ref());
            match before {
                None => return,
                Some(Before::Unvisited) => tokio::select! {
                    biased;
                    () = moved => {}
                    () = clock.sleep_until(clock.elapsed().saturating_add(self.journal.patience)) => self.give_up_unvisited(),
                },
                Some(Before::Visited { moves }) => {
                    quiet = if seen == Some(moves) { quiet + 1 } else { 0 };
                    if quiet == QUIET {
                        return;
                    }
                    seen = Some(moves);
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn give_up_unvisited(&self) {
        tracing::debug!("recorded steps that the body does not come to are not waited for");
        self.journal.known().turns.give_up_unvisited(self.place.as_ref());
        self.journal.moved.notify_waiters();
    }

    /// Completes when no record is on its way that may lie before this one.
    async fn records_before(&self) {
        loop {
            // Made first and asked then, while a landing is noted first and wakes then.
            let landed = self.journal.landed.notified();
            let before = self.journal.known().turns.on_the_way.first().copied();
            if before.is_none_or(|before| before > self.sent_before) {
                return;
            }
            landed.await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            let mut known = self.journal.known();
            known.turns.ahead.remove(place);
            known.turns.moves += 1;
            drop(known);
            self.journal.moved.notify_waiters();
        }
    }
}

/// A record on its way to the store.
#[derive(Debug)]
pub(crate) struct Sent {
    journal: Arc<Journal>,
    number: u64,
    /// [`StepRecord::earliest`]: whoever waits for no record that was sent behind its own has gone first.
    pub(crate) earliest: Micros,
}

impl Sent {
    pub(super) fn new(journal: &Arc<Journal>) -> Self {
        let mut known = journal.known();
        known.turns.sent += 1;
        let number = known.turns.sent;
        known.turns.on_the_way.insert(number);
        let earliest =
            known.turns.latest.map_or(Micros(0), |Micros(us)| Micros(us.saturating_add(1)));
        Self { journal: Arc::clone(journal), number, earliest }
    }

    /// The store has it since `done_at`.
    pub(crate) fn landed(self, record: &StepRecord, done_at: Micros) -> Turn {
        let mut known = self.journal.known();
        known.note(record);
        let place = match record.found {
            StepFound::Happened(_) => Some((done_at, record.name.clone())),
            StepFound::DidNotHappen => None,
        };
        if place.is_some() {
            known.turns.latest = known.turns.latest.max(Some(done_at));
        }
        known.turns.ahead.extend(place.clone());
        let sent_before = known.turns.sent;
        drop(known);
        Turn { journal: Arc::clone(&self.journal), place, sent_before }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.journal.known().turns.on_the_way.remove(&self.number);
        self.journal.landed.notify_waiters();
    }
}
