//! What tests need. Feature `testing`; no database driver is needed.
//!
//! | for | see |
//! |---|---|
//! | whether a handler survives whatever can happen to it | [`world`](mod@world) |
//! | a provider that honours keys and fails on demand | [`provider`] |
//! | a store that is looked into, and fails on demand | [`TestStore`] |
//! | time that a test moves | [`ManualClock`], [`TokioClock`] |
//! | owners and jitter that follow from a seed | [`seed_randomness`] |
//! | renames that would make new keys | [`handlers_lock`] |
//! | a store of your own, a sink of your own | [`conformance`], [`sink_conformance`] |

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
mod suite;
mod test_store;
pub mod world;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[doc(hidden)]
pub use crate::store::sql::Rewrite;
pub use clock::{ManualClock, TokioClock};
pub use lock::handlers_lock;
pub(crate) use random::drawn;
pub use random::seed_randomness;
#[cfg(feature = "postgres")]
pub use stores::{postgres_store, postgres_store_rewritten};
#[cfg(feature = "sqlite")]
pub use stores::{sqlite_store, sqlite_store_rewritten};
pub use test_store::{Operation, StoreFault, TestStore};
pub use world::{boundary, now, runtime, world};
