//! The date, for people.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, as `2026-01-31 17:05 UTC`.
pub(crate) fn today() -> String {
    format(now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

#[expect(clippy::disallowed_methods, reason = "people read when something was done")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Seconds since 1970 in the Gregorian calendar.
fn format(seconds: u64) -> String {
    let (mut days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let mut month = 1;
    for length in [31, days_of(year) - 337, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute) = (minutes / 60, minutes % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02} UTC", days + 1)
}

const fn days_of(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests;
