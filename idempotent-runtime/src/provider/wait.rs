//! When a provider wants to be asked again.

use std::time::Duration;

/// The longest wait that is told: past it nobody waits, and no sum with an instant overflows.
const WAIT_MAX: Duration = Duration::from_secs(u32::MAX as u64);

/// What `Retry-After` asks for: seconds, or a date, of which the answer's own `Date` is taken. Two clocks that differ
/// make no wrong wait that way; a date without `Date` says nothing. A date that is over is no wait.
pub(crate) fn retry_after<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    let asked = header("retry-after")?.trim();
    let wait = match asked.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = httpdate::parse_http_date(asked).ok()?;
            let answered = httpdate::parse_http_date(header("date")?.trim()).ok()?;
            until.duration_since(answered).unwrap_or_default()
        }
    };
    Some(wait.min(WAIT_MAX))
}

#[cfg(test)]
mod tests;
