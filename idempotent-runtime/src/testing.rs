//! What tests need: a clock that follows tokio's paused time, randomness from a seed, a provider that honours keys and
//! fails on demand, the lock file of handlers' identities, and the conformance suites for stores and sinks. Feature
//! `testing`; no database driver is needed.

mod clock;
pub mod conformance;
#[doc(hidden)]
pub mod fuzz;
mod lock;
pub mod provider;
mod random;
pub mod sink_conformance;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod stores;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[doc(hidden)]
pub use crate::store::sql::Rewrite;
pub use clock::TokioClock;
pub use lock::handlers_lock;
pub(crate) use random::drawn;
pub use random::seed_randomness;
#[cfg(feature = "postgres")]
pub use stores::{postgres_store, postgres_store_rewritten};
#[cfg(feature = "sqlite")]
pub use stores::{sqlite_store, sqlite_store_rewritten};
