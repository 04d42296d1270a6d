//! Transactions that are lent to handlers' bodies.
//!
//! One at a time: each holds the file's write lock from its first statement to its last, and the others queue here
//! rather than for the lock, where nobody is served in turn.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteTransactionManager};
use sqlx::{SqlSafeStr as _, SqlitePool};
use sqlx_core::transaction::TransactionManager as _;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep, timeout};

use super::execution::complete;
use super::queries::Queries;
use super::runner::{Db, LOCK_RETRY_US_MAX};
use super::step::record_once;
use super::{connect, error};
use crate::clock::Clock;
use crate::protocol::{Completion, Limits, StepRecord, StepRecorded, Written};
use crate::store::sql::{ConnectOptions, jittered};
use crate::store::{
    StoreError, StoreErrorKind, Transaction, TransactionConnection, TransactionError,
};

impl TransactionConnection for SqliteConnection {
    const DATABASE: &'static str = "SQLite";
}

/// The savepoint is gone, once anybody has ended the transaction.
const BEGIN: &str = "BEGIN IMMEDIATE; SAVEPOINT idempotent_canary";
const RELEASE: &str = "RELEASE idempotent_canary";
/// What lasts as long as its connection: temporary tables, views and triggers.
const LEFT: &str = "SELECT 1 FROM sqlite_temp_master LIMIT 1";

/// Where transactions come from.
pub(super) struct Transactions {
    file: SqliteConnectOptions,
    application: Option<SqlitePool>,
    queue: Arc<Mutex<Option<SqliteConnection>>>,
    queries: Arc<Queries>,
    clock: Arc<dyn Clock>,
    lock_timeout: Duration,
}

impl Transactions {
    pub(super) fn new(
        file: SqliteConnectOptions,
        options: &ConnectOptions,
        queries: Arc<Queries>,
    ) -> Self {
        let clock = Arc::clone(&options.clock);
        let lock_timeout = options.acquire_timeout;
        Self { file, application: None, queue: Arc::default(), queries, clock, lock_timeout }
    }

    /// Takes connections of the application's pool from now on, if they lead to the same file.
    pub(super) async fn use_pool(&mut self, pool: SqlitePool) -> Result<(), StoreError> {
        let tried = "to compare `transaction_pool` with the store's file";
        let theirs: Vec<(i64, String, String)> = sqlx::query_as("PRAGMA database_list")
            .fetch_all(&pool)
            .await
            .map_err(|error| error::failed(tried, error))?;
        let main = theirs.into_iter().find(|(_, name, _)| name == "main");
        let theirs = main.and_then(|(_, _, path)| std::fs::canonicalize(path).ok());
        let ours = std::fs::canonicalize(self.file.get_filename()).ok();
        if ours.is_none() || ours != theirs {
            let text = "the pool of `transaction_pool` leads to another file than the URL; what is written \
                        there cannot be committed with the outcome";
            return Err(StoreError::new(StoreErrorKind::Config, text));
        }
        self.application = Some(pool);
        Ok(())
    }

    /// [`Store::begin`](crate::store::Store::begin).
    pub(super) async fn begin(&self, limits: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        let queued = Arc::clone(&self.queue).lock_owned();
        let Ok(turn) = timeout(self.lock_timeout, queued).await else {
            let text = format!(
                "sqlite: the transactions of other handlers held the file's lock for {:?}",
                self.lock_timeout
            );
            return Err(StoreError::new(StoreErrorKind::Busy, text));
        };
        let mut home = self.home(turn).await?;
        self.lock(home.connection()).await?;
        Ok(Box::new(Lent {
            home,
            queries: Arc::clone(&self.queries),
            clock: Arc::clone(&self.clock),
            body_max: Duration::from_millis(limits.lease_ms / 3),
        }))
    }

    /// Begins, waiting for the other processes' writers and for the store's own.
    async fn lock(&self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.lock_timeout;
        loop {
            let begun = SqliteTransactionManager::begin(connection, Some(BEGIN.into_sql_str()));
            let Err(error) = begun.await else { return Ok(()) };
            let error = error::failed("to begin", error);
            if error.kind() != StoreErrorKind::Busy || Instant::now() >= deadline {
                return Err(error);
            }
            sleep(jittered(LOCK_RETRY_US_MAX)).await;
        }
    }

    /// A connection for whose turn it is.
    async fn home(&self, mut turn: Turn) -> Result<Home, StoreError> {
        if let Some(pool) = &self.application {
            let acquired = pool.acquire().await;
            let connection = acquired.map_err(|error| error::failed("to connect", error))?;
            return Ok(Home::Application(connection, turn));
        }
        let connection = match turn.take() {
            Some(connection) => connection,
            None => connect::writer(&self.file).await?,
        };
        Ok(Home::Own(connection, turn))
    }

    /// Waits for the transaction under way, and closes the connection.
    pub(super) async fn close(&self) {
        if let Some(connection) = self.queue.lock().await.take() {
            // Everything that was answered is committed; a failure here loses nothing.
            let _ = sqlx::Connection::close(connection).await;
        }
    }
}

type Turn = OwnedMutexGuard<Option<SqliteConnection>>;

/// Where a connection goes back to. Dropped in between, it is closed, which rolls back.
enum Home {
    Own(SqliteConnection, Turn),
    Application(PoolConnection<sqlx::Sqlite>, Turn),
}

impl Home {
    fn connection(&mut self) -> &mut SqliteConnection {
        match self {
            Self::Own(connection, _) => connection,
            Self::Application(connection, _) => connection,
        }
    }

    /// Gives a connection back that is outside of any transaction; one of ours, unless a body left tables in it that the
    /// next one would meet.
    async fn keep(mut self) {
        if matches!(self, Self::Own(..)) {
            let left = sqlx::query(LEFT).fetch_optional(self.connection()).await;
            if !matches!(left, Ok(None)) {
                return self.close().await;
            }
        }
        if let Self::Own(connection, mut turn) = self {
            *turn = Some(connection);
        }
    }

    /// Closes it before the next one begins.
    async fn close(self) {
        // It is closed in any case; what is open on it is rolled back.
        let _ = match self {
            Self::Own(connection, _turn) => sqlx::Connection::close(connection).await,
            Self::Application(connection, _turn) => connection.close().await,
        };
    }
}

/// A transaction.
struct Lent {
    home: Home,
    queries: Arc<Queries>,
    clock: Arc<dyn Clock>,
    body_max: Duration,
}

impl Lent {
    fn depth(&mut self) -> usize {
        SqliteTransactionManager::get_transaction_depth(self.home.connection())
    }

    /// Makes sure that the transaction is ours.
    async fn check(&mut self) -> Result<(), TransactionError> {
        if self.depth() != 1 {
            let reason = "the body left a transaction open inside of its transaction".to_owned();
            return Err(TransactionError::Broken { reason });
        }
        match sqlx::query(RELEASE).execute(self.home.connection()).await {
            Ok(_) => Ok(()),
            Err(sqlx::Error::Database(_)) => Err(TransactionError::Broken {
                reason:
                    "the body ended its transaction with a COMMIT or ROLLBACK of its own; what it \
                         wrote before that may be committed, without its outcome"
                        .to_owned(),
            }),
            Err(error) => Err(error::failed("to check the transaction", error).into()),
        }
    }
}

#[async_trait]
impl Transaction for Lent {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        self.home.connection()
    }

    fn body_max(&self) -> Option<Duration> {
        Some(self.body_max)
    }

    async fn gave_way(&mut self) -> bool {
        // Its lock keeps others from writing, so there is nobody to give way to.
        false
    }

    async fn complete(&mut self, completion: &Completion) -> Result<Written, TransactionError> {
        self.check().await?;
        let Self { home, queries, clock, .. } = self;
        let mut db = Db::new(home.connection(), queries, &**clock);
        let written = complete(&mut db, completion).await?;
        Ok(if written { Written::Done } else { Written::Fenced })
    }

    async fn record(&mut self, record: &StepRecord) -> Result<StepRecorded, TransactionError> {
        self.check().await?;
        let Self { home, queries, clock, .. } = self;
        let mut db = Db::new(home.connection(), queries, &**clock);
        Ok(record_once(&mut db, record).await?)
    }

    async fn commit(mut self: Box<Self>) -> Result<(), TransactionError> {
        match SqliteTransactionManager::commit(self.home.connection()).await {
            Ok(()) => {
                self.home.keep().await;
                Ok(())
            }
            Err(error) => {
                // It stays open where a constraint failed, or a reader stood in the way.
                self.home.close().await;
                let error = error::failed("to commit", error);
                if error.kind() == StoreErrorKind::Busy {
                    return Err(TransactionError::GaveWay(error));
                }
                Err(error.into())
            }
        }
    }

    async fn rollback(mut self: Box<Self>) {
        if self.depth() == 1
            && SqliteTransactionManager::rollback(self.home.connection()).await.is_ok()
        {
            return self.home.keep().await;
        }
        self.home.close().await;
    }
}
