#![doc = include_str!("sqlite/docs.md")]

mod completion;
mod connect;
mod error;
mod execution;
mod lane;
mod outbox;
mod queries;
mod row;
mod runner;
mod schema;
mod settle;
mod step;
mod sweep;
mod transaction;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::sql::bounds::{Load, batch_len};
use super::sql::{self, ConnectOptions, Names, TransactionPool};
use super::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, StoreErrorKind,
    Transaction, TransactionConnection,
};
use crate::protocol::{
    Claim, Claimed, Completion, ExecutionId, Limits, Micros, Release, Renewal, Renewed, Seen,
    Settled, Settlement, Step, StepRecord, StepRecorded, StepStart, StepStarted, TakeOver,
    TakenOver, Written,
};
use execution::{Item, Items};
use lane::Lane;
use queries::Queries;
use runner::{Operation, Writer};
use step::Unstarted;
use transaction::Transactions;

/// Keeps executions in a SQLite file.
pub struct Sqlite {
    shared: Arc<Shared>,
    /// Whether closing this handle closes the file, too.
    primary: bool,
    closed: AtomicBool,
}

struct Shared {
    options: ConnectOptions,
    queries: Arc<Queries>,
    writer: Writer,
    lane: Lane,
    transactions: Transactions,
    readers: sqlx::SqlitePool,
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite")
            .field("table", &self.shared.queries.table)
            .field("primary", &self.primary)
            .finish_non_exhaustive()
    }
}

/// The SQL that brings an empty file up to date, for those who run it themselves; runs again without harm.
///
/// # Errors
///
/// [`StoreErrorKind::Config`] if `prefix` is not an identifier.
pub fn migrations_sql(prefix: &str) -> Result<String, StoreError> {
    Ok(schema::script(&Names::new(prefix, None)?))
}

impl Sqlite {
    /// Opens the file, creating it if it is missing. Creates no table.
    pub(crate) async fn open(options: &ConnectOptions) -> Result<Self, StoreError> {
        let names = options.names(None)?;
        let file = connect::file(options)?;
        let queries = Arc::new(Queries::new(&names));
        let writer = Writer::start(file.clone(), options, Arc::clone(&queries)).await?;
        let readers = connect::readers(&file, options);
        let transactions = Transactions::new(file.clone(), options, Arc::clone(&queries));
        let lane = Lane::new(file);
        let options = options.clone();
        let shared = Shared { options, queries, writer, lane, transactions, readers };
        Ok(Self { shared: Arc::new(shared), primary: true, closed: AtomicBool::new(false) })
    }

    /// Lends connections of the application's pool.
    pub(crate) async fn lend_from(mut self, pool: TransactionPool) -> Result<Self, StoreError> {
        // Nobody else has the handle before it is returned.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.transactions.use_pool(pool.sqlite()?).await?;
        }
        Ok(self)
    }

    fn now(&self) -> Micros {
        Micros(self.shared.options.clock.now_us())
    }

    fn table(&self) -> &str {
        &self.shared.queries.table
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(error::closed());
        }
        Ok(())
    }

    async fn write<O: Operation>(&self, operation: O) -> Result<O::Answer, StoreError> {
        self.check_open()?;
        self.shared.writer.run(operation).await
    }

    /// Has the writer answer requests in their order, as many at once as go together.
    async fn each<T: Item + Clone + 'static>(
        &self,
        requests: &[T],
    ) -> Result<Vec<T::Answer>, StoreError> {
        self.check_open()?;
        let mut answers = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while !rest.is_empty() {
            let len = batch_len(rest.iter().map(|request| Load::one(request.bytes())));
            let (batch, behind) = rest.split_at(len);
            answers.extend(self.write(Items(batch.to_vec())).await?);
            rest = behind;
        }
        Ok(answers)
    }

    /// The lane for a request that is alone, if nothing else is under way.
    fn lane(&self) -> Option<&Lane> {
        self.shared.writer.is_idle().then_some(&self.shared.lane)
    }

    async fn reader(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Sqlite>, StoreError> {
        self.check_open()?;
        self.shared.readers.acquire().await.map_err(|error| error::failed("to connect", error))
    }

    /// Explains a failure of a read: a missing table is a matter of the schema.
    async fn explain(&self, failed: sqlx::Error, what: &str) -> StoreError {
        let failed = error::failed(what, failed);
        if failed.kind() != StoreErrorKind::Other {
            return failed;
        }
        match self.check_schema().await {
            Err(schema) if schema.kind() == StoreErrorKind::Schema => schema,
            Ok(()) | Err(_) => failed,
        }
    }

    /// Answers the claims of executions that are there, without the file's write lock.
    async fn seen(&self, claims: &[Claim]) -> Result<Vec<Option<Claimed>>, StoreError> {
        let mut reader = self.reader().await?;
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            let row = sqlx::query(self.shared.queries.record.driver())
                .bind(claim.id.0.as_slice())
                .fetch_optional(&mut *reader)
                .await;
            let row = match row {
                Ok(row) => row,
                Err(error) => return Err(self.explain(error, "to read an execution").await),
            };
            let found = |row| -> Result<Claimed, StoreError> {
                let record = sql::record(&row::Row::new(row), self.table())?;
                Ok(Claimed::Found(Box::new(Seen { record, now: self.now() })))
            };
            answers.push(row.as_ref().map(found).transpose()?);
        }
        Ok(answers)
    }
}

#[async_trait]
impl Store for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn answers_at_once(&self) -> bool {
        false
    }

    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.check_open()?;
        // The writer has a thread of its own, so a blocked runtime starves nobody's renewals.
        let shared = Arc::clone(&self.shared);
        Ok(Arc::new(Self { shared, primary: false, closed: AtomicBool::new(false) }))
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.write(schema::Migrate).await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.write(schema::Check).await
    }

    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError> {
        self.check_open()?;
        let Shared { options, queries, .. } = &*self.shared;
        if let [claim] = claims
            && let Some(lane) = self.lane()
            && let Some(done) = lane.claim(claim, queries, &*options.clock).await
        {
            return Ok(vec![done?]);
        }
        let seen = self.seen(claims).await?;
        let absent = claims.iter().zip(&seen).filter(|(_, seen)| seen.is_none());
        let absent: Vec<Claim> = absent.map(|(claim, _)| claim.clone()).collect();
        if absent.is_empty() {
            return Ok(seen.into_iter().flatten().collect());
        }
        let mut written = self.each(&absent).await?.into_iter();
        Ok(seen.into_iter().filter_map(|seen| seen.or_else(|| written.next())).collect())
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        self.each(takeovers).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.each(renewals).await
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        self.check_open()?;
        let Shared { options, queries, .. } = &*self.shared;
        if let [completion] = completions
            && completion.sent().is_empty()
            && let Some(lane) = self.lane()
            && let Some(done) = lane.run(completion, queries, &*options.clock).await
        {
            return Ok(vec![done?]);
        }
        self.each(completions).await
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        self.each(releases).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.each(settlements).await
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        self.each(starts).await
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        self.check_open()?;
        let Shared { options, queries, .. } = &*self.shared;
        if let [record] = records
            && let Some(unstarted) = Unstarted::new(record)
            && let Some(lane) = self.lane()
            && let Some(done) = lane.run(&unstarted, queries, &*options.clock).await
        {
            return Ok(vec![done?]);
        }
        self.each(records).await
    }

    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError> {
        let mut reader = self.reader().await?;
        let mut journals = Vec::with_capacity(ids.len());
        for id in ids {
            let rows = sqlx::query(self.shared.queries.journal.driver())
                .bind(id.0.as_slice())
                .fetch_all(&mut *reader)
                .await;
            let rows = match rows {
                Ok(rows) => rows,
                Err(error) => return Err(self.explain(error, "to read a journal").await),
            };
            journals.push(step::steps(&rows, &self.shared.queries)?);
        }
        Ok(journals)
    }

    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError> {
        let mut reader = self.reader().await?;
        let mut executions = Vec::with_capacity(ids.len());
        for id in ids {
            let row = sqlx::query(self.shared.queries.execution.driver())
                .bind(id.0.as_slice())
                .fetch_optional(&mut *reader)
                .await;
            let row = match row {
                Ok(row) => row,
                Err(error) => return Err(self.explain(error, "to read an execution").await),
            };
            let execution = |row| sql::execution(&row::Row::new(row), self.table(), self.now());
            executions.push(row.as_ref().map(execution).transpose()?);
        }
        Ok(executions)
    }

    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError> {
        let mut reader = self.reader().await?;
        let after = sweep::bound(after);
        let rows = sqlx::query(self.shared.queries.review.driver())
            .bind(namespace)
            .bind(after.created_at.0)
            .bind(after.id.0.to_vec())
            .bind(i64::from(rows_max))
            .fetch_all(&mut *reader)
            .await;
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return Err(self.explain(error, "to list executions in review").await),
        };
        let now = self.now();
        rows.iter().map(|row| sql::execution(&row::Row::new(row), self.table(), now)).collect()
    }

    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError> {
        self.write(sweep::Reap { after, younger_than_ms, rows_max }).await
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        self.write(sweep::Purge { after, rows_max }).await
    }

    fn messages(&self) -> &dyn Messages {
        self
    }

    fn transactions(&self) -> Option<&'static str> {
        Some(SqliteConnection::DATABASE)
    }

    async fn begin(&self, limits: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        self.check_open()?;
        self.shared.transactions.begin(limits).await
    }

    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        self.check_open()?;
        completion::statements(completion, &self.shared.queries, self.now()).map(Some)
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if self.primary {
            self.shared.transactions.close().await;
            self.shared.lane.close().await;
            self.shared.writer.stop().await;
            self.shared.readers.close().await;
        }
    }
}
