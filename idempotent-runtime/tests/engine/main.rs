//! The engine's behaviour on the memory store under paused time, one fact a test.
//!
//! Handlers are described by hand here, as their expansion would: the attribute has its own tests.

mod support;

mod answers;
mod claims;
mod drops;
mod faults;
mod leases;
mod limits;
mod results;
mod review;
mod sharing;
mod shutdown;
mod sweeps;
