//! Callers that each wait for their answer before they call again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::payload::Payment;
use crate::{Failed, Peer};

/// When callers stop.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this time,
    Over(Duration),
    /// or before this number.
    Number(u64),
}

impl Until {
    pub(crate) fn milliseconds(milliseconds: u64) -> Self {
        Self::Over(Duration::from_millis(milliseconds))
    }

    fn excludes(self, number: u64) -> bool {
        match self {
            Self::Over(_) => false,
            Self::Number(next) => number >= next,
        }
    }

    fn is_over(self, elapsed: Duration) -> bool {
        match self {
            Self::Over(time) => elapsed >= time,
            Self::Number(_) => false,
        }
    }
}

/// What is asked of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Callers at once.
    pub callers: u64,
    /// Number of the first operation.
    pub first: u64,
    /// `None`: every call is another operation. `Some`: calls repeat so many.
    pub replay_of: Option<u64>,
    /// When callers stop.
    pub until: Until,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    calls: u64,
    wall: Duration,
    next: u64,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, wall, next } = self;
        write!(f, "calls {calls} micros {} next {next}", wall.as_micros())
    }
}

/// Has callers call.
///
/// # Errors
///
/// If a call fails or its answer is not what is expected.
#[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
pub async fn run<P: Peer>(peer: &P, load: Load) -> Result<Seen, Failed> {
    let next = Arc::new(AtomicU64::new(load.first));
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..load.callers {
        callers.spawn(caller(peer.clone(), load, Arc::clone(&next), began));
    }
    let mut calls = 0;
    while let Some(of_caller) = callers.join_next().await {
        calls += of_caller??;
    }
    let wall = began.elapsed();
    let next = match load.until {
        Until::Over(_) => next.load(Ordering::Relaxed),
        Until::Number(next) => next,
    };
    Ok(Seen { calls, wall, next })
}

/// How many calls it made.
async fn caller<P: Peer>(
    peer: P,
    load: Load,
    next: Arc<AtomicU64>,
    began: Instant,
) -> Result<u64, Failed> {
    let mut calls = 0;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if load.until.excludes(number) {
            return Ok(calls);
        }
        let payment = Payment::of(load.replay_of.map_or(number, |of| number % of));
        let expected = payment.receipt();
        let receipt = peer.call(payment).await?;
        if receipt != expected {
            return Err(format!("{receipt:?} was answered where {expected:?} is right").into());
        }
        calls += 1;
        if load.until.is_over(began.elapsed()) {
            return Ok(calls);
        }
    }
}
