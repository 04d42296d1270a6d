//! Tries of one attempt.

use std::ops::Range;
use std::time::Duration;

use crate::execute::jittered;

/// How often and how soon a step tries again: exponential from the first delay to the last, jittered.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// use idempotent_runtime::Backoff;
///
/// let patient = Backoff::exponential(Duration::from_millis(200)..Duration::from_secs(10)).tries(6);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    last: Duration,
    tries: u32,
}

impl Backoff {
    /// Delays that double from the first to the last; three tries in all.
    #[must_use]
    pub const fn exponential(delays: Range<Duration>) -> Self {
        Self { first: delays.start, last: delays.end, tries: 3 }
    }

    /// How many tries there are in all, the first one included; 0 counts as 1.
    #[must_use]
    pub const fn tries(self, tries: u32) -> Self {
        Self { tries, ..self }
    }

    /// The delay after the `tries`th try, or `None` when it was the last.
    fn after(&self, tries: u32) -> Option<Duration> {
        if tries >= self.tries {
            return None;
        }
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(tries.saturating_sub(1)));
        Some(jittered(doubled.min(self.last)))
    }
}

/// A step without `retry`.
#[derive(Clone, Copy, Debug)]
pub struct Once;

/// A step with `retry`.
#[derive(Clone, Copy, Debug)]
pub struct Retries<P> {
    pub(super) backoff: Backoff,
    pub(super) when: P,
}

/// Every error is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Always;

/// Errors are tried again of which the closure says so.
#[derive(Clone, Copy, Debug)]
pub struct When<F>(pub(super) F);

/// Which errors are tried again.
pub trait Predicate<E> {
    /// Whether this one is.
    fn holds(&self, error: &E) -> bool;
}

impl<E> Predicate<E> for Always {
    fn holds(&self, _error: &E) -> bool {
        true
    }
}

impl<E, F: Fn(&E) -> bool> Predicate<E> for When<F> {
    fn holds(&self, error: &E) -> bool {
        (self.0)(error)
    }
}

/// Whether there is another try.
pub trait Tries<E> {
    /// The delay before the try after the `tries`th, or `None` if there is none. `error`: what it returned, or
    /// `None` if its time was over.
    fn again(&self, tries: u32, error: Option<&E>) -> Option<Duration>;
}

impl<E> Tries<E> for Once {
    fn again(&self, _tries: u32, _error: Option<&E>) -> Option<Duration> {
        None
    }
}

impl<E, P: Predicate<E>> Tries<E> for Retries<P> {
    fn again(&self, tries: u32, error: Option<&E>) -> Option<Duration> {
        let again = error.is_none_or(|error| self.when.holds(error));
        again.then(|| self.backoff.after(tries)).flatten()
    }
}
