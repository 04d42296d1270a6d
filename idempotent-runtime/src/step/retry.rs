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

/// A step without `retry`; `P` says of which errors it is known that the effect did not happen.
#[derive(Clone, Copy, Debug)]
pub struct Once<P = Never>(pub(super) P);

/// A step with `retry`.
#[derive(Clone, Copy, Debug)]
pub struct Retries<P> {
    pub(super) backoff: Backoff,
    pub(super) when: P,
}

/// Every error.
#[derive(Clone, Copy, Debug)]
pub struct Always;

/// No error.
#[derive(Clone, Copy, Debug)]
pub struct Never;

/// Errors of which the closure says so.
#[derive(Clone, Copy, Debug)]
pub struct When<F>(pub(super) F);

/// Some of the errors that a closure returns.
pub trait Predicate<E> {
    /// Whether this one is among them.
    fn holds(&self, error: &E) -> bool;
}

impl<E> Predicate<E> for Always {
    fn holds(&self, _error: &E) -> bool {
        true
    }
}

impl<E> Predicate<E> for Never {
    fn holds(&self, _error: &E) -> bool {
        false
    }
}

impl<E, F: Fn(&E) -> bool> Predicate<E> for When<F> {
    fn holds(&self, error: &E) -> bool {
        (self.0)(error)
    }
}

/// What follows from the end of a try.
pub trait Tries<E> {
    /// The delay before the try after the `tries`th, or `None` if there is none. `error`: what it returned, or
    /// `None` if its time was over.
    fn again(&self, tries: u32, error: Option<&E>) -> Option<Duration>;

    /// Whether the error says that the effect did not happen.
    fn tells_that_it_did_not_happen(&self, error: &E) -> bool;
}

impl<E, P: Predicate<E>> Tries<E> for Once<P> {
    fn again(&self, _tries: u32, _error: Option<&E>) -> Option<Duration> {
        None
    }

    fn tells_that_it_did_not_happen(&self, error: &E) -> bool {
        self.0.holds(error)
    }
}

impl<E, P: Predicate<E>> Tries<E> for Retries<P> {
    fn again(&self, tries: u32, error: Option<&E>) -> Option<Duration> {
        let again = error.is_none_or(|error| self.when.holds(error));
        again.then(|| self.backoff.after(tries)).flatten()
    }

    fn tells_that_it_did_not_happen(&self, _error: &E) -> bool {
        false
    }
}
