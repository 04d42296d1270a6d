#![doc = include_str!("postgres/docs.md")]

mod batch;
mod claim;
mod completion;
mod connect;
mod elsewhere;
mod error;
mod execution;
mod outbox;
mod pool;
mod queries;
mod row;
mod runner;
mod schema;
mod settle;
mod step;
mod sweep;
mod transaction;
mod wakeups;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;
use tokio::sync::Semaphore;

use super::coalesce::Coalescer;
use super::sql::{ConnectOptions, Names, TransactionPool};
use super::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, Transaction,
    TransactionConnection,
};
use crate::protocol::{
    Claim, Claimed, Completion, ExecutionId, Limits, Release, Renewal, Renewed, Settled,
    Settlement, Step, StepRecord, StepRecorded, StepStart, StepStarted, TakeOver, TakenOver,
    Written,
};
use batch::Alike;
use claim::Claims;
use execution::{Read, Renewals};
use pool::Pool;
use runner::Runner;
use step::Journals;
use transaction::Transactions;

/// Keeps executions in PostgreSQL.
pub struct Postgres {
    options: ConnectOptions,
    runner: Arc<Runner>,
    claims: Coalescer<Claims>,
    completions: Coalescer<Alike<Completion>>,
    starts: Coalescer<Alike<StepStart>>,
    records: Coalescer<Alike<StepRecord>>,
    transactions: Transactions,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The SQL that brings an empty database up to date, for those who run it themselves; runs again without harm.
///
/// # Errors
///
/// [`StoreErrorKind::Config`](super::StoreErrorKind::Config) if `prefix` or `schema` is not an identifier.
pub fn migrations_sql(prefix: &str, schema: Option<&str>) -> Result<String, StoreError> {
    Ok(schema::script(&Names::new(prefix, schema)?))
}

impl Postgres {
    /// Connects, and checks the server. Creates no table. Later calls belong on the same tokio runtime.
    pub(crate) async fn open(options: &ConnectOptions) -> Result<Self, StoreError> {
        let names = options.names(options.schema.as_deref())?;
        let server = connect::server(options)?;
        connect::check(&server).await?;
        let pool = Pool::new(server, options);
        // Of all kinds together, so that some connections are left to the lanes.
        let alone_max = usize::try_from(pool.size() / 2).unwrap_or(1).max(1);
        let alone = Arc::new(Semaphore::new(alone_max));
        let runner = Arc::new(Runner::new(pool, options, &names));
        Ok(Self {
            options: options.clone(),
            claims: Coalescer::new(Claims::new(&runner), &alone),
            completions: Coalescer::new(Alike::new(&runner), &alone),
            starts: Coalescer::new(Alike::new(&runner), &alone),
            records: Coalescer::new(Alike::new(&runner), &alone),
            runner,
            transactions: Transactions::new(options)?,
        })
    }

    /// Lends connections of the application's pool.
    pub(crate) async fn lend_from(mut self, pool: TransactionPool) -> Result<Self, StoreError> {
        self.transactions.use_pool(pool.postgres()?, &self.runner).await?;
        Ok(self)
    }
}

#[async_trait]
impl Store for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn answers_at_once(&self) -> bool {
        false
    }

    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.runner.check_open()?;
        let options = ConnectOptions { pool_size: 1, ..self.options.clone() };
        Ok(Arc::new(Self::open(&options).await?))
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        schema::migrate(&self.runner).await?;
        self.transactions.queries(&self.runner).await.map(drop)
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.runner.run(&schema::Check).await?;
        self.transactions.queries(&self.runner).await.map(drop)
    }

    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError> {
        self.runner.check_open()?;
        self.claims.all(claims).await
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        self.runner.each(takeovers).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.runner.run(&Renewals(renewals)).await
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        self.runner.check_open()?;
        self.completions.all(completions).await
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        self.runner.each(releases).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.runner.each(settlements).await
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        self.runner.check_open()?;
        self.starts.all(starts).await
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        self.runner.check_open()?;
        self.records.all(records).await
    }

    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError> {
        self.runner.run(&Journals(ids)).await
    }

    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError> {
        self.runner.run(&Read(ids)).await
    }

    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError> {
        self.runner.run(&sweep::Review { namespace, after, rows_max }).await
    }

    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError> {
        self.runner.run(&sweep::Reap { after, younger_than_ms, rows_max }).await
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        self.runner.run(&sweep::Purge { after, rows_max }).await
    }

    fn messages(&self) -> &dyn Messages {
        self
    }

    fn transactions(&self) -> Option<&'static str> {
        Some(PgConnection::DATABASE)
    }

    async fn begin(&self, limits: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        self.transactions.begin(limits, &self.runner).await
    }

    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        self.runner.check_open()?;
        let names = self.transactions.names().unwrap_or(&self.runner.queries().names);
        elsewhere::statement(completion, names).map(|statement| Some(vec![statement]))
    }

    async fn close(&self) {
        self.transactions.close().await;
        self.runner.close().await;
    }
}
