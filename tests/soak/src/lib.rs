//! Long runs in chunks. A part of the soak has a goal, so many units; a [`Chunk`] is what one call does of it.
//!
//! `cargo xtask soak` tells a part by the environment where to go on and for how long, and reads what it prints:
//!
//! | variable | what | without it |
//! |---|---|---|
//! | `IDEMPOTENT_SOAK_FROM` | the units that were done before, which is the number of the next one | 0 |
//! | `IDEMPOTENT_SOAK_SECONDS` | how long the chunk takes; it ends with the unit that is under way then | 60 |
//!
//! A part is a test that is run on demand, one line a unit:
//!
//! ```no_run
//! # fn simulate(seed: u64) {}
//! #[test]
//! #[ignore = "soak: a million seeds"]
//! fn a_million_seeds() {
//!     for unit in &idempotent_soak::Chunk::of("simulation", 1_000_000, "seeds") {
//!         simulate(unit.number());
//!     }
//! }
//! ```
//!
//! Several threads share a chunk as `&Chunk`. A unit that panics, or is [failed](Unit::fail), ends the chunk: what stands
//! before it is kept, and the next chunk begins with it.

mod chunk;
mod progress;
mod settings;

pub use chunk::{Chunk, Unit};
