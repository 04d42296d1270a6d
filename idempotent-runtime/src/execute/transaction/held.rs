//! The transaction while the body has it.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::Transaction;

/// Where the transaction comes back to, however the body ends.
#[derive(Clone, Default)]
pub(super) struct Slot(Arc<Mutex<Option<Box<dyn Transaction>>>>);

impl Slot {
    /// The transaction for the body, which is to come back here.
    pub(super) fn lend<X>(&self, transaction: Box<dyn Transaction>) -> Held<X> {
        Held { transaction: Some(transaction), back: self.clone(), connection: PhantomData }
    }

    /// What came back.
    pub(super) fn take(&self) -> Option<Box<dyn Transaction>> {
        // No code that may panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A transaction with a connection of type `X`, for one run of a body.
pub struct Held<X> {
    transaction: Option<Box<dyn Transaction>>,
    back: Slot,
    connection: PhantomData<fn() -> X>,
}

impl<X> fmt::Debug for Held<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl<X: 'static> Held<X> {
    /// Its connection.
    ///
    /// # Panics
    ///
    /// Never: the type was compared when the transaction began.
    pub fn connection(&mut self) -> &mut X {
        let transaction = self.transaction.as_mut();
        let connection = transaction.and_then(|it| it.connection().downcast_mut());
        let Some(connection) = connection else {
            unreachable!("a transaction that has no `{}` was lent", type_name::<X>());
        };
        connection
    }
}

impl<X> Drop for Held<X> {
    fn drop(&mut self) {
        *self.back.0.lock().unwrap_or_else(PoisonError::into_inner) = self.transaction.take();
    }
}
