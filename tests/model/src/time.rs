//! Time, and how it stays finite.
//!
//! `now` is always zero: when time goes on, what is stored moves back. An instant that lies so far back that no
//! function can tell it from an earlier one stays where it is. The unit is one millisecond, the smallest that the
//! protocol's limits can say, so a lease is one of them, and an attempt's `max_runtime` two, or three where it
//! matters that an attempt may act that was overtaken.

use idempotent_runtime::protocol::{Limits, Micros, Record, Step, StepState};

/// The store's time.
pub const NOW: Micros = Micros(0);

/// How long an attempt's lease is, in milliseconds.
pub const LEASE_MS: u64 = 1;
/// How long the provider is sure to remember a key, in milliseconds.
pub const WINDOW_MS: u64 = 1;
/// The backoff of a body's error, in milliseconds.
pub const BACKOFF_MS: u64 = 1;
/// No stretch of time that the protocol compares with is longer, in milliseconds.
pub const HORIZON_MS: u64 = 8;

/// A millisecond later, and no further back than is told apart.
pub(crate) fn tick(instant: &mut Micros, told_apart_ms: u64) {
    *instant = instant.minus_ms(1).max(NOW.minus_ms(told_apart_ms));
}

/// A millisecond later for a record.
pub(crate) fn tick_record(record: &mut Record) {
    let Limits { max_runtime_ms, retain_ms, .. } = record.limits;
    // A released attempt's lease counts for its retention.
    tick(&mut record.lease_until, retain_ms + 1);
    tick(&mut record.attempt_started_at, max_runtime_ms);
    tick(&mut record.alive_until, 0);
    for instant in [&mut record.not_before, &mut record.done_at].into_iter().flatten() {
        tick(instant, retain_ms + 1);
    }
}

/// A millisecond later for a step.
pub(crate) fn tick_step(step: &mut Step) {
    if step.state == StepState::Started {
        tick(&mut step.started_at, WINDOW_MS + 1);
        tick(&mut step.alive_until, 0);
    }
}
