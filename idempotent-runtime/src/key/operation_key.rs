//! A key for operations that have no id of their own.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{KeyPart, KeyWriter};

/// A random id that the producer makes once, when it creates the job, and puts into the payload.
///
/// Every delivery and every retry of the job then carries the same one:
///
/// ```
/// use idempotent_runtime::OperationKey;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendInvoice {
///     operation: OperationKey,
///     customer: u64,
/// }
///
/// let job = SendInvoice { operation: OperationKey::new(), customer: 7 };
/// let delivered: SendInvoice = serde_json::from_str(&serde_json::to_string(&job)?)?;
/// assert_eq!(delivered.operation, job.operation);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// There is no `Default`: a consumer that fills in a missing key makes a new operation of each
/// delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationKey(Uuid);

impl OperationKey {
    /// Makes a new one. Call it where the job is created, never in the handler.
    #[expect(
        clippy::new_without_default,
        reason = "a default would hide that the producer did not make one"
    )]
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }

    /// The UUID that it is.
    #[must_use]
    pub const fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl From<Uuid> for OperationKey {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl FromStr for OperationKey {
    type Err = ParseOperationKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(ParseOperationKeyError)
    }
}

impl KeyPart for OperationKey {
    fn render(&self, key: &mut KeyWriter<'_>) {
        self.0.render(key);
    }
}

/// The text is no [`OperationKey`].
#[derive(Debug, thiserror::Error)]
#[error("not an operation key, which is a UUID")]
pub struct ParseOperationKeyError(#[source] uuid::Error);
