//! Which units were given out, and up to which one all have passed.

use std::collections::BTreeSet;

/// What is known of the units. Units may end in any order; what counts is how many passed from the first on.
#[derive(Debug)]
pub(crate) struct Progress {
    goal: u64,
    next: u64,
    done: u64,
    /// Passed, but one before them has not yet.
    ahead: BTreeSet<u64>,
    failed: Option<u64>,
}

impl Progress {
    pub(crate) fn new(from: u64, goal: u64) -> Self {
        let from = from.min(goal);
        Self { goal, next: from, done: from, ahead: BTreeSet::new(), failed: None }
    }

    /// The next unit, unless the goal is reached or a unit has failed.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let number = self.next;
        if number >= self.goal || self.failed.is_some() {
            return None;
        }
        self.next += 1;
        Some(number)
    }

    pub(crate) fn pass(&mut self, number: u64) {
        self.ahead.insert(number);
        while self.ahead.remove(&self.done) {
            self.done += 1;
        }
    }

    /// The lowest one that failed is the one to begin with next time.
    pub(crate) fn fail(&mut self, number: u64) {
        self.failed = Some(self.failed.map_or(number, |failed| failed.min(number)));
    }

    /// How many units have passed without a gap: the number of the unit to go on with.
    pub(crate) const fn done(&self) -> u64 {
        self.done
    }

    /// How many units were given out, those of earlier chunks among them.
    pub(crate) const fn taken(&self) -> u64 {
        self.next
    }

    /// Whether no unit is under way.
    pub(crate) const fn is_idle(&self) -> bool {
        self.done == self.next
    }
}

#[cfg(test)]
mod tests;
