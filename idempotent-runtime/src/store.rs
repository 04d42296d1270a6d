//! Where executions live: the contract of a store, and the stores.
//!
//! A store guards and writes what [`protocol`](crate::protocol) decided; it decides nothing itself. Every
//! sentence of the contract below is a named property of the conformance suite, which third parties run on
//! their own store.

#[cfg(feature = "postgres")]
mod coalesce;
mod error;
mod memory;
mod messages;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod statement;
mod transaction;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use error::{StoreError, StoreErrorKind};
pub use memory::Memory;
pub use messages::{Messages, Wakeups};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use sql::TransactionPool;
pub use statement::{Parameter, Statement};
#[doc(hidden)]
pub use transaction::database;
pub(crate) use transaction::gave_way;
pub(crate) use transaction::{NotCommitted, close};
pub use transaction::{Transaction, TransactionConnection, TransactionError};

use crate::protocol::{
    Claim, Claimed, Completion, ExecutionId, Identity, Limits, Micros, Record, Release, Renewal,
    Renewed, Settled, Settlement, State, Step, StepRecord, StepRecorded, StepStart, StepStarted,
    TakeOver, TakenOver, Written,
};

/// Keeps executions. Object-safe and batch-first: each operation takes a slice and answers in its order.
///
/// # Contract
///
/// - An operation on one execution is atomic; two operations on the same execution happen one after the other.
/// - A write that is answered is durable before the answer.
/// - Each operation changes exactly what the function of the same name in [`protocol`](crate::protocol) says,
///   at the store's time: [`claim`](Self::claim), [`take_over`](Self::take_over), [`renew`](Self::renew),
///   [`complete`](Self::complete), [`release`](Self::release), [`settle`](Self::settle) (and
///   [`settle_step`](crate::protocol::settle_step)), [`start_steps`](Self::start_steps),
///   [`record_steps`](Self::record_steps).
/// - The store's time is one clock for all processes, read by the statement that writes, not when a transaction
///   began; where the statement waits for a row, the time may be that of its start.
/// - An operation that fails has written nothing, or its answer was lost: sending the same request again is
///   safe, and recognises what it wrote before.
/// - The order of a batch means nothing. Two requests of one batch may concern the same execution; they then
///   happen one after the other, in some order.
/// - Text, which holds no NUL, comes back as it was given, byte for byte: no collation, no truncation, no padding.
///
/// # Cancel safety
///
/// None is asked of a store: the runtime never drops the future of a call.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The store's name in messages: `memory`, `sqlite`, `postgres`, or your own.
    fn name(&self) -> &'static str;

    /// Whether calls answer at once and without I/O, so that no task of their own is needed for them.
    fn answers_at_once(&self) -> bool;

    /// Opens a second handle to the same store, with one connection of its own, on the tokio runtime that it is
    /// called on. The heartbeat thread renews leases through it, so that neither a busy pool nor a blocked
    /// runtime can starve them.
    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError>;

    /// Brings the schema up to date. Safe to run from many processes at once, and again.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Schema`] if the database holds a schema that says this binary cannot read it.
    async fn migrate(&self) -> Result<(), StoreError>;

    /// Checks, without writing, that the schema is one that this binary can read and write.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Schema`] if it is missing, too old or too new.
    async fn check_schema(&self) -> Result<(), StoreError>;

    /// Claims absent executions and reads those that are there, each with the store's time.
    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError>;

    /// Takes over executions on the token that was seen, each with its journal as in [`journals`](Self::journals).
    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError>;

    /// Renews leases. A locked row is answered [`Renewed::Skipped`], and not waited for.
    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError>;

    /// Stores outcomes.
    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError>;

    /// Gives up attempts.
    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError>;

    /// Writes what a person decided.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError>;

    /// Notes that steps are about to begin.
    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError>;

    /// Records what became of steps.
    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError>;

    /// Reads journals, each in the order of the steps' names and parts (by bytes); empty where there is none.
    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError>;

    /// Reads executions, each with the store's time.
    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError>;

    /// Lists executions of a namespace in review, oldest first, starting behind `after`.
    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError>;

    /// Examines at most `rows_max` executions in the order of their creation, starting behind `after`, and
    /// reaps the lapsed ones among them. With `younger_than_ms`, only executions created in that last stretch
    /// of the store's time are examined. Rows that are locked are passed over.
    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError>;

    /// Examines at most `rows_max` executions in the order of their creation, starting behind `after`, and
    /// deletes the expired ones among them with their journals, but those with an undelivered message, and sends the
    /// abandoned ones to review. Rows that are locked are passed over.
    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError>;

    /// The outbox's part of this store.
    fn messages(&self) -> &dyn Messages;

    /// The database whose connection [`begin`](Self::begin) lends, as [`TransactionConnection::DATABASE`] names it;
    /// `None` for a store without transactions.
    fn transactions(&self) -> Option<&'static str>;

    /// Begins a transaction of an attempt with these limits: from the lease the store derives how long a statement
    /// waits for a lock, and how long the database keeps a transaction whose process says nothing.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Config`] from a store without transactions.
    async fn begin(&self, limits: &Limits) -> Result<Box<dyn Transaction>, StoreError>;

    /// The statements that complete an execution on a connection to the database that is not the store's, as the last
    /// of a transaction there; `None` from a store without SQL. Nothing is asked of the database here.
    ///
    /// Run one after the other and committed, they change exactly what [`complete`](Self::complete) changes, messages
    /// included, and each affects one row. They affect none where the execution is not the attempt's or is not running
    /// any more: also what this very attempt stored before is not stored again, since the writes beside it would be.
    /// From the last statement to the end of its transaction nobody else can take the execution over.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Closed`] once the store is closed.
    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError>;

    /// Closes the connections. Calls after it fail with [`StoreErrorKind::Closed`].
    async fn close(&self);
}

/// An execution with what its id was made from, and the store's time when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// What the id was made from.
    pub identity: Identity,
    /// The record.
    pub record: Record,
    /// The store's time when it was read.
    pub now: Micros,
}

/// A place in the order of creation: everything up to and including this execution lies before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// When the execution was created.
    pub created_at: Micros,
    /// Which of those created at that time.
    pub id: ExecutionId,
}

/// What a [`Store::reap`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// The executions that had lapsed, with their handler and the state that they are in now.
    pub lapsed: Vec<(ExecutionId, String, State)>,
    /// Where to go on, or `None` when all have been examined.
    pub next: Option<Cursor>,
}

/// What a [`Store::purge`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Executions deleted, with their journals.
    pub deleted: u64,
    /// Executions with an open step that nobody came back for, sent to review.
    pub reviewed: u64,
    /// Where to go on, or `None` when all have been examined.
    pub next: Option<Cursor>,
}
