//! What is ready, in whose hand, waiting or settled: without sockets and clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::wire::{Handed, Tag, Verdict};
use crate::worker::Delivery;

/// Deliveries that a worker holds at a time.
const IN_HAND_MAX: usize = 3;

/// A connection's number.
pub(super) type WorkerId = u64;

/// How far the queue is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Messages at the start.
    pub(crate) queued: usize,
    /// Acknowledged or dead.
    pub(crate) settled: usize,
    /// Handed out, again or for the first time.
    pub(crate) deliveries: usize,
    /// Of these, handed out while another worker held a copy of the same delivery.
    pub(crate) overlapping: usize,
    /// Given up by their worker.
    pub(crate) dead: usize,
}

impl Progress {
    /// Whether everything is settled.
    pub(crate) fn drained(&self) -> bool {
        self.settled == self.queued
    }
}

/// A message is at one place at a time: ready, in one worker's hand, waiting for its retry, or settled.
#[derive(Debug)]
pub(super) struct Queue {
    /// By tag.
    copies: Vec<Delivery>,
    ready: VecDeque<Tag>,
    in_hand: BTreeMap<WorkerId, BTreeSet<Tag>>,
    progress: Progress,
}

impl Queue {
    pub(super) fn new(copies: Vec<Delivery>) -> Self {
        let progress = Progress { queued: copies.len(), ..Progress::default() };
        Self { ready: (0..copies.len()).collect(), copies, in_hand: BTreeMap::new(), progress }
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// A worker has connected.
    pub(super) fn join(&mut self, worker: WorkerId) {
        self.in_hand.insert(worker, BTreeSet::new());
    }

    /// A worker's connection broke: what it held is ready again.
    pub(super) fn leave(&mut self, worker: WorkerId) {
        self.ready.extend(self.in_hand.remove(&worker).unwrap_or_default());
    }

    /// The wait before a retry is over.
    pub(super) fn due(&mut self, tag: Tag) {
        self.ready.push_back(tag);
    }

    /// Takes a message out of a worker's hand; false if it was not there. One to be retried is the caller's to
    /// keep until it is [`due`](Self::due).
    pub(super) fn settle(&mut self, worker: WorkerId, tag: Tag, verdict: Verdict) -> bool {
        let held = self.in_hand.get_mut(&worker).is_some_and(|tags| tags.remove(&tag));
        if held {
            match verdict {
                Verdict::Ack => self.progress.settled += 1,
                Verdict::DeadLetter => {
                    self.progress.settled += 1;
                    self.progress.dead += 1;
                }
                Verdict::RetryAfter { .. } => {}
            }
        }
        held
    }

    /// Hands out what is ready to the workers that hold least.
    pub(super) fn hand_out(&mut self) -> Vec<(WorkerId, Handed)> {
        let mut handed = Vec::new();
        while let Some(worker) = self.idlest()
            && let Some(tag) = self.ready.pop_front()
        {
            self.progress.deliveries += 1;
            if self.held_elsewhere(tag, worker) {
                self.progress.overlapping += 1;
            }
            self.in_hand.entry(worker).or_default().insert(tag);
            handed.push((worker, Handed { tag, delivery: self.copies[tag].clone() }));
        }
        handed
    }

    fn idlest(&self) -> Option<WorkerId> {
        let idlest = self.in_hand.iter().min_by_key(|(_, tags)| tags.len())?;
        (idlest.1.len() < IN_HAND_MAX).then_some(*idlest.0)
    }

    fn held_elsewhere(&self, tag: Tag, worker: WorkerId) -> bool {
        let id = self.copies[tag].delivery;
        self.in_hand
            .iter()
            .filter(|(other, _)| **other != worker)
            .any(|(_, tags)| tags.iter().any(|held| self.copies[*held].delivery == id))
    }
}

#[cfg(test)]
mod tests;
