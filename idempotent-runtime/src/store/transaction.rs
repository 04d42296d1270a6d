//! A transaction of the store's database, whose connection a handler's body is lent.

use std::any::Any;
use std::error::Error as StdError;
use std::time::Duration;

use async_trait::async_trait;

use super::{StoreError, StoreErrorKind};
use crate::protocol::{Completion, StepRecord, StepRecorded, Written};

/// A connection type that a handler can be lent inside of a transaction.
///
/// Implemented for `sqlx::PgConnection` (feature `postgres`) and `sqlx::SqliteConnection` (feature `sqlite`). A store of
/// your own implements it for the connection of its driver. The type has no lifetime: a connection, not a guard.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no connection that a handler's transaction has",
    label = "write `PgConnection` (feature `postgres`) or `SqliteConnection` (feature `sqlite`), both of sqlx"
)]
pub trait TransactionConnection: Send + Sized + 'static {
    /// The database that it connects to, as [`Store::transactions`](super::Store::transactions) names it.
    const DATABASE: &'static str;
}

/// A transaction that [`Store::begin`](super::Store::begin) began.
///
/// # Contract
///
/// - Nothing of it is seen by others before [`commit`](Self::commit), and all of it at once then.
/// - [`complete`](Self::complete) and [`record`](Self::record) change what the functions of
///   [`protocol`](crate::protocol) say, inside the transaction, with one difference: what is stored already, even by
///   this very attempt, is fenced. An earlier commit whose answer was lost has stored it, and this
///   transaction's effects must not be added to that one's.
/// - Both first make sure that the transaction is the one that was begun: what the user's code did to it with
///   statements of its own (COMMIT, ROLLBACK, an error that it ignored) is [`TransactionError::Broken`].
/// - Dropped without an end, it is rolled back, at the latest when the database sees its connection closed; and
///   that connection serves nobody else.
///
/// # Cancel safety
///
/// None is asked: the runtime never drops the future of a call.
#[async_trait]
pub trait Transaction: Send {
    /// The connection, to be downcast to the driver's type.
    fn connection(&mut self) -> &mut (dyn Any + Send);

    /// The longest that a body may keep it open, where it stands in the way of every other write.
    fn body_max(&self) -> Option<Duration>;

    /// Asked after the body failed with an error in which no driver's is found: whether the database gave the transaction
    /// up and it is to run again. A store that cannot tell a conflict from an error of a statement says yes to both.
    async fn gave_way(&mut self) -> bool;

    /// Stores the outcome.
    ///
    /// # Errors
    ///
    /// After an error only [`rollback`](Self::rollback) is left.
    async fn complete(&mut self, completion: &Completion) -> Result<Written, TransactionError>;

    /// Records a step that happened.
    ///
    /// # Errors
    ///
    /// After an error only [`rollback`](Self::rollback) is left.
    async fn record(&mut self, record: &StepRecord) -> Result<StepRecorded, TransactionError>;

    /// Commits.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Unavailable`](super::StoreErrorKind::Unavailable): nobody knows whether it is committed. Any
    /// other error: it is rolled back.
    async fn commit(self: Box<Self>) -> Result<(), TransactionError>;

    /// Rolls back, or closes the connection.
    async fn rollback(self: Box<Self>);
}

/// What can go wrong with a transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// It is not the transaction that was begun any more. What the body wrote may be committed.
    #[error("{reason}")]
    Broken {
        /// What was found, for the person who reviews it.
        reason: String,
    },
    /// The database gave it up in favour of another one: a serialization failure or a deadlock. Nothing is written,
    /// and the body can run again.
    #[error(transparent)]
    GaveWay(StoreError),
    /// Anything else.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The database of a connection type, for a handler's descriptor.
#[must_use]
pub const fn database<X: TransactionConnection>() -> &'static str {
    X::DATABASE
}

/// Whether a driver's error, found in an error or behind it, says that the database gave the transaction up in favour of
/// another one: a serialization failure or a deadlock. Or may have: it refuses every statement behind one that failed
/// (`25P02`), and does not say why that did.
pub(crate) fn gave_way(error: &(dyn StdError + 'static)) -> Option<bool> {
    let mut next = Some(error);
    while let Some(error) = next {
        let found = sqlstate(error);
        if found.is_some() {
            return found;
        }
        next = error.source();
    }
    None
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn sqlstate(error: &(dyn StdError + 'static)) -> Option<bool> {
    use sqlx::error::DatabaseError;

    let conflicts = |error: &dyn DatabaseError| {
        matches!(error.code().as_deref(), Some("40001" | "40P01" | "25P02"))
    };
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        return Some(error.as_database_error().is_some_and(conflicts));
    }
    // An error that forwards its source hides the driver's own behind this.
    error.downcast_ref::<Box<dyn DatabaseError>>().map(|error| conflicts(&**error))
}

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
fn sqlstate(_: &(dyn StdError + 'static)) -> Option<bool> {
    None
}

/// Why a transaction whose last write was answered is not known to be committed.
pub(crate) enum NotCommitted {
    Fenced,
    /// A commit was sent, and no answer came. Whoever writes to the execution next waits until it has come through
    /// or not.
    Unknown(StoreError),
    Failed(TransactionError),
}

/// Commits what the last write let pass, and returns what that was answered with; else, where it was fenced (`None`) or
/// failed, rolls back.
pub(crate) async fn close<W>(
    transaction: Box<dyn Transaction>,
    written: Result<Option<W>, TransactionError>,
) -> Result<W, NotCommitted> {
    let refused = match written {
        Ok(Some(written)) => {
            return match transaction.commit().await {
                Ok(()) => Ok(written),
                Err(TransactionError::Store(error))
                    if error.kind() == StoreErrorKind::Unavailable =>
                {
                    Err(NotCommitted::Unknown(error))
                }
                Err(error) => Err(NotCommitted::Failed(error)),
            };
        }
        Ok(None) => NotCommitted::Fenced,
        Err(error) => NotCommitted::Failed(error),
    };
    transaction.rollback().await;
    Err(refused)
}
