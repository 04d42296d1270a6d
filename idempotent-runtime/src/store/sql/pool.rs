//! The application's own pool.

use std::fmt;

use crate::store::StoreError;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
use crate::store::StoreErrorKind;

/// The application's pool of connections, for [`Builder::transaction_pool`](crate::Builder::transaction_pool): an
/// `sqlx::PgPool` or an `sqlx::SqlitePool`.
pub struct TransactionPool(Pool);

enum Pool {
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::SqlitePool),
}

impl fmt::Debug for TransactionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TransactionPool").finish_non_exhaustive()
    }
}

#[cfg(feature = "postgres")]
impl From<sqlx::PgPool> for TransactionPool {
    fn from(pool: sqlx::PgPool) -> Self {
        Self(Pool::Postgres(pool))
    }
}

#[cfg(feature = "sqlite")]
impl From<sqlx::SqlitePool> for TransactionPool {
    fn from(pool: sqlx::SqlitePool) -> Self {
        Self(Pool::Sqlite(pool))
    }
}

#[cfg(all(feature = "postgres", feature = "sqlite"))]
fn other(theirs: &str, ours: &str) -> StoreError {
    let text = format!(
        "`transaction_pool` got a pool of {theirs}, and the URL names {ours}; a transaction is of one database"
    );
    StoreError::new(StoreErrorKind::Config, text)
}

impl TransactionPool {
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn postgres(self) -> Result<sqlx::PgPool, StoreError> {
        match self.0 {
            Pool::Postgres(pool) => Ok(pool),
            #[cfg(feature = "sqlite")]
            Pool::Sqlite(_) => Err(other("SQLite", "PostgreSQL")),
        }
    }

    #[cfg(feature = "sqlite")]
    pub(in crate::store) fn sqlite(self) -> Result<sqlx::SqlitePool, StoreError> {
        match self.0 {
            Pool::Sqlite(pool) => Ok(pool),
            #[cfg(feature = "postgres")]
            Pool::Postgres(_) => Err(other("PostgreSQL", "SQLite")),
        }
    }
}
