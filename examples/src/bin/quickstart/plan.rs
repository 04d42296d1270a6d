//! What is delivered, how often and in which order: all of it follows from the seed.

use std::fmt;

use anyhow::{Context, Result};
use fastrand::Rng;

use crate::worker::Delivery;

/// Deliveries in the file.
pub(crate) const OPERATIONS_MAX: usize = 52;
/// A queue that delivers at least once delivers this often at most; here at least.
const COPIES: std::ops::RangeInclusive<usize> = 1..=4;

/// Real deliveries; `examples/data/README.md` names their source and licence.
const DELIVERIES: &str = include_str!("../../../data/github-webhooks.jsonl");

/// The workload of each run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) operations: usize,
    /// Each delivery one to four times, shuffled.
    pub(crate) copies: Vec<Delivery>,
}

impl Plan {
    /// The first `operations` deliveries of the file, copied and shuffled by `seed`.
    pub(crate) fn new(seed: u64, operations: usize) -> Result<Self> {
        let mut rng = Rng::with_seed(seed);
        let mut copies = Vec::new();
        for line in DELIVERIES.lines().take(operations) {
            let delivery: Delivery =
                serde_json::from_str(line).context("reading the deliveries")?;
            copies.extend(std::iter::repeat_n(delivery, rng.usize(COPIES)));
        }
        rng.shuffle(&mut copies);
        Ok(Self { seed, operations, copies })
    }

    /// Random numbers for one purpose, the same in each run.
    pub(crate) fn rng(&self, purpose: u64) -> Rng {
        let mut rng = Rng::with_seed(self.seed);
        for _ in 0..=purpose {
            rng = rng.fork();
        }
        rng
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, operations, copies } = self;
        let queued = copies.len();
        write!(f, "seed {seed}: {operations} operations, queued as {queued} deliveries")
    }
}
