//! How an operation gets to the server: a connection, a transaction where a proxy needs one, and another try.

use std::time::Duration;

use sqlx::Postgres;
use sqlx::postgres::{PgArguments, PgConnection};

use super::error::{self, Failure};
use super::pool::{Lease, Pool};
use super::queries::Queries;
use crate::store::sql::{ConnectOptions, Names, Sql, jittered};
use crate::store::{StoreError, StoreErrorKind};

/// What every transaction is limited to. An uncommitted claim of one key is waited for no longer than this.
pub(super) const LIMITS: [(&str, &str); 3] = [
    ("lock_timeout", "2s"),
    ("statement_timeout", "15s"),
    ("idle_in_transaction_session_timeout", "15s"),
];
/// For a server that has stopped to answer; longer than its own limit on a statement.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Tries of an operation that lost to another session's.
const CONFLICT_TRIES_MAX: u32 = 5;
/// Between two of them; jittered down to a quarter.
const CONFLICT_SLEEP_US_MAX: u64 = 10_000;

/// What an operation works with.
pub(super) struct Db<'a> {
    pub(super) connection: &'a mut PgConnection,
    pub(super) queries: &'a Queries,
    is_cached: bool,
}

/// A statement with its parameters.
pub(super) type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;

impl<'a> Db<'a> {
    pub(super) fn new(
        connection: &'a mut PgConnection,
        queries: &'a Queries,
        is_cached: bool,
    ) -> Self {
        Self { connection, queries, is_cached }
    }

    /// A statement, prepared once a connection; behind a transaction pooler, each time.
    pub(super) fn query<'q>(&self, statement: &Sql) -> Query<'q> {
        sqlx::query(statement.driver()).persistent(self.is_cached)
    }
}

/// Something that is done on one connection.
pub(super) trait Operation: Sync {
    /// Its answer.
    type Answer: Send;

    /// Whether it may run again when the connection broke and nobody knows whether it was done.
    fn is_repeatable(&self) -> bool {
        true
    }

    /// Whether it reads on behind what it wrote, and what it wrote is undone where it fails there.
    fn is_undone(&self) -> bool {
        false
    }

    /// Runs it.
    fn apply(&self, db: &mut Db<'_>) -> impl Future<Output = Result<Self::Answer, Failure>> + Send;
}

/// The pool, and what is run on it.
pub(super) struct Runner {
    pool: Pool,
    queries: Queries,
    transaction_pooler: bool,
}

impl Runner {
    pub(super) fn new(pool: Pool, options: &ConnectOptions, names: &Names) -> Self {
        let queries = Queries::new(names);
        Self { pool, queries, transaction_pooler: options.transaction_pooler }
    }

    pub(super) fn queries(&self) -> &Queries {
        &self.queries
    }

    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        self.pool.check_open()
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Runs an operation: again, where it lost to another session's, and on another connection, where the first
    /// turned out to be broken. A server that restarts breaks every idle one.
    pub(super) async fn run<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        let mut conflicts = 0;
        let mut broken = 0;
        loop {
            let lease = self.pool.lease().await?;
            let failure = match self.once(lease, operation).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.is_conflict() && conflicts < CONFLICT_TRIES_MAX {
                conflicts += 1;
                tokio::time::sleep(jittered(CONFLICT_SLEEP_US_MAX)).await;
            } else if failure.is_broken() && operation.is_repeatable() && broken < self.pool.size()
            {
                broken += 1;
            } else {
                return Err(failure.into());
            }
        }
    }

    /// Runs one operation after the other, each committed before the next, so that no two callers wait for each
    /// other's rows.
    pub(super) async fn each<O: Operation>(
        &self,
        operations: &[O],
    ) -> Result<Vec<O::Answer>, StoreError> {
        self.check_open()?;
        let mut answers = Vec::with_capacity(operations.len());
        for operation in operations {
            answers.push(self.run(operation).await?);
        }
        Ok(answers)
    }

    async fn once<O: Operation>(
        &self,
        mut lease: Lease,
        operation: &O,
    ) -> Result<O::Answer, Failure> {
        let done = tokio::time::timeout(CALL_TIMEOUT, self.on(&mut lease, operation)).await;
        let done = done.unwrap_or_else(|_| {
            // What swallowed this one swallows the idle ones, too; none of them is waited for again.
            self.pool.forget_idle();
            Err(error::no_answer("to a call").into())
        });
        // On any failure but one that the server reported itself, the connection is closed.
        lease.is_idle = match &done {
            Ok(_) => true,
            Err(Failure::Driver(_, sqlx::Error::Database(_))) => {
                lease.is_idle && done.as_ref().is_err_and(|failure| !failure.is_broken())
            }
            Err(Failure::Own(error)) => lease.is_idle && error.kind() == StoreErrorKind::Corrupt,
            Err(Failure::Driver(..)) => false,
        };
        done
    }

    async fn on<O: Operation>(
        &self,
        lease: &mut Lease,
        operation: &O,
    ) -> Result<O::Answer, Failure> {
        let is_cached = !self.transaction_pooler;
        let connection = lease.connection()?;
        if is_cached && !operation.is_undone() {
            let answer =
                operation.apply(&mut Db { connection, queries: &self.queries, is_cached }).await;
            lease.is_idle = true;
            return answer;
        }
        // A session of our own has its limits.
        begin(connection, if is_cached { &[] } else { &LIMITS }).await?;
        let answer =
            operation.apply(&mut Db { connection, queries: &self.queries, is_cached }).await;
        let end = if answer.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = sqlx::raw_sql(end).execute(&mut *connection).await;
        lease.is_idle = ended.is_ok();
        let answer = answer?;
        ended.map_err(error::at("to commit"))?;
        Ok(answer)
    }

    /// A connection that is closed, unless the call ends well.
    pub(super) async fn lease(&self) -> Result<Lease, StoreError> {
        self.pool.lease().await
    }
}

/// Begins a transaction whose settings end with it.
pub(super) async fn begin(
    connection: &mut PgConnection,
    limits: &[(&str, &str)],
) -> Result<(), Failure> {
    let mut statement = "BEGIN ISOLATION LEVEL READ COMMITTED".to_owned();
    for (name, value) in limits {
        statement.push_str("; SET LOCAL ");
        statement.push_str(name);
        statement.push_str(" = '");
        statement.push_str(value);
        statement.push('\'');
    }
    let begun = sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(connection).await;
    begun.map(drop).map_err(error::at("to begin"))
}
