//! What is measured with: a payload of four fields, a result of 100 bytes. The peers take this file as it is.

use serde::{Deserialize, Serialize};

/// What arrives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payment {
    /// Names the operation.
    pub order_id: String,
    /// Who pays.
    pub customer: String,
    /// How much.
    pub amount_cents: u64,
    /// Of what.
    pub currency: String,
}

/// What is answered: [`RECEIPT_BYTES`] bytes of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The charge.
    pub charge: String,
    /// How much was charged.
    pub amount_cents: u64,
    /// Of what.
    pub currency: String,
    /// A note for the customer.
    pub note: String,
}

/// Length of a [`Receipt`] as JSON.
pub const RECEIPT_BYTES: usize = 100;

impl Payment {
    /// The payment of one operation.
    #[must_use]
    pub fn of(number: u64) -> Self {
        Self {
            order_id: format!("{number:012}"),
            customer: "cus_8qWyX2".to_owned(),
            amount_cents: 1_999,
            currency: "EUR".to_owned(),
        }
    }

    /// The key of its operation.
    #[must_use]
    pub fn key(&self) -> String {
        format!("charge:{}", self.order_id)
    }

    /// One as JSON.
    ///
    /// # Panics
    ///
    /// Never: a payment is JSON.
    #[must_use]
    pub fn json(number: u64) -> Vec<u8> {
        serde_json::to_vec(&Self::of(number)).expect("a payment is JSON")
    }

    /// The receipt for it: what the body returns.
    #[must_use]
    pub fn receipt(&self) -> Receipt {
        Receipt {
            charge: format!("ch_{}", self.order_id),
            amount_cents: self.amount_cents,
            currency: self.currency.clone(),
            note: "thank you, see you again!".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Payment, RECEIPT_BYTES};

    #[test]
    fn a_receipt_has_100_bytes() {
        let json = serde_json::to_vec(&Payment::of(7).receipt()).unwrap();
        assert_eq!(json.len(), RECEIPT_BYTES, "{}", String::from_utf8_lossy(&json));
    }
}
