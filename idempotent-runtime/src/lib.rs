//! Handlers that are safe to call twice.
//!
//! Every queue and every HTTP client delivers at least once, so a handler runs twice, sometimes at once. With
//! [`#[idempotent]`](macro@idempotent) on it, the first call runs the body and stores its result; every later call with
//! the same key gets that result and does not run. A call that comes meanwhile is told to come back. When a process
//! dies, the next call takes over.
//!
//! ```
//! use idempotent_runtime::{Error, Runtime, idempotent, provider_key};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Serialize)]
//! struct Payment {
//!     order_id: String,
//!     cents: u64,
//! }
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Receipt {
//!     charge_id: String,
//! }
//!
//! #[derive(Clone)]
//! struct Bank;
//!
//! impl Bank {
//!     async fn charge(&self, _payment: &Payment, idempotency_key: &str) -> Result<Receipt, Error> {
//!         Ok(Receipt { charge_id: format!("ch_{idempotency_key}") })
//!     }
//! }
//!
//! #[idempotent(key = "charge:{payment.order_id}")]
//! async fn charge(payment: Payment, #[context] bank: Bank) -> Result<Receipt, Error> {
//!     bank.charge(&payment, &provider_key("charge")).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! // `sqlite://payments.db`, `postgres://user@host/db`, or `memory:` in tests.
//! let runtime = Runtime::connect("payments", "memory:").await?;
//! runtime.install()?;
//!
//! let payment = Payment { order_id: "order-17".to_owned(), cents: 4_200 };
//! let first = charge(payment.clone(), Bank).await?; // runs
//! let second = charge(payment.clone(), Bank).await?; // answers
//! assert_eq!(first, second);
//!
//! // The same key with another payload is a mistake upstream, and is refused.
//! let other = Payment { cents: 9_900, ..payment };
//! let Err(Error::PayloadMismatch { fields }) = charge(other, Bank).await else { panic!() };
//! assert_eq!(fields, ["payment.cents"]);
//! # Ok(())
//! # }
//! ```
//!
//! # What holds, and what does not
//!
//! - At most one attempt of an operation can record an outcome; a late one is refused. Clocks decide who may try,
//!   never who may write.
//! - A stored result does not change and its body does not run again, until `retain` is over. Then the key is new.
//! - No key is blocked for ever: a lease ends, and after `max_crashes` a person is asked ([`Runtime::review`]).
//! - If the store cannot be reached, the handler does not run.
//!
//! The *record* is exact; the *effect* lies outside. A process can die between the two, and then the body runs again.
//! So send [`provider_key`] to the provider: it is the same on every attempt, and makes the second request harmless.
//! Without that, or something else that makes the effect safe to repeat, it happens at least once. A call to the
//! outside cannot be recalled, and a store that forgets (a lossy failover, a restored backup) makes operations run again.
//!
//! # Which key
//!
//! The id of what must happen once, made by whoever asks for it, before the first try: `"charge:{payment.order_id}"`.
//! Not the time: a day bucket crosses midnight between two tries, and makes one of two equal purchases. Not the amount:
//! that is compared by the fingerprint. What can stand in a placeholder implements [`KeyPart`].
//!
//! # What to do about an error
//!
//! A handler's error type converts from [`Error`]. Ask [`Error::disposition`]: acknowledge, deliver again later, or
//! dead-letter. The table at [`Error`] goes through every variant, with HTTP statuses.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | every argument of the attribute | [`macro@idempotent`] |
//! | a key outside of a handler | [`key!`] |
//! | connecting, settings | [`Runtime::connect`], [`Builder`] |
//! | tests | [`Runtime::scope`], [`observe`], `testing` (feature `testing`) |
//! | providers: keys on requests, what their answers mean | [`provider`] |
//! | a clean end | [`Runtime::shutdown`] |
//! | messages that go out after the commit | [`outbox`] |
//! | executions that need a person | [`Runtime::review`] |
//! | writes that are committed with the outcome | [`#[transaction]`](macro@idempotent#in-a-transaction), [`Builder::transaction_pool`]; with another driver than sqlx, [`Execution::completion`] |
//! | a store of your own | [`store::Store`] |
//!
//! # Features
//!
//! `sqlite` and `rustls` are on by default. `postgres` adds the PostgreSQL store; `chrono`, `time` and `jiff` their dates
//! in keys and their instants in `issued_at`; `reqwest` a layer for `reqwest-middleware` that puts provider keys on
//! requests; `webhooks` and `smtp` the outbox's ready sinks; `testing` a clock for tests, a provider that honours keys and fails on demand, the lock file of handlers, and
//! the conformance suite for stores.

#![doc(html_no_source)]

// In reading order: a call, its claim, its body; then what they stand on.
#[cfg(feature = "cache")]
mod cache;
mod claim;
mod effect;
mod execute;
mod execution;
mod flight;
mod lease;
mod observe;
mod operation;
pub mod outbox;
mod outcome;
pub mod step;

mod argument;
mod fingerprint;
mod handler;
mod identity;
mod key;
mod policy;
mod settings;

mod backfill;
mod reaper;
mod review;
mod runtime;
mod status;

mod caught;
mod clock;
mod error;
mod metrics;
pub mod protocol;
pub mod provider;
mod random;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod watch;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use clock::{Clock, SystemClock};
pub use effect::Effect;
pub use error::{Disposition, Error, ErrorKind};
pub use execution::{Completion, Execution, provider_key};
pub use handler::{Handler, handlers};
pub use idempotent_macros::{KeyPart, idempotent, key};
pub use identity::ProviderKey;
pub use key::{IssuedAt, KeyPart, KeyWriter, OperationKey, ParseOperationKeyError};
pub use observe::{Answer, Observed, observe};
pub use outbox::Relay;
pub use outcome::Outcome;
pub use reaper::Swept;
pub use review::Review;
pub use runtime::{Builder, Drained, Migrations, Runtime};
pub use settings::KeyText;
pub use status::{ExecutionStatus, StepStatus};
pub use step::{Backoff, Found, StepBuilder, step};
