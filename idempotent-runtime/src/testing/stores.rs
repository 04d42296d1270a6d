//! The SQL stores on their own, for the conformance suite and tools.

use std::sync::Arc;

use crate::clock::Clock;
use crate::store::sql::ConnectOptions;
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
