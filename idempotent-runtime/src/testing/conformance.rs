//! The contract of a [`Store`], one named property a sentence, for every store that there is or will be.
//!
//! A store of your own is held to it by a [`Factory`] and one line, [`store_conformance!`](crate::store_conformance),
//! which expands to one `#[test]` per property, so that a run reads as a list of facts about the store. No property
//! sleeps: where time has to pass, the store is [aged](Factory::age).
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use idempotent_runtime::store::{Memory, Store};
//! use idempotent_runtime::testing::conformance::Factory;
//! # use idempotent_runtime::SystemClock;
//! # type MyStore = Memory;
//! # async fn fresh_place() -> MyPlace { MyPlace(Memory::new(Arc::new(SystemClock::new()))) }
//!
//! struct MyPlace(MyStore);
//!
//! #[async_trait::async_trait]
//! impl Factory for MyPlace {
//!     async fn open(&self) -> Arc<dyn Store> {
//!         Arc::new(self.0.clone())
//!     }
//!
//!     async fn age(&self, by: Duration) {
//!         // UPDATE execution SET lease_until = lease_until - by, and every other instant with it
//! #       let _ = by;
//!     }
//! }
//!
//! // In `tests/my_store.rs`; one fresh place for each property.
//! idempotent_runtime::store_conformance!(fresh_place());
//! # fn main() {}
//! ```

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a property that meets any other answer fails and shows it"
)]

#[macro_use]
mod properties;
mod apart;
mod bench;
mod blind;
mod claim;
mod clear;
mod complete;
mod concurrency;
mod elsewhere;
mod journal;
mod lifecycle;
mod list;
mod outbox;
mod pages;
mod purge;
mod read;
mod reap;
mod record;
mod release;
mod renew;
mod resolve;
mod settle;
mod start;
mod take_over;
mod text;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::suite;
use crate::store::{Statement, Store};
use bench::Bench;

/// One fresh place for executions, shared with no other property.
#[async_trait]
pub trait Factory: Send + Sync + 'static {
    /// Opens a store on this place, as one process would; not migrated yet.
    ///
    /// Every store opened here sees the same executions. A place that has but one handle may return it again.
    async fn open(&self) -> Arc<dyn Store>;

    /// Lets time pass: after it, every instant that the place holds is `by` further in the past, or the
    /// store's clock that much further on. Tokens stay as they are.
    async fn age(&self, by: Duration);

    /// Begins a transaction on a connection that is no store's, as a user of another driver does; nothing, where the
    /// stores give no SQL for one ([`Store::completion`]). The suite finds out if it is the one without the other.
    async fn elsewhere(&self) -> Option<Box<dyn Elsewhere>> {
        None
    }
}

/// A transaction of the store's database on a connection that is not the store's.
#[async_trait]
pub trait Elsewhere: Send {
    /// Runs a statement, and says how many rows it affected.
    async fn run(&mut self, statement: &Statement) -> u64;

    /// Commits.
    async fn commit(self: Box<Self>);

    /// Rolls back.
    async fn rollback(self: Box<Self>);
}

/// A sentence of the contract that can be checked.
pub struct Property {
    name: &'static str,
    run: for<'a> fn(&'a Bench) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

impl Property {
    /// The sentence, in snake case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Checks it on a fresh place.
    ///
    /// # Panics
    ///
    /// If the property does not hold, or the store fails.
    pub async fn check(&self, factory: Arc<dyn Factory>) {
        let bench = Bench::new(factory).await;
        (self.run)(&bench).await;
        bench.close().await;
    }
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Property").field(&self.name).finish()
    }
}

/// Checks the property of that name on a tokio runtime of its own: the body of a test.
///
/// # Panics
///
/// If the property does not hold, the store fails, or no property has that name.
pub fn check<F: Factory>(name: &str, factory: impl Future<Output = F>) {
    let property = suite::named(PROPERTIES, Property::name, name);
    suite::run(async { property.check(Arc::new(factory.await)).await });
}

__store_properties! { list table () }
