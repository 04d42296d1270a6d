//! All chance of a simulation, from its seed.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Draws from a seed, in the order of what happens.
#[derive(Debug)]
pub(crate) struct Dice(Mutex<fastrand::Rng>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    fn rng(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True in `permille` of a thousand cases.
    pub(crate) fn chance(&self, permille: u32) -> bool {
        self.rng().u32(0..1_000) < permille
    }

    pub(crate) fn within(&self, range: Range<u64>) -> u64 {
        self.rng().u64(range)
    }

    /// As [`within`](Self::within), of small numbers.
    pub(crate) fn small(&self, range: Range<u32>) -> u32 {
        self.rng().u32(range)
    }

    pub(crate) fn ms(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    pub(crate) fn pick<'a, T>(&self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() {
            return None;
        }
        let place = self.rng().usize(0..from.len());
        from.get(place)
    }

    /// A number that no other draw has.
    pub(crate) fn nonce(&self) -> u64 {
        self.rng().u64(..) >> 16
    }
}
