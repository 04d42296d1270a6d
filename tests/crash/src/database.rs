//! The database as it is, past the store.

use std::fmt;

#[cfg(feature = "postgres")]
use sqlx::PgPool;
#[cfg(feature = "sqlite")]
use sqlx::SqlitePool;

/// A row of the table of executions.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    /// The rendered key.
    pub key: String,
    /// The stored number of its state.
    pub state: i64,
    /// The newest attempt's token.
    pub token: i64,
    /// Attempts so far.
    pub attempts: i64,
    /// Attempts that ended without an outcome.
    pub crashes: i64,
    /// The result's bytes.
    pub result: Option<Vec<u8>>,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, state, token, attempts, crashes, result } = self;
        let result = result.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        write!(
            f,
            "{key}: state {state}, token {token}, attempts {attempts}, crashes {crashes}, result {result}"
        )
    }
}

/// The same statement for both databases.
const ROWS: &str = "SELECT key, CAST(state AS BIGINT), CAST(token AS BIGINT), \
     CAST(attempts AS BIGINT), CAST(crashes AS BIGINT), result \
     FROM idempotent_execution ORDER BY key";

type Columns = (String, i64, i64, i64, i64, Option<Vec<u8>>);

/// A connection past the store.
#[derive(Clone, Debug)]
pub enum Database {
    /// To a SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(SqlitePool),
    /// To a PostgreSQL server.
    #[cfg(feature = "postgres")]
    Postgres(PgPool),
}

impl Database {
    /// Connects.
    ///
    /// # Panics
    ///
    /// If the database cannot be reached, or its feature is off.
    pub async fn connect(url: &str) -> Self {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            #[cfg(feature = "sqlite")]
            Some("sqlite") => {
                let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
                Self::Sqlite(pool.connect(url).await.expect("the file opens"))
            }
            #[cfg(feature = "postgres")]
            Some("postgres") => {
                let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1);
                Self::Postgres(pool.connect(url).await.expect("the server answers"))
            }
            _ => panic!("no database for {url} in this build"),
        }
    }

    /// Reads every execution.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub async fn rows(&self) -> Vec<Row> {
        let rows: Vec<Columns> = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => {
                sqlx::query_as(ROWS).fetch_all(pool).await.expect("the table can be read")
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => {
                sqlx::query_as(ROWS).fetch_all(pool).await.expect("the table can be read")
            }
        };
        let row = |(key, state, token, attempts, crashes, result)| Row {
            key,
            state,
            token,
            attempts,
            crashes,
            result,
        };
        rows.into_iter().map(row).collect()
    }

    /// Creates the table that journeys write to.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    pub async fn prepare_journeys(&self) {
        self.execute(crate::journey::CREATE, None, None).await;
    }

    /// Reads how often each order has written its row.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub async fn written(&self) -> Vec<(String, i64)> {
        let sql = crate::journey::WRITTEN;
        let rows = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => sqlx::query_as(sql).fetch_all(pool).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => sqlx::query_as(sql).fetch_all(pool).await,
        };
        rows.expect("the table can be read")
    }

    /// Lets every lease be over since an hour.
    ///
    /// # Panics
    ///
    /// If they cannot be written.
    pub async fn end_leases(&self) {
        let sql = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {
                "UPDATE idempotent_execution SET lease_until = lease_until - 3660000000"
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => {
                "UPDATE idempotent_execution SET lease_until = lease_until - interval '61 minutes'"
            }
        };
        self.execute(sql, None, None).await;
    }

    /// Reads one number, with a key as `$1`.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub(crate) async fn number(&self, sql: &'static str, key: &str) -> i64 {
        let number = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => sqlx::query_scalar(sql).bind(key).fetch_one(pool).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => sqlx::query_scalar(sql).bind(key).fetch_one(pool).await,
        };
        number.expect("the statement runs")
    }

    /// Runs one statement, with a key as `$1` and a result's bytes as `$2` where it names them.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub(crate) async fn execute(&self, sql: &'static str, key: Option<&str>, json: Option<&[u8]>) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => {
                let query = key.into_iter().fold(sqlx::query(sql), |query, key| query.bind(key));
                let query = json.into_iter().fold(query, |query, json| query.bind(json));
                query.execute(pool).await.expect("the statement runs");
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => {
                let query = key.into_iter().fold(sqlx::query(sql), |query, key| query.bind(key));
                let query = json.into_iter().fold(query, |query, json| query.bind(json));
                query.execute(pool).await.expect("the statement runs");
            }
        }
    }
}
