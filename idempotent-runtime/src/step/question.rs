//! What happened outside?

use crate::identity::ProviderKey;

mod sealed {
    #[expect(unnameable_types, reason = "it seals")]
    pub trait Sealed {}
}

/// What `reconcile` found outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// The effect happened; this is its value. It is recorded.
    Happened(T),
    /// It did not happen, and cannot happen any more: it is run under a new provider key.
    DidNotHappen,
    /// Nobody can tell: a person decides.
    Unknown,
}

/// Whether and how a step asks the outside.
pub trait Question<T, E>: sealed::Sealed {
    /// Whether it does.
    #[doc(hidden)]
    const ASKS: bool;

    /// Asks.
    #[doc(hidden)]
    fn ask(self, key: ProviderKey) -> impl Future<Output = Result<Found<T>, E>>;
}

/// A step without `reconcile`.
#[derive(Clone, Copy, Debug)]
pub struct AsksNobody;

/// A step with `reconcile`.
#[derive(Clone, Copy, Debug)]
pub struct Asks<F>(pub(super) F);

impl sealed::Sealed for AsksNobody {}
impl<F> sealed::Sealed for Asks<F> {}

impl<T, E> Question<T, E> for AsksNobody {
    const ASKS: bool = false;

    async fn ask(self, _key: ProviderKey) -> Result<Found<T>, E> {
        Ok(Found::Unknown)
    }
}

impl<T, E, F, Fut> Question<T, E> for Asks<F>
where
    F: FnOnce(ProviderKey) -> Fut,
    Fut: Future<Output = Result<Found<T>, E>>,
{
    const ASKS: bool = true;

    fn ask(self, key: ProviderKey) -> impl Future<Output = Result<Found<T>, E>> {
        (self.0)(key)
    }
}
