//! Places that are used again and again, by stores with a statement changed.

use std::fmt;
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

/// What becomes of a statement, by its name.
type Change = dyn Fn(&'static str, String) -> String + Send + Sync;

/// A place whose stores have their statements changed.
pub struct Mutated<P> {
    /// The place.
    pub place: Arc<P>,
    change: Arc<Change>,
}

impl<P> fmt::Debug for Mutated<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutated").finish_non_exhaustive()
    }
}

impl<P> Mutated<P> {
    pub(super) fn new(
        place: Arc<P>,
        change: impl Fn(&'static str, String) -> String + Send + Sync + 'static,
    ) -> Self {
        Self { place, change: Arc::new(change) }
    }

    /// The same place, with its statements changed once more.
    pub(super) fn then(
        &self,
        change: impl Fn(&'static str, String) -> String + Send + Sync + 'static,
    ) -> Self {
        let before = Arc::clone(&self.change);
        Self::new(Arc::clone(&self.place), move |name, sql| change(name, before(name, sql)))
    }
}

#[async_trait]
impl<P: Guarded> Factory for Mutated<P> {
    async fn open(&self) -> Arc<dyn Store> {
        let change = Arc::clone(&self.change);
        let rewrite = Rewrite::new(move |name, sql| change(name, sql));
        self.place.rewritten(rewrite).await.expect("the store opens")
    }

    async fn age(&self, by: Duration) {
        self.place.age(by).await;
    }

    async fn elsewhere(&self) -> Option<Box<dyn Elsewhere>> {
        self.place.elsewhere().await
    }
}
