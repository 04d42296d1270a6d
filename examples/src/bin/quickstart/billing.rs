//! The client of the billing provider, and the error of a handler that uses it.

use std::time::Duration;

use idempotent_runtime::Disposition;
use reqwest::{RequestBuilder, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::worker::Delivery;

/// Longest that a request may take.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// When to ask again while the provider is at work on the same key, or away.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// What a delivery costs.
const PRICE_CENTS: u32 = 250;

/// A client of the billing provider; clones share connections.
#[derive(Clone, Debug)]
pub(crate) struct Billing {
    http: reqwest::Client,
    charges: String,
    account: String,
}

/// The provider's receipt for a charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) id: String,
    pub(crate) amount: u32,
}

/// Why a delivery was not charged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BillError {
    /// A request with the same key is being processed: its answer can be had later.
    #[error("the provider is still at work on a request with this key")]
    Busy,
    /// The provider will not accept this request, now or later.
    #[error("the provider refused with status {status}: {message}")]
    Refused { status: u16, message: String },
    /// No answer, or none that can be read; the charge may have happened.
    #[error("the provider did not answer")]
    Unanswered(#[from] reqwest::Error),
    /// The handler was not run, or its outcome was not recorded.
    #[error(transparent)]
    Idempotent(#[from] idempotent_runtime::Error),
}

impl BillError {
    /// What the queue does with the delivery.
    pub(crate) fn disposition(&self) -> Disposition {
        match self {
            Self::Busy | Self::Unanswered(_) => Disposition::RetryAfter(ASK_AGAIN_AFTER),
            Self::Refused { .. } => Disposition::DeadLetter,
            Self::Idempotent(error) => error.disposition(),
        }
    }
}

impl Billing {
    /// A client of the provider at `url` for `account`.
    pub(crate) fn new(url: &str, account: &str) -> reqwest::Result<Self> {
        let http = reqwest::Client::builder().timeout(REQUEST_MAX).build()?;
        let charges = format!("{url}/v1/charges");
        Ok(Self { http, charges, account: account.to_owned() })
    }

    /// Charges for a delivery: once for all calls with the same `key`.
    pub(crate) async fn charge(
        &self,
        delivery: &Delivery,
        key: &str,
    ) -> Result<Receipt, BillError> {
        self.send(self.request(delivery).header("Idempotency-Key", key)).await
    }

    /// Charges for a delivery: once for each call.
    pub(crate) async fn charge_without_key(
        &self,
        delivery: &Delivery,
    ) -> Result<Receipt, BillError> {
        self.send(self.request(delivery)).await
    }

    fn request(&self, delivery: &Delivery) -> RequestBuilder {
        let Delivery { delivery, event, .. } = delivery;
        let charge = json!({ "delivery": delivery, "event": event, "amount": PRICE_CENTS });
        self.http.post(&self.charges).bearer_auth(&self.account).json(&charge)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Receipt, BillError> {
        let response = request.send().await?;
        match response.status() {
            StatusCode::CONFLICT => Err(BillError::Busy),
            status if status.is_client_error() => {
                let message = response.text().await?;
                Err(BillError::Refused { status: status.as_u16(), message })
            }
            _ => Ok(response.error_for_status()?.json().await?),
        }
    }
}
