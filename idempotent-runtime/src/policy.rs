//! The limits of a call: what the attribute says, else what the runtime says.

use std::time::Duration;

use crate::error::Error;
use crate::handler::Policy;
use crate::protocol::Limits;

/// Shortest and longest lease.
const LEASE_MIN: Duration = Duration::from_millis(100);
const LEASE_MAX: Duration = Duration::from_hours(1);

/// What handlers get that leave a limit open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) lease: Duration,
    pub(crate) max_runtime: Duration,
    pub(crate) max_crashes: u32,
    pub(crate) retain: Duration,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            max_runtime: Duration::from_mins(15),
            max_crashes: 8,
            retain: Duration::from_hours(30 * 24),
        }
    }
}

impl Defaults {
    /// Checks each limit.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |setting, reason: String| Err(Error::Config { setting, reason });
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease) {
            return wrong(
                "lease",
                format!("{:?} is not between 100 ms and 1 h; leave it out for 30 s", self.lease),
            );
        }
        if self.max_runtime < LEASE_MIN {
            return wrong(
                "max_runtime",
                format!("{:?} is shorter than 100 ms; leave it out for 15 min", self.max_runtime),
            );
        }
        if self.max_crashes == 0 {
            let reason = "0 would send every crashed execution to review at once and no crash \
                          could be retried; write 1 or more, or leave it out for 8";
            return wrong("max_crashes", reason.to_owned());
        }
        if self.retain.is_zero() {
            let reason = "0 would forget every result at once; leave it out for 30 days";
            return wrong("retain", reason.to_owned());
        }
        Ok(())
    }

    /// The limits of a handler with this policy.
    pub(crate) fn limits(&self, policy: &Policy) -> Limits {
        let max_runtime = policy.max_runtime.unwrap_or(self.max_runtime);
        // A lease longer than the attempt may last would only delay its takeover.
        let lease = policy.lease.unwrap_or(self.lease).min(max_runtime);
        Limits {
            lease_ms: ms(lease),
            max_runtime_ms: ms(max_runtime),
            crashes_max: policy.max_crashes.unwrap_or(self.max_crashes),
            retain_ms: ms(policy.retain.unwrap_or(self.retain)),
        }
    }
}

/// Whole milliseconds, at most what a signed 64-bit number of microseconds holds.
pub(crate) fn ms(duration: Duration) -> u64 {
    const MS_MAX: u64 = i64::MAX as u64 / 1_000_000;
    u64::try_from(duration.as_millis()).unwrap_or(MS_MAX).min(MS_MAX)
}
