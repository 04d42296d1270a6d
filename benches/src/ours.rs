//! Our side: the handler on a runtime.

use idempotent_runtime::Runtime;

use crate::rounds::Side;
use crate::work::{Payment, charge};

/// The handler on one runtime; the first call of an operation runs it, later ones replay it.
#[derive(Clone)]
pub(crate) struct Ours {
    pub(crate) runtime: Runtime,
}

impl Side for Ours {
    async fn call(&self, number: u64) {
        let payment = Payment::of(number);
        let receipt = self.runtime.scope(charge(payment)).await.expect("the handler answers");
        assert_eq!(receipt.amount_cents, 1_999);
    }
}
