//! The lane for a request that is alone: one autocommit statement on a connection beside the writer's.
//!
//! The writer has a thread of its own, so that a blocked runtime never holds the file's lock; but then each request
//! goes from thread to thread four times more than it must. A single statement holds the lock no longer than
//! SQLite runs it, whatever becomes of the task that waits for it, so it needs no such thread.

use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::Mutex;

use super::connect;
use super::execution::{Item, Look};
use super::queries::Queries;
use super::runner::Db;
use crate::clock::Clock;
use crate::protocol::{Claim, Claimed};
use crate::store::{StoreError, StoreErrorKind};

/// A connection for one request at a time.
pub(super) struct Lane {
    file: SqliteConnectOptions,
    connection: Mutex<Option<SqliteConnection>>,
    /// Whether the claim before found nothing: then the next one inserts at once. Right or wrong, the answer is
    /// the same.
    expects_new: AtomicBool,
}

impl Lane {
    pub(super) fn new(file: SqliteConnectOptions) -> Self {
        Self { file, connection: Mutex::new(None), expects_new: AtomicBool::new(false) }
    }

    /// [`run`](Self::run) for a claim. A stream of new executions pays no look, a stream of replays takes no lock.
    pub(super) async fn claim(
        &self,
        claim: &Claim,
        queries: &Queries,
        clock: &dyn Clock,
    ) -> Option<Result<Claimed, StoreError>> {
        let done = if self.expects_new.load(Ordering::Relaxed) {
            self.run(claim, queries, clock).await
        } else {
            self.run(&Look(claim), queries, clock).await
        };
        if let Some(Ok(claimed)) = &done {
            self.expects_new.store(matches!(claimed, Claimed::Granted(_)), Ordering::Relaxed);
        }
        done
    }

    /// Runs a request, or says nothing: then the writer is to run it, where locks are waited for. What failed here
    /// may have been written, and is recognised there.
    pub(super) async fn run<T: Item>(
        &self,
        item: &T,
        queries: &Queries,
        clock: &dyn Clock,
    ) -> Option<Result<T::Answer, StoreError>> {
        let mut lane = self.connection.try_lock().ok()?;
        let connection = match &mut *lane {
            Some(connection) => connection,
            closed @ None => closed.insert(connect::writer(&self.file).await.ok()?),
        };
        match item.apply(&mut Db::new(connection, queries, clock)).await {
            Ok(answer) => Some(Ok(answer)),
            Err(error) if error.kind() == StoreErrorKind::Corrupt => Some(Err(error)),
            Err(error) => {
                if error.kind() == StoreErrorKind::Unavailable {
                    *lane = None;
                }
                None
            }
        }
    }

    /// Waits for the request under way, and closes the connection.
    pub(super) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take() {
            // Everything that was answered is committed; a failure here loses nothing.
            let _ = connection.close().await;
        }
    }
}
