//! When which fault happens.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Plan;

/// What happens to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Kill,
    Stop,
    /// The stopped process of that number goes on.
    Continue(u32),
}

/// The faults that are still to come.
#[derive(Debug)]
pub(super) struct Faults {
    kills: u32,
    stops: u32,
    lease: Duration,
    every: Duration,
    dice: fastrand::Rng,
    at: Duration,
    wakes: BTreeSet<(Duration, u32)>,
}

impl Faults {
    pub(super) fn new(plan: &Plan, dice: fastrand::Rng) -> Self {
        let Plan { kills, stops, lease, fault_every: every, .. } = *plan;
        let wakes = BTreeSet::new();
        let mut faults = Self { kills, stops, lease, every, dice, at: lease, wakes };
        faults.postpone(lease);
        faults
    }

    /// Draws when the next one comes: a plan's `fault_every` apart on average.
    pub(super) fn postpone(&mut self, now: Duration) {
        self.at = now + self.every.mul_f64(self.dice.f64() * 2.0);
    }

    /// The fault that is due. A kill or a stop counts once it is said to have been done.
    pub(super) fn due(&mut self, now: Duration) -> Option<Fault> {
        if self.wakes.first().is_some_and(|(at, _)| *at <= now) {
            return self.wakes.pop_first().map(|(_, process)| Fault::Continue(process));
        }
        let left = self.kills + self.stops;
        if left == 0 || now < self.at {
            return None;
        }
        self.postpone(now);
        Some(if self.dice.u32(..left) < self.kills { Fault::Kill } else { Fault::Stop })
    }

    /// A process was killed.
    pub(super) fn killed(&mut self) {
        self.kills -= 1;
    }

    /// A process was stopped: it goes on when its lease has lapsed and others have had time to take over, or
    /// even to finish.
    pub(super) fn stopped(&mut self, now: Duration, process: u32) {
        self.stops -= 1;
        let asleep = self.lease.mul_f64(1.2 + self.dice.f64() * 2.0);
        self.wakes.insert((now + asleep, process));
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<Duration> {
        let fault = (self.kills + self.stops > 0).then_some(self.at);
        fault.into_iter().chain(self.wakes.first().map(|(at, _)| *at)).min()
    }

    /// Whether nothing more happens.
    pub(super) fn over(&self) -> bool {
        self.kills + self.stops == 0 && self.wakes.is_empty()
    }
}
