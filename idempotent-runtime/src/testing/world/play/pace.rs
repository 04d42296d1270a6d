//! How long things take, where time is virtual and where it is real.

use std::time::Duration;

/// The waits of a world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Between two calls: at first, and at last.
    backoff: (Duration, Duration),
    /// Whether a running attempt is asked after before its lease is over.
    pub(super) polls: bool,
    /// When a store that is away comes back.
    pub(super) away: Duration,
    /// How often a relay looks for messages, and how long it is let run.
    pub(super) relay: (Duration, Duration),
    /// What a handler left behind has this long to end.
    pub(super) idle: Duration,
    /// A call that takes longer hangs.
    pub(super) call_max: Duration,
}

impl Pace {
    /// Time costs nothing.
    pub(super) const VIRTUAL: Self = Self {
        backoff: (Duration::from_secs(1), Duration::from_secs(30)),
        polls: false,
        away: Duration::from_mins(1),
        relay: (Duration::from_secs(1), Duration::from_hours(4)),
        idle: Duration::from_mins(2),
        call_max: Duration::from_hours(24),
    };

    /// A person waits.
    pub(super) const REAL: Self = Self {
        backoff: (Duration::from_millis(10), Duration::from_millis(200)),
        polls: true,
        away: Duration::from_millis(500),
        relay: (Duration::from_millis(20), Duration::from_secs(10)),
        idle: Duration::from_millis(20),
        call_max: Duration::from_mins(2),
    };

    /// How long a caller waits that was refused so many times.
    pub(super) fn backoff(self, refusals: usize) -> Duration {
        let (first, last) = self.backoff;
        let doubled = u32::try_from(refusals).map_or(u32::MAX, |it| 2_u32.saturating_pow(it));
        first.saturating_mul(doubled).min(last)
    }
}
