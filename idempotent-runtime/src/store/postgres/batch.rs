//! Requests that share a statement and a commit.
//!
//! A batch locks no row that it has to wait for, but for a key that another session is just inserting: that wait is
//! short. What it says nothing of is asked for alone.

use std::marker::PhantomData;
use std::sync::Arc;

use super::error::Failure;
use super::runner::{Db, Operation, Runner};
use crate::store::StoreError;
use crate::store::coalesce::Together;
use crate::store::sql::bounds::Carries;

/// An operation that has a statement for many.
pub(super) trait Many: Operation<Answer: 'static> + Clone + Send + 'static {
    /// Runs many in one statement. `None` where they have to be run one by one.
    fn many(
        db: &mut Db<'_>,
        operations: &[Self],
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, Failure>> + Send;
}

/// An operation of which some go together.
pub(super) trait Coalesced: Many + Carries {
    /// Whether the statement does all that it asks for.
    fn goes_along(&self) -> bool;
}

/// Runs operations of one kind.
pub(super) struct Alike<O> {
    runner: Arc<Runner>,
    kind: PhantomData<fn() -> O>,
}

impl<O> Alike<O> {
    pub(super) fn new(runner: &Arc<Runner>) -> Self {
        Self { runner: Arc::clone(runner), kind: PhantomData }
    }
}

impl<O: Coalesced> Together for Alike<O> {
    type Request = O;
    type Answer = O::Answer;

    fn goes_along(request: &O) -> bool {
        request.goes_along()
    }

    fn bytes(request: &O) -> usize {
        request.bytes()
    }

    async fn one(&self, request: &O) -> Result<O::Answer, StoreError> {
        self.runner.run(request).await
    }

    async fn many(&self, requests: &[O]) -> Result<Vec<Option<O::Answer>>, StoreError> {
        self.runner.run(&Batch(requests)).await
    }
}

/// Operations that go together.
pub(super) struct Batch<'a, O>(pub(super) &'a [O]);

impl<O: Many> Operation for Batch<'_, O> {
    type Answer = Vec<Option<O::Answer>>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Self::Answer, Failure> {
        O::many(db, self.0).await
    }
}

/// Answers that say nothing yet.
pub(super) fn nothing<O: Operation>(operations: &[O]) -> Vec<Option<O::Answer>> {
    operations.iter().map(|_| None).collect()
}

/// The place of the request with that number, from 1.
pub(super) fn place(n: i64) -> Option<usize> {
    usize::try_from(n).ok()?.checked_sub(1)
}

/// The value of each of them, as an array to bind.
pub(super) fn column<'a, O, V>(operations: &'a [O], value: impl Fn(&'a O) -> V) -> Vec<V> {
    operations.iter().map(value).collect()
}
