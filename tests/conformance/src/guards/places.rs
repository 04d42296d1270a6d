//! Places that are used again and again, by stores with a statement changed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::store::{Store, StoreError};
use idempotent_runtime::testing::Rewrite;
use idempotent_runtime::testing::conformance::{Elsewhere, Factory};

use super::Fact;
use crate::crowd::Crowd;

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
    in_a_crowd: bool,
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
        Self { place, change: Arc::new(change), in_a_crowd: false }
    }

    /// Whatever its stores are asked for goes in a batch.
    pub(super) fn in_a_crowd(self, in_a_crowd: bool) -> Self {
        Self { in_a_crowd, ..self }
    }

    /// The same place, with its statements as they are.
    pub(super) fn unchanged(&self) -> Arc<Self> {
        let place = Self::new(Arc::clone(&self.place), |_, sql| sql);
        Arc::new(place.in_a_crowd(self.in_a_crowd))
    }

    /// The same place, with its statements changed once more.
    pub(super) fn then(
        &self,
        change: impl Fn(&'static str, String) -> String + Send + Sync + 'static,
    ) -> Self {
        let before = Arc::clone(&self.change);
        let changed = move |name, sql| change(name, before(name, sql));
        Self::new(Arc::clone(&self.place), changed).in_a_crowd(self.in_a_crowd)
    }
}

#[async_trait]
impl<P: Guarded> Factory for Mutated<P> {
    async fn open(&self) -> Arc<dyn Store> {
        let change = Arc::clone(&self.change);
        let rewrite = Rewrite::new(move |name, sql| change(name, sql));
        let store = self.place.rewritten(rewrite).await.expect("the store opens");
        if self.in_a_crowd { Crowd::around(store) } else { store }
    }

    async fn age(&self, by: Duration) {
        self.place.age(by).await;
    }

    async fn elsewhere(&self) -> Option<Box<dyn Elsewhere>> {
        self.place.elsewhere().await
    }
}
