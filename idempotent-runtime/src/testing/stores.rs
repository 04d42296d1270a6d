//! The SQL stores on their own, for the conformance suite and tools.

use std::sync::Arc;

#[cfg(feature = "sqlite")]
use crate::clock::Clock;
#[cfg(feature = "postgres")]
use crate::clock::SystemClock;
use crate::store::sql::{ConnectOptions, Rewrite};
use crate::store::{Store, StoreError};

/// Opens the SQLite store of a URL, as [`Builder::url`](crate::Builder::url) does; neither migrated nor checked.
///
/// # Errors
///
/// As opening the file fails.
#[cfg(feature = "sqlite")]
pub async fn sqlite_store(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, StoreError> {
    let options = ConnectOptions::new(url, clock);
    Ok(Arc::new(crate::store::sqlite::Sqlite::open(&options).await?))
}

/// Opens the PostgreSQL store of a URL, as [`Builder::url`](crate::Builder::url) does; neither migrated nor checked.
///
/// With `transaction_pooler`, as [`Builder::transaction_pooler`](crate::Builder::transaction_pooler) asks for.
///
/// # Errors
///
/// As connecting fails.
#[cfg(feature = "postgres")]
pub async fn postgres_store(
    url: &str,
    transaction_pooler: bool,
) -> Result<Arc<dyn Store>, StoreError> {
    let mut options = ConnectOptions::new(url, Arc::new(SystemClock::new()));
    options.transaction_pooler = transaction_pooler;
    Ok(Arc::new(crate::store::postgres::Postgres::open(&options).await?))
}

/// As [`sqlite_store`], with its statements changed.
///
/// # Errors
///
/// As opening the file fails.
#[cfg(feature = "sqlite")]
#[doc(hidden)]
pub async fn sqlite_store_rewritten(
    url: &str,
    clock: Arc<dyn Clock>,
    rewrite: Rewrite,
) -> Result<Arc<dyn Store>, StoreError> {
    let options = ConnectOptions { rewrite: Some(rewrite), ..ConnectOptions::new(url, clock) };
    Ok(Arc::new(crate::store::sqlite::Sqlite::open(&options).await?))
}

/// As [`postgres_store`], with its statements changed.
///
/// # Errors
///
/// As connecting fails.
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub async fn postgres_store_rewritten(
    url: &str,
    rewrite: Rewrite,
) -> Result<Arc<dyn Store>, StoreError> {
    let options = ConnectOptions::new(url, Arc::new(SystemClock::new()));
    let options = ConnectOptions { rewrite: Some(rewrite), ..options };
    Ok(Arc::new(crate::store::postgres::Postgres::open(&options).await?))
}
