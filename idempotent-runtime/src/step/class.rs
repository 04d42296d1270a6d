//! The classes of effects, as types.

use std::time::Duration;

use crate::protocol::StepClass;

mod sealed {
    #[expect(unnameable_types, reason = "it seals")]
    pub trait Sealed {}
}

/// The class of a step's effect: [`Plain`], [`ProviderWindow`] or [`AtMostOnce`].
pub trait StepKind: sealed::Sealed {
    /// As the journal knows it.
    #[doc(hidden)]
    const CLASS: StepClass;

    /// How long the provider remembers its key.
    #[doc(hidden)]
    fn window(&self) -> Option<Duration> {
        None
    }
}

/// Classes that may be tried again inside an attempt.
#[diagnostic::on_unimplemented(
    message = "an at-most-once step is never tried again",
    label = "leave `retry` out, or take a class that may repeat",
    note = "a provider that takes an idempotency key: `.provider_window(…)`; an effect that is safe to repeat: no class",
    note = "what became of a try that failed: `.reconcile(…)` asks at the next attempt"
)]
pub trait Repeatable: StepKind {}

/// Classes that are noted before they start.
#[diagnostic::on_unimplemented(
    message = "a plain step has nothing to reconcile",
    label = "write `.provider_window(…)` or `.at_most_once()` before it",
    note = "a plain step is not noted before it starts, so nobody knows later that it was; it is run again"
)]
pub trait Started: StepKind {}

/// Recorded after the effect; may repeat.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// Runs again with the same provider key while the provider remembers it.
#[derive(Clone, Copy, Debug)]
pub struct ProviderWindow {
    pub(super) window: Duration,
}

/// Never run again blindly.
#[derive(Clone, Copy, Debug)]
pub struct AtMostOnce;

/// Effect and record in one commit of the store's database.
#[derive(Clone, Copy, Debug)]
pub(super) struct InTransaction;

impl sealed::Sealed for Plain {}
impl sealed::Sealed for ProviderWindow {}
impl sealed::Sealed for AtMostOnce {}

impl StepKind for Plain {
    const CLASS: StepClass = StepClass::Plain;
}

impl sealed::Sealed for InTransaction {}

impl StepKind for InTransaction {
    const CLASS: StepClass = StepClass::Transaction;
}

impl StepKind for ProviderWindow {
    const CLASS: StepClass = StepClass::ProviderWindow;

    fn window(&self) -> Option<Duration> {
        Some(self.window)
    }
}

impl StepKind for AtMostOnce {
    const CLASS: StepClass = StepClass::AtMostOnce;
}

impl Repeatable for Plain {}
impl Repeatable for ProviderWindow {}
impl Started for ProviderWindow {}
impl Started for AtMostOnce {}
