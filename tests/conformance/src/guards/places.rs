//! Places that are used again and again, by stores with a statement changed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::store::{Store, StoreError};
use idempotent_runtime::testing::Rewrite;
use idempotent_runtime::testing::conformance::{Elsewhere, Factory};

use super::Fact;

/// A place whose statements can be changed.
#[async_trait]
pub trait Guarded: Factory + Sized {
    /// What the table of this place calls it.
    const NAME: &'static str;

    /// A place of its own, with its tables.
    async fn migrated() -> Self;

    /// Deletes all that is there.
    async fn empty(&self);

    /// Opens a store whose statements are rewritten.
    async fn rewritten(&self, rewrite: Rewrite) -> Result<Arc<dyn Store>, StoreError>;

    /// What the suite cannot ask, since it takes a hand on this database's locks.
    fn facts() -> Vec<Fact<Self>>;

    /// Has the database read a statement, without running it.
    async fn prepare(&self, sql: &str) -> Result<(), String>;
}

/// A place whose stores have their statements changed.
#[derive(Debug)]
pub struct Mutated<P> {
    /// The place.
    pub place: Arc<P>,
    /// What becomes of the statements.
    pub rewrite: Rewrite,
}

#[async_trait]
impl<P: Guarded> Factory for Mutated<P> {
    async fn open(&self) -> Arc<dyn Store> {
        self.place.rewritten(self.rewrite.clone()).await.expect("the store opens")
    }

    async fn age(&self, by: Duration) {
        self.place.age(by).await;
    }

    async fn elsewhere(&self) -> Option<Box<dyn Elsewhere>> {
        self.place.elsewhere().await
    }
}
