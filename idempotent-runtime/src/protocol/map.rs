//! Maps by ids, which are hashes or random already: they need a seed, not another hash of 16 bytes.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A map by [`ExecutionId`](super::ExecutionId) or [`Owner`](super::Owner).
pub(crate) type IdMap<K, V> = HashMap<K, V, Seeded>;

/// Makes hashers with a seed of this map's own.
#[derive(Clone, Debug)]
pub(crate) struct Seeded {
    seed: u64,
}

impl Default for Seeded {
    fn default() -> Self {
        Self { seed: seed() }
    }
}

fn seed() -> u64 {
    #[cfg(feature = "testing")]
    if let Some(seed) = SEED.get() {
        return seed;
    }
    RandomState::new().hash_one(())
}

#[cfg(feature = "testing")]
thread_local! {
    static SEED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Has the maps that this thread makes from now on begin with the same seed, so that their order comes again.
#[cfg(feature = "testing")]
pub(crate) fn seed_maps(seed: Option<u64>) {
    SEED.set(seed);
}

impl BuildHasher for Seeded {
    type Hasher = Spread;

    fn build_hasher(&self) -> Spread {
        Spread { state: self.seed }
    }
}

/// Spreads eight bytes after eight over its state.
#[derive(Debug)]
pub(crate) struct Spread {
    state: u64,
}

/// An odd number whose bits are spread: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let spread = (self.state ^ u64::from_le_bytes(word)).wrapping_mul(SPREAD);
            self.state = spread ^ (spread >> 32);
        }
    }

    /// The length of an id: the same for all.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.state
    }
}
