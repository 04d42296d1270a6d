//! Transactions that are lent to handlers' bodies.
//!
//! Their connections are none of those that the store itself uses: a body that is lent one may ask the store for
//! something, and what it sets in the session must not reach the store's own statements.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, PgTransactionManager};
use sqlx::{AssertSqlSafe, PgPool, Row as _, SqlSafeStr as _};
use sqlx_core::transaction::TransactionManager as _;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use uuid::Uuid;

use super::connect;
use super::error::{self, Failure, at};
use super::execution::complete;
use super::pool::{Lease, Pool};
use super::queries::Queries;
use super::runner::{CALL_TIMEOUT, Db, LIMITS, Operation, Runner};
use super::step::record_once;
use crate::protocol::{Completion, Limits, StepRecord, StepRecorded, Written};
use crate::store::sql::{ConnectOptions, Names};
use crate::store::{
    StoreError, StoreErrorKind, Transaction, TransactionConnection, TransactionError,
};

impl TransactionConnection for PgConnection {
    const DATABASE: &'static str = "PostgreSQL";
}

/// The setting that tells our transaction from any other. It ends with the transaction, whoever ends it; a savepoint
/// would do so, too, but forbid the user's `SET TRANSACTION`.
const CANARY: &str = "idempotent.canary";
/// What a body may have left in its session: all that `DISCARD ALL` forgets, but prepared statements, which the driver
/// keeps. Servers of before November 2024 lose with the authorization the role that the session began with.
const CLEAN: &str = "BEGIN; RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; SELECT pg_advisory_unlock_all(); \
                     CLOSE ALL; UNLISTEN *; DISCARD TEMP; DISCARD SEQUENCES; COMMIT";
/// How long a rollback may take, which waits for the statement that a cancelled body left behind.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Where transactions come from.
pub(super) struct Transactions {
    own: Pool,
    application: Option<PgPool>,
    options: ConnectOptions,
    queries: OnceCell<Arc<Queries>>,
}

impl Transactions {
    pub(super) fn new(options: &ConnectOptions) -> Result<Self, StoreError> {
        let own = Pool::new(connect::plain(options)?, options);
        Ok(Self { own, application: None, options: options.clone(), queries: OnceCell::new() })
    }

    /// Takes connections of the application's pool from now on, if they lead to the same database.
    pub(super) async fn use_pool(
        &mut self,
        pool: PgPool,
        runner: &Runner,
    ) -> Result<(), StoreError> {
        let tried = "to compare `transaction_pool` with the store's database";
        let compared = timeout(CALL_TIMEOUT, compare(&pool, runner, tried)).await;
        compared.unwrap_or_else(|_| Err(error::no_answer(tried)))?;
        self.application = Some(pool);
        Ok(())
    }

    /// The names with the schema that the store's own search path leads to, once that has been asked for.
    pub(super) fn names(&self) -> Option<&Names> {
        self.queries.get().map(|queries| &queries.names)
    }

    /// The statements, with the schema that the store's own search path leads to: a body may set another one.
    pub(super) async fn queries(&self, runner: &Runner) -> Result<Arc<Queries>, StoreError> {
        let resolved = async {
            let unqualified = self.options.names(self.options.schema.as_deref())?;
            let found = runner.run(&SchemaOf(&unqualified.execution)).await?;
            // A schema whose name we would not quote ourselves is left to the search path.
            let names = found.and_then(|schema| self.options.names(Some(&schema)).ok());
            Ok(Arc::new(Queries::new(&names.unwrap_or(unqualified))))
        };
        self.queries.get_or_try_init(|| resolved).await.map(Arc::clone)
    }

    /// [`Store::begin`](crate::store::Store::begin).
    pub(super) async fn begin(
        &self,
        limits: &Limits,
        runner: &Runner,
    ) -> Result<Box<dyn Transaction>, StoreError> {
        runner.check_open()?;
        let queries = self.queries(runner).await?;
        let mut broken = 0;
        loop {
            let mut home = self.home().await?;
            let canary = Uuid::new_v4().simple().to_string();
            let statement = AssertSqlSafe(opening(limits, &canary)).into_sql_str();
            let begun = PgTransactionManager::begin(home.connection(), Some(statement));
            match timeout(CALL_TIMEOUT, begun).await {
                Ok(Ok(())) => {
                    let is_cached = !self.options.transaction_pooler;
                    return Ok(Box::new(Lent { home, queries, canary, is_cached }));
                }
                Ok(Err(error)) => {
                    home.close();
                    let failure = Failure::Driver("to begin", error);
                    // A server that restarted breaks every idle connection.
                    if !failure.is_broken() || broken == self.own.size() {
                        return Err(failure.into());
                    }
                    broken += 1;
                }
                Err(_) => {
                    home.close();
                    return Err(error::no_answer("to begin"));
                }
            }
        }
    }

    async fn home(&self) -> Result<Home, StoreError> {
        let Some(pool) = &self.application else {
            return Ok(Home::Own(self.own.lease().await?));
        };
        let acquired = pool.acquire().await;
        Ok(Home::Application(acquired.map_err(|error| error::failed("to connect", error))?))
    }

    pub(super) async fn close(&self) {
        self.own.close().await;
    }
}

/// Makes sure that the application's pool leads to the store's database.
async fn compare(pool: &PgPool, runner: &Runner, tried: &str) -> Result<(), StoreError> {
    let failed = |error| error::failed(tried, error);
    // Nobody else can have this lock: whoever cannot get it is in the same database.
    let key = i64::from_ne_bytes(Uuid::new_v4().as_u64_pair().0.to_ne_bytes());
    let mut transaction = pool.begin().await.map_err(failed)?;
    let locked = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(key).persistent(false);
    locked.execute(&mut *transaction).await.map_err(failed)?;
    let is_other = runner.run(&TryLock(key)).await?;
    transaction.rollback().await.map_err(failed)?;
    if is_other {
        let text = "the pool of `transaction_pool` leads to another database than the URL; what is \
                    written there cannot be committed with the outcome";
        return Err(StoreError::new(StoreErrorKind::Config, text));
    }
    Ok(())
}

/// A transaction whose settings end with it. A statement waits for a lock no longer than a third of the lease, and for
/// its own end no longer than the attempt; a process that says nothing for a lease is given up.
fn opening(limits: &Limits, canary: &str) -> String {
    let ms = |ms: u64| ms.clamp(1, u64::from(i32::MAX.unsigned_abs()));
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; \
         SET LOCAL idle_in_transaction_session_timeout = {}; SET LOCAL statement_timeout = {}; \
         SET LOCAL {CANARY} = '{canary}'",
        ms(limits.lease_ms / 3),
        ms(limits.lease_ms),
        ms(limits.max_runtime_ms),
    )
}

/// Whether a lock of a random key can be had.
struct TryLock(i64);

impl Operation for TryLock {
    type Answer = bool;

    async fn apply(&self, db: &mut Db<'_>) -> Result<bool, Failure> {
        let query = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)").bind(self.0);
        query.persistent(false).fetch_one(&mut *db.connection).await.map_err(at("to try a lock"))
    }
}

/// The schema of a table as the search path finds it.
struct SchemaOf<'a>(&'a str);

impl Operation for SchemaOf<'_> {
    type Answer = Option<String>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Option<String>, Failure> {
        sqlx::query_scalar(
            "SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.oid = to_regclass($1)",
        )
        .bind(self.0)
        .persistent(false)
        .fetch_optional(&mut *db.connection)
        .await
        .map_err(at("to find the schema"))
    }
}

/// Where a connection goes back to. Dropped in between, it is closed.
enum Home {
    Own(Lease),
    Application(PoolConnection<sqlx::Postgres>),
}

impl Home {
    fn connection(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(lease) => match lease.connection() {
                Ok(connection) => connection,
                Err(_) => unreachable!("a lease has its connection until it is dropped"),
            },
            Self::Application(connection) => connection,
        }
    }

    /// Gives a connection back that is outside of any transaction; one of ours, once its session `is_cleaned`, for which
    /// nobody waits.
    fn keep(self, is_cleaned: bool) {
        match self {
            Self::Own(lease) if is_cleaned => drop(tokio::spawn(clean(lease))),
            Self::Own(mut lease) => lease.is_idle = true,
            Self::Application(connection) => drop(connection),
        }
    }

    fn close(self) {
        match self {
            Self::Own(lease) => drop(lease),
            Self::Application(mut connection) => connection.close_on_drop(),
        }
    }
}

/// Forgets what a body left in a session; one that does not forget is closed.
async fn clean(mut lease: Lease) {
    let Ok(connection) = lease.connection() else { return };
    let cleaned = timeout(CALL_TIMEOUT, sqlx::raw_sql(CLEAN).execute(connection)).await;
    lease.is_idle = matches!(cleaned, Ok(Ok(_)));
}

/// A transaction. The home is there until the end.
struct Lent {
    home: Home,
    queries: Arc<Queries>,
    canary: String,
    is_cached: bool,
}

impl Lent {
    fn depth(&mut self) -> usize {
        PgTransactionManager::get_transaction_depth(self.home.connection())
    }

    /// Makes sure that the transaction is ours, and that what comes now is limited as the store's own statements are.
    async fn check(&mut self) -> Result<(), TransactionError> {
        if self.depth() != 1 {
            return Err(broken("the body left a transaction open inside of its transaction"));
        }
        let mut select = format!("SELECT current_setting('{CANARY}', true)");
        let plan = [("enable_seqscan", "off")];
        for (name, value) in LIMITS.iter().chain(&plan) {
            select.push_str(&format!(", set_config('{name}', '{value}', true)"));
        }
        let query = sqlx::query(AssertSqlSafe(select)).persistent(self.is_cached);
        let answered = timeout(CALL_TIMEOUT, query.fetch_one(self.home.connection())).await;
        let row = match answered {
            Ok(Ok(row)) => row,
            Ok(Err(error)) => return Err(swallowed(error)),
            Err(_) => return Err(error::no_answer("to check the transaction").into()),
        };
        let canary: Option<String> =
            row.try_get(0).map_err(|error| error::failed("to check the transaction", error))?;
        if canary.as_deref() == Some(self.canary.as_str()) {
            return Ok(());
        }
        Err(broken(
            "the body ended its transaction with a COMMIT or ROLLBACK of its own; what it wrote before \
             that may be committed, without its outcome",
        ))
    }

    /// The connection, once it is sure to be in the transaction that was begun.
    async fn checked(&mut self) -> Result<Db<'_>, TransactionError> {
        self.check().await?;
        let Self { home, queries, is_cached, .. } = self;
        Ok(Db::new(home.connection(), queries, *is_cached))
    }
}

/// What is written behind the body's statements.
async fn in_time<A>(
    what: &str,
    write: impl Future<Output = Result<A, Failure>>,
) -> Result<A, TransactionError> {
    match timeout(CALL_TIMEOUT, write).await {
        Ok(written) => written.map_err(failed),
        Err(_) => Err(error::no_answer(what).into()),
    }
}

#[async_trait]
impl Transaction for Lent {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        self.home.connection()
    }

    fn body_max(&self) -> Option<Duration> {
        None
    }

    async fn gave_way(&mut self) -> bool {
        let asked = sqlx::query("SELECT 1").persistent(false).execute(self.home.connection());
        match timeout(ROLLBACK_TIMEOUT, asked).await {
            Ok(Err(error)) => is_aborted(&error),
            Ok(Ok(_)) | Err(_) => false,
        }
    }

    async fn complete(&mut self, completion: &Completion) -> Result<Written, TransactionError> {
        let mut db = self.checked().await?;
        let written = in_time("to complete", complete(&mut db, completion)).await?;
        Ok(if written { Written::Done } else { Written::Fenced })
    }

    async fn record(&mut self, record: &StepRecord) -> Result<StepRecorded, TransactionError> {
        let mut db = self.checked().await?;
        in_time("to record a step", record_once(&mut db, record)).await
    }

    async fn commit(mut self: Box<Self>) -> Result<(), TransactionError> {
        let committed = PgTransactionManager::commit(self.home.connection());
        match timeout(CALL_TIMEOUT, committed).await {
            Ok(Ok(())) => {
                // Behind a transaction pooler there is no session that is ours.
                self.home.keep(self.is_cached);
                Ok(())
            }
            Ok(Err(error)) => {
                self.home.close();
                Err(failed(Failure::Driver("to commit", error)))
            }
            Err(_) => {
                self.home.close();
                Err(error::no_answer("to commit").into())
            }
        }
    }

    async fn rollback(mut self: Box<Self>) {
        if self.depth() == 1 {
            let rolled_back = PgTransactionManager::rollback(self.home.connection());
            if let Ok(Ok(())) = timeout(ROLLBACK_TIMEOUT, rolled_back).await {
                return self.home.keep(self.is_cached);
            }
        }
        self.home.close();
    }
}

fn broken(reason: &str) -> TransactionError {
    TransactionError::Broken { reason: reason.to_owned() }
}

/// The error of a statement that can only fail where one before it did.
fn swallowed(error: sqlx::Error) -> TransactionError {
    if is_aborted(&error) {
        return broken(
            "a statement of the body failed, and the body returned as if it had not; the server rolled \
             everything back",
        );
    }
    failed(Failure::Driver("to check the transaction", error))
}

fn failed(failure: Failure) -> TransactionError {
    if failure.is_conflict() {
        return TransactionError::GaveWay(failure.into());
    }
    TransactionError::Store(failure.into())
}

/// `in_failed_sql_transaction`.
fn is_aborted(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.as_deref() == Some("25P02")
}
