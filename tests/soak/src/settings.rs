//! What the environment says.

use std::time::Duration;

pub(crate) const FROM: &str = "IDEMPOTENT_SOAK_FROM";
pub(crate) const SECONDS: &str = "IDEMPOTENT_SOAK_SECONDS";

/// For a person who runs a part by hand.
const SECONDS_USUAL: u64 = 60;

/// Where a chunk begins, and how long it takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) from: u64,
    pub(crate) time: Duration,
}

impl Settings {
    /// Reads the two variables. `lookup` answers like the environment.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str, usual: u64| match lookup(name) {
            Some(text) => text.trim().parse().map_err(|_| format!("{name}={text} is no number")),
            None => Ok(usual),
        };
        let time = Duration::from_secs(number(SECONDS, SECONDS_USUAL)?);
        Ok(Self { from: number(FROM, 0)?, time })
    }
}

#[cfg(test)]
mod tests;
