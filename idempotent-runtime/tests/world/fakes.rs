//! What the handlers work on: effects in memory, which are counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use idempotent_runtime::Error;
use serde::{Deserialize, Serialize};

/// What goes wrong in a handler.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub(crate) enum ShopError {
    #[error("declined")]
    Declined,
    #[error("the bank does not answer")]
    Silent,
    #[serde(skip)]
    #[error(transparent)]
    Idempotent(#[from] Error),
}

/// Something that happens, and is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effect(Arc<AtomicU64>);

impl Effect {
    pub(crate) async fn happen(&self) -> Result<u64, ShopError> {
        tokio::task::yield_now().await;
        Ok(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A bank that honours idempotency keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bank {
    charges: Arc<Mutex<BTreeMap<String, u64>>>,
    asked: Effect,
}

impl Bank {
    /// Charges once for each key, and answers with the charge's number.
    pub(crate) async fn charge(&self, key: &str) -> Result<u64, ShopError> {
        tokio::task::yield_now().await;
        let mut charges = self.charges.lock().unwrap();
        let next = u64::try_from(charges.len()).unwrap() + 1;
        Ok(*charges.entry(key.to_owned()).or_insert(next))
    }

    /// Charges, and says so only the third time that it is asked.
    pub(crate) async fn charge_unreliably(&self, key: &str) -> Result<u64, ShopError> {
        let charge = self.charge(key).await?;
        let asked = self.asked.happen().await?;
        if asked.is_multiple_of(3) { Ok(charge) } else { Err(ShopError::Silent) }
    }

    pub(crate) fn charges(&self) -> u64 {
        u64::try_from(self.charges.lock().unwrap().len()).unwrap()
    }
}

/// A shop with all of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shop {
    pub(crate) bank: Bank,
    pub(crate) charge: Effect,
    pub(crate) mail: Effect,
    pub(crate) carrier: Bank,
    pub(crate) mailbox: Mailbox,
}

impl Shop {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sends a parcel once for each key.
    pub(crate) async fn parcel_once(&self, key: &str) -> Result<u64, ShopError> {
        self.carrier.charge(key).await
    }

    pub(crate) fn parcels(&self) -> u64 {
        self.carrier.charges()
    }
}

/// A box for mails: which came, and how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mailbox {
    ids: Arc<Mutex<Vec<String>>>,
}

impl Mailbox {
    pub(crate) fn take(&self, id: &str) {
        self.ids.lock().unwrap().push(id.to_owned());
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.lock().unwrap().iter().any(|it| it == id)
    }

    pub(crate) fn all(&self) -> usize {
        self.ids.lock().unwrap().len()
    }

    pub(crate) fn different(&self) -> usize {
        self.ids.lock().unwrap().iter().collect::<std::collections::BTreeSet<_>>().len()
    }
}
