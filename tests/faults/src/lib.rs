//! Handlers on wires that are cut, swallowed and delayed, and on databases that crash, fill up and lose commits.
//!
//! The effects are those of the handlers in [`errand`]: one for each [`Class`](idempotent_crash::matrix::Class). What
//! they did outside stands in [`Outside`], what they did in the database beside the executions. [`promise`] holds both
//! against what the class promises.

#![cfg(feature = "postgres")]

// In reading order: what is run, what is kept, what is held against it; then the faults.
pub mod errand;
mod outside;
pub mod promise;

pub mod bench;
pub mod cut;
pub mod load;
pub mod tiny_disk;
pub mod wire;

pub use outside::{Heard, Hold, Outside, Spot};
