//! How a SQL store is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Names;
#[cfg(feature = "testing")]
use super::Rewrite;
use crate::clock::Clock;
use crate::store::StoreError;

/// How a SQL store is opened.
#[derive(Clone)]
pub(crate) struct ConnectOptions {
    /// `sqlite:path`, `sqlite://path`, `postgres://user@host/database`.
    pub(crate) url: String,
    /// At most this many connections; at least one.
    pub(crate) pool_size: u32,
    /// What the names of the tables start with.
    pub(crate) table_prefix: String,
    /// PostgreSQL: the schema of the tables. Without it the search path decides.
    pub(crate) schema: Option<String>,
    /// PostgreSQL: whether a proxy gives every transaction another connection.
    pub(crate) transaction_pooler: bool,
    /// How long a call waits for a connection, and SQLite for the file's write lock.
    pub(crate) acquire_timeout: Duration,
    /// SQLite: the store's time.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "a server has its own clock"))]
    pub(crate) clock: Arc<dyn Clock>,
    /// What a test of the guards makes of the statements.
    #[cfg(feature = "testing")]
    pub(crate) rewrite: Option<Rewrite>,
}

impl ConnectOptions {
    /// The defaults for a URL.
    pub(crate) fn new(url: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            url: url.into(),
            pool_size: 6,
            table_prefix: "idempotent_".to_owned(),
            schema: None,
            transaction_pooler: false,
            acquire_timeout: Duration::from_secs(10),
            clock,
            #[cfg(feature = "testing")]
            rewrite: None,
        }
    }

    /// The names of the tables, in a schema if one is given.
    pub(in crate::store) fn names(&self, schema: Option<&str>) -> Result<Names, StoreError> {
        let names = Names::new(&self.table_prefix, schema)?;
        #[cfg(feature = "testing")]
        let names = names.rewritten(self.rewrite.clone());
        Ok(names)
    }
}

impl fmt::Debug for ConnectOptions {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("pool_size", &self.pool_size)
            .field("table_prefix", &self.table_prefix)
            .field("schema", &self.schema)
            .field("transaction_pooler", &self.transaction_pooler)
            .field("acquire_timeout", &self.acquire_timeout)
            .finish_non_exhaustive()
    }
}
