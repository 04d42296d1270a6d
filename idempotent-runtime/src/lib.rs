//! Idempotent handlers.
#![doc(html_no_source)]

// In reading order: a call, its claim, its body; then what they stand on.
mod claim;
mod execute;
mod execution;
mod flight;
mod lease;
mod observe;
mod operation;
mod outcome;

mod argument;
mod fingerprint;
mod handler;
mod identity;
mod key;
mod policy;
mod settings;

mod reaper;
mod review;
mod runtime;

mod clock;
mod error;
mod metrics;
pub mod protocol;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use clock::{Clock, SystemClock};
pub use error::{Disposition, Error, ErrorKind};
pub use execution::provider_key;
pub use handler::{Handler, handlers};
pub use idempotent_macros::{KeyPart, idempotent};
pub use identity::ProviderKey;
pub use key::{IssuedAt, KeyPart, KeyWriter, OperationKey, ParseOperationKeyError};
pub use observe::{Answer, Observed, observe};
pub use outcome::Outcome;
pub use reaper::Swept;
pub use review::{InReview, Review};
pub use runtime::{Builder, Drained, Migrations, Runtime};
pub use settings::KeyText;
