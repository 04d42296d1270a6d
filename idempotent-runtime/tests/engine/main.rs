//! The engine's behaviour on the memory store under paused time, one fact a test.
//!
//! Handlers are described by hand here, as their expansion would: the attribute has its own tests.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

mod books;
mod support;

mod answers;
mod backlog;
#[cfg(feature = "cache")]
mod cache;
mod claims;
mod completions;
mod drops;
mod faults;
mod hung;
mod leases;
mod limits;
mod observability;
mod order;
mod outbox;
mod races;
mod results;
mod review;
mod sharing;
mod shutdown;
mod steps;
mod sweeps;
mod takeovers;
mod transactions;
mod undone;
