//! What `#[idempotent]` and `#[derive(KeyPart)]` accept, and what they say to what they refuse.
//!
//! `fail/*/*.rs` each make one mistake and are named for it; the `.stderr` beside is what rustc
//! says. `pass/*/*.rs` compile without a warning. `TRYBUILD=overwrite cargo test -p idempotent-ui`
//! writes the messages anew.
//!
//! This library is what the cases are about: a payment, and a bank that takes it.

use idempotent_runtime::store::TransactionConnection;
use serde::{Deserialize, Serialize};

/// The payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payment {
    /// Which order is paid.
    pub order_id: u64,
    /// In cents.
    pub amount: u64,
    /// Who pays.
    pub customer: String,
}

impl Payment {
    /// A payment of `amount` for an order.
    #[must_use]
    pub fn new(order_id: u64, amount: u64) -> Self {
        Self { order_id, amount, customer: "ada".to_owned() }
    }

    /// What identifies it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.order_id
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// What was paid.
    pub amount: u64,
}

/// A client: neither payload nor serializable.
#[derive(Clone, Debug, Default)]
pub struct Bank;

impl Bank {
    /// Takes the money.
    ///
    /// # Errors
    ///
    /// Nothing is declined unless it is zero.
    pub async fn charge(&self, amount: u64) -> Result<Receipt, ChargeError> {
        std::future::ready(()).await;
        if amount == 0 { Err(ChargeError::Declined) } else { Ok(Receipt { amount }) }
    }
}

/// A connection that a transaction lends: of a database of its own, so that the cases build without a driver.
#[derive(Debug)]
pub struct Connection(());

impl Connection {
    /// Writes a line.
    ///
    /// # Errors
    ///
    /// Nothing is declined unless it is zero.
    pub async fn insert(&mut self, order_id: u64, amount: u64) -> Result<Receipt, ChargeError> {
        std::future::ready(()).await;
        if order_id == 0 { Err(ChargeError::Declined) } else { Ok(Receipt { amount }) }
    }
}

impl TransactionConnection for Connection {
    const DATABASE: &'static str = "a database of paper";
}

/// The error.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum ChargeError {
    /// The bank said no.
    #[error("declined")]
    Declined,
    /// The handler was not run, or its outcome is not known.
    #[serde(skip)]
    #[error(transparent)]
    Idempotent(#[from] idempotent_runtime::Error),
}

impl ChargeError {
    /// Whether trying again is pointless.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Declined)
    }
}
