//! Randomness from a seed, so that a run can be had again.

use std::cell::Cell;

use crate::protocol::seed_maps;

thread_local! {
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Draws what this crate draws at random on this thread from `seed`: owners, jitter, the order of maps by id. `None` goes back
/// to true randomness.
///
/// Together with paused time on a current-thread runtime, and a [heartbeat in a task](crate::Builder::heartbeat_task), the
/// same seed gives the same run. Operation keys are the application's, and stay random.
///
/// # Examples
///
/// ```
/// use idempotent_runtime::testing::seed_randomness;
///
/// seed_randomness(Some(7));
/// // A run.
/// seed_randomness(None);
/// ```
pub fn seed_randomness(seed: Option<u64>) {
    STATE.set(seed);
    seed_maps(seed);
}

/// Sixteen bytes of the thread's seed, if it has one.
pub(crate) fn drawn() -> Option<[u8; 16]> {
    let state = STATE.get()?;
    let (first, state) = next(state);
    let (second, state) = next(state);
    STATE.set(Some(state));
    Some((u128::from(first) << 64 | u128::from(second)).to_be_bytes())
}

/// A number, and the state behind it: splitmix64.
pub(super) fn next(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31), state)
}

#[cfg(test)]
mod tests;
