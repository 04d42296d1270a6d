//! A queue that delivers at least once.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::handler::Order;
use crate::worker::Delivery;

#[derive(Debug, Default)]
pub(super) struct Queue {
    ready: VecDeque<Delivery>,
    /// By when they are due, and their number.
    later: BTreeMap<(Duration, u64), Order>,
    deliveries: u64,
}

impl Queue {
    /// Delivers `order` from `due` on.
    pub(super) fn put(&mut self, order: Order, due: Duration) {
        self.deliveries += 1;
        self.later.insert((due, self.deliveries), order);
    }

    /// Makes deliverable what is due.
    pub(super) fn ripen(&mut self, now: Duration) {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, number), order) = first.remove_entry();
            self.ready.push_back(Delivery { number, order });
        }
    }

    pub(super) fn take(&mut self) -> Option<Delivery> {
        self.ready.pop_front()
    }

    /// Deliveries that are not handed out.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.later.len()
    }

    /// When the next delivery is due that is not yet.
    pub(super) fn next(&self) -> Option<Duration> {
        self.later.first_key_value().map(|((due, _), _)| *due)
    }
}
