//! Between the numbers of the protocol and those that a column holds; and how long to wait for others.

use std::time::Duration;

/// The longest stretch of time that a row stores, in milliseconds: 2,852 years. Longer ones are cut to it, so that
/// no sum of an instant and a stretch leaves the range of a column.
pub(in crate::store) const MS_MAX: i64 = 90_000_000_000_000;

/// Milliseconds as stored.
pub(in crate::store) fn ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(MS_MAX).min(MS_MAX)
}

/// A count as stored.
pub(in crate::store) fn number(number: u32) -> i64 {
    i64::from(number)
}

/// A limit on rows, and one more, to see whether there are more.
pub(in crate::store) fn rows(rows_max: u32) -> (usize, i64) {
    (usize::try_from(rows_max).unwrap_or(usize::MAX), i64::from(rows_max) + 1)
}

/// Microseconds as milliseconds, rounded up, and at least one.
#[cfg(any(feature = "sqlite", test))]
pub(in crate::store) fn ms_between(us: i64) -> u64 {
    u64::try_from(us).unwrap_or(0).div_ceil(1_000).max(1)
}

/// A wait between a quarter of `us_max` microseconds and all of them, so that those who wait do not march in step.
pub(in crate::store) fn jittered(us_max: u64) -> Duration {
    let random = uuid::Uuid::new_v4().as_u64_pair().0;
    Duration::from_micros(us_max / 4 + random % (us_max - us_max / 4).max(1))
}
