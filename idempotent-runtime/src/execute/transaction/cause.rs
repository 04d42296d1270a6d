//! What a body's error says of its transaction, where its type lets us see.
//!
//! The driver hands its error to the body, which wraps it into its own. Whoever writes `(&&&Cause(&outcome)).gave_way()` where
//! the type of the outcome is known gets the first of the three answers that the type allows.

use std::error::Error;

use crate::store::gave_way;

/// An outcome to be looked into.
#[derive(Debug)]
pub struct Cause<'a, R>(pub &'a R);

/// Of an error that is one: itself and what is behind it.
pub trait CauseOfError {
    /// Whether the database gave the transaction up in favour of another one; nothing, where no driver's error is found.
    fn gave_way(&self) -> Option<bool>;
}

impl<T, E: Error + 'static> CauseOfError for &&Cause<'_, Result<T, E>> {
    fn gave_way(&self) -> Option<bool> {
        gave_way(self.0.as_ref().err()?)
    }
}

/// Of a box around one, such as `anyhow::Error`.
pub trait CauseOfBox {
    /// As [`CauseOfError::gave_way`].
    fn gave_way(&self) -> Option<bool>;
}

impl<T, E: AsRef<dyn Error + Send + Sync>> CauseOfBox for &Cause<'_, Result<T, E>> {
    fn gave_way(&self) -> Option<bool> {
        gave_way(self.0.as_ref().err()?.as_ref())
    }
}

/// Of anything else.
pub trait CauseOfAny {
    /// Nothing is known.
    fn gave_way(&self) -> Option<bool>;
}

impl<R> CauseOfAny for Cause<'_, R> {
    fn gave_way(&self) -> Option<bool> {
        None
    }
}
