//! Builds a runtime.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::{Runtime, url};
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::handler::{Handler, handlers};
use crate::lease::{Heartbeat, HeartbeatOn};
use crate::metrics;
use crate::reaper;
use crate::settings::{KeyText, Settings};
use crate::store::Store;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::store::TransactionPool;

/// Most bytes of a stored result that can be set: 16 MiB.
const RESULT_BYTES_MAX: usize = 16 << 20;
/// Connections of a process, unless set.
const POOL_SIZE_DEFAULT: u32 = 6;
/// Longest namespace, in bytes.
const NAMESPACE_BYTES_MAX: usize = 128;

/// Whether `connect` changes the database's schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migrations {
    /// Bring it up to date. Safe from many processes at once, and again.
    #[default]
    Run,
    /// Only check it: for run roles without DDL. [`Builder::migrations_sql`] prints what an operator runs.
    Check,
}

/// Settings of a runtime; start from [`Runtime::builder`].
#[must_use = "call `.connect().await`"]
pub struct Builder {
    settings: Settings,
    store: Option<Source>,
    migrations: Migrations,
    pub(super) clock: Arc<dyn Clock>,
    heartbeat: HeartbeatOn,
    reaper_every: Option<Duration>,
    pub(super) pool_size: u32,
    pub(super) table_prefix: String,
    pub(super) schema: Option<String>,
    pub(super) transaction_pooler: bool,
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) transaction_pool: Option<TransactionPool>,
}

enum Source {
    Url(String),
    Store(Arc<dyn Store>),
}

impl fmt::Debug for Builder {
    /// Without the URL, which may hold a password, and the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("namespace", &self.settings.namespace)
            .field("migrations", &self.migrations)
            .field("defaults", &self.settings.defaults)
            .field("pool_size", &self.pool_size)
            .field("table_prefix", &self.table_prefix)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new(namespace: String) -> Self {
        Self {
            settings: Settings::new(namespace),
            store: None,
            migrations: Migrations::default(),
            clock: Arc::new(SystemClock::new()),
            heartbeat: HeartbeatOn::Thread,
            reaper_every: Some(reaper::EVERY_DEFAULT),
            pool_size: POOL_SIZE_DEFAULT,
            table_prefix: "idempotent_".to_owned(),
            schema: None,
            transaction_pooler: false,
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            transaction_pool: None,
        }
    }

    /// The database, by URL: `sqlite://payments.db`, `postgres://user@host/db`, or `memory:`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.store = Some(Source::Url(url.into()));
        self
    }

    /// A store of your own instead of a URL.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Source::Store(Arc::new(store)));
        self
    }

    /// Whether `connect` changes the schema or only checks it.
    pub fn migrations(mut self, migrations: Migrations) -> Self {
        self.migrations = migrations;
        self
    }

    /// Most connections of this process to the database: 6 unless set, at least 2. One of them renews leases.
    pub fn pool_size(mut self, connections: u32) -> Self {
        self.pool_size = connections;
        self
    }

    /// Prefix of the tables' names: `idempotent_` unless set. Letters, digits and `_`, at most 48.
    pub fn table_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.table_prefix = prefix.into();
        self
    }

    /// PostgreSQL: the schema that holds the tables; the search path's first unless set.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// PostgreSQL: whether a pooling proxy such as PgBouncer stands between, in whatever mode. Then no setting is asked
    /// of the session, no statement is cached, and each call is wrapped in BEGIN … COMMIT.
    pub fn transaction_pooler(mut self, between: bool) -> Self {
        self.transaction_pooler = between;
        self
    }

    /// The application's own `PgPool` or `SqlitePool`, for the transactions of `#[transaction]` handlers: their bodies then
    /// work on connections with the application's settings, and share its limit. Unless set, they use as many as
    /// [`pool_size`](Self::pool_size) says beside the store's, opened when they are needed.
    ///
    /// It must lead to the database of the [`url`](Self::url); `connect` checks that.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub fn transaction_pool(mut self, pool: impl Into<TransactionPool>) -> Self {
        self.transaction_pool = Some(pool.into());
        self
    }

    /// Length of a lease for handlers that set none: 30 s unless set, from 100 ms to 1 h.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.defaults.lease = lease;
        self
    }

    /// Longest time a body may run, for handlers that set none: 15 min unless set.
    pub fn max_runtime(mut self, max_runtime: Duration) -> Self {
        self.settings.defaults.max_runtime = max_runtime;
        self
    }

    /// Attempts that may end without an outcome before review, for handlers that set none: 8 unless set.
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.settings.defaults.max_crashes = crashes;
        self
    }

    /// How long a finished execution answers, for handlers that set none: 30 days unless set. It must exceed every
    /// queue's redelivery horizon: after it a key is new.
    pub fn retain(mut self, retain: Duration) -> Self {
        self.settings.defaults.retain = retain;
        self
    }

    /// Most bytes of a stored result: 1 MiB unless set, at most 16 MiB. A larger one completes the execution
    /// without a result.
    pub fn max_result_bytes(mut self, bytes: usize) -> Self {
        self.settings.result_bytes_max = bytes;
        self
    }

    /// Answers replays from this process's memory: it keeps finished executions that it has seen, up to so many bytes, for
    /// so long. None are kept unless set.
    ///
    /// A hot replay then needs no database. The price: for up to `time_to_live` this process may go on answering with a
    /// result that was [reopened](crate::Review::reopen) elsewhere, or that is past `retain`. A reopening through this
    /// runtime is noticed at once, unless its answer is lost. Payloads are compared as ever.
    #[cfg(feature = "cache")]
    pub fn cache(mut self, bytes_max: u64, time_to_live: Duration) -> Self {
        self.settings.cache = Some((bytes_max, time_to_live));
        self
    }

    /// Keys the stored fingerprints, so that a reader of the database cannot guess payloads from them. Every
    /// process of a namespace needs the same; another one makes every stored fingerprint differ.
    pub fn secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.settings.secret = Some(secret.into());
        self
    }

    /// Whether the readable key is stored beside the id.
    pub fn key_text(mut self, key_text: KeyText) -> Self {
        self.settings.key_text = key_text;
        self
    }

    /// Where local deadlines, and the time of the embedded stores, come from.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Whether this process reaps lapsed executions and purges expired ones: yes unless set. One process of a
    /// namespace is enough, any number is safe, and callers take lapsed executions over by themselves.
    pub fn reaper(mut self, on: bool) -> Self {
        self.reaper_every = on.then_some(self.reaper_every.unwrap_or(reaper::EVERY_DEFAULT));
        self
    }

    /// How often the reaper looks, jittered: every 15 s unless set.
    pub fn reaper_interval(mut self, every: Duration) -> Self {
        self.reaper_every = Some(every);
        self
    }

    /// Renews leases in a task of the runtime that `connect` is called on, instead of a thread of its own: under
    /// tokio's paused time the thread would be outrun.
    #[cfg(feature = "testing")]
    pub fn heartbeat_task(mut self) -> Self {
        self.heartbeat = HeartbeatOn::Task;
        self
    }

    /// The SQL that brings the schema of the [`url`](Self::url)'s database up to date, for an operator to run where
    /// the run role has no DDL ([`Migrations::Check`]). Safe to run again.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] without a URL, or for a prefix or schema that is no identifier; [`Error::Unsupported`] for the
    /// memory store, or for one whose feature is off.
    pub fn migrations_sql(&self) -> Result<String, Error> {
        match &self.store {
            Some(Source::Url(url)) => url::migrations_sql(self, url),
            Some(Source::Store(_)) | None => {
                Err(config("url", "name the database whose SQL to print"))
            }
        }
    }

    /// Connects; see [`Runtime::connect`].
    ///
    /// # Errors
    ///
    /// As [`Runtime::connect`], and [`Error::Config`] for a limit that cannot be.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves at most a schema that is up to date.
    pub async fn connect(mut self) -> Result<Runtime, Error> {
        self.check()?;
        let tasks = Handle::try_current().map_err(|_| Error::Config {
            setting: "connect",
            reason: "call it inside a tokio runtime, whose tasks hold the store's connections"
                .to_owned(),
        })?;
        let store = match self.store.take() {
            Some(Source::Store(store)) => store,
            Some(Source::Url(url)) => self.open(url, &tasks).await?,
            None => return Err(config("url", "name a database: `.url(\"sqlite://payments.db\")`")),
        };
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        if self.transaction_pool.is_some() {
            return Err(config(
                "transaction_pool",
                "only a database that `url` names can lend from it",
            ));
        }
        if store.name() != "memory" {
            one_handler_a_name(handlers())?;
        }
        let migrated = Arc::clone(&store);
        let migrations = self.migrations;
        let checked = tasks.spawn(async move {
            match migrations {
                Migrations::Run => migrated.migrate().await,
                Migrations::Check => migrated.check_schema().await,
            }
        });
        checked.await.map_err(|_| Error::RuntimeEnded)??;
        metrics::describe();
        let heartbeat = Heartbeat::new(self.heartbeat);
        let runtime = Runtime::from_parts(self.settings, store, self.clock, tasks, heartbeat);
        if let Some(every) = self.reaper_every {
            reaper::start(&runtime, every);
        }
        Ok(runtime)
    }

    /// Opens the store that a URL names, on the runtime that holds its connections.
    async fn open(&mut self, url: String, tasks: &Handle) -> Result<Arc<dyn Store>, Error> {
        let opening = url::open(self, url)?;
        tasks.spawn(opening).await.map_err(|_| Error::RuntimeEnded)?
    }

    fn check(&self) -> Result<(), Error> {
        if self.settings.namespace.is_empty() {
            return Err(config("namespace", "it is empty; write the application's name"));
        }
        if self.settings.namespace.len() > NAMESPACE_BYTES_MAX
            || self.settings.namespace.contains('\0')
        {
            return Err(config("namespace", "it is longer than 128 bytes or holds a NUL"));
        }
        if self.pool_size < 2 {
            return Err(config("pool_size", "fewer than 2 connections; leave it out for 6"));
        }
        if self.settings.result_bytes_max > RESULT_BYTES_MAX {
            return Err(config(
                "max_result_bytes",
                "more than 16 MiB; store a reference to large data instead",
            ));
        }
        #[cfg(feature = "cache")]
        if self.settings.cache.is_some_and(|(bytes, time)| bytes == 0 || time.is_zero()) {
            return Err(config("cache", "it keeps nothing; leave it out for none"));
        }
        if self.reaper_every.is_some_and(|every| every.is_zero()) {
            return Err(config("reaper_interval", "it is zero; use `.reaper(false)` for none"));
        }
        self.settings.defaults.check()
    }
}

fn config(setting: &'static str, reason: &str) -> Error {
    Error::Config { setting, reason: reason.to_owned() }
}

/// Two handlers of one name would answer each other's calls.
fn one_handler_a_name(handlers: impl Iterator<Item = &'static Handler>) -> Result<(), Error> {
    let mut all: Vec<&Handler> = handlers.collect();
    all.sort_by_key(|handler| (handler.name(), handler.module()));
    match all.windows(2).find(|pair| pair[0].name() == pair[1].name()) {
        None => Ok(()),
        Some(pair) => Err(Error::Unsupported {
            reason: format!(
                "two handlers are named `{}`, in `{}` and in `{}`, and would answer each other's \
                 calls; write `#[idempotent(name = \"..\")]` on one",
                pair[0].name(),
                pair[0].module(),
                pair[1].module()
            ),
        }),
    }
}

#[cfg(test)]
mod tests;
