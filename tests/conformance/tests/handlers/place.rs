//! Where a property is tried: a fresh database, and runtimes on it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::store::Memory;
use idempotent_runtime::{Builder, Error, Runtime, SystemClock};

/// What takes longer will not come: no property needs a fifth of it, on a busy machine either.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a property, which fails when it waits for what does not come.
pub(crate) async fn in_time(property: impl Future<Output = ()>) {
    let ended = tokio::time::timeout(PATIENCE, property).await;
    assert!(ended.is_ok(), "it waits for what did not come in {PATIENCE:?}");
}

/// A fresh database. Each runtime on it stands for one process.
pub(crate) struct Place {
    source: Source,
}

enum Source {
    Memory(Memory),
    #[cfg(feature = "sqlite")]
    Sqlite(idempotent_conformance::sqlite::SqliteFactory),
    #[cfg(feature = "postgres")]
    Postgres(idempotent_conformance::Database),
}

impl Place {
    pub(crate) fn memory() -> Self {
        Self { source: Source::Memory(Memory::new(Arc::new(SystemClock::new()))) }
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn sqlite() -> Self {
        Self { source: Source::Sqlite(idempotent_conformance::sqlite::SqliteFactory::fresh()) }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn postgres() -> Self {
        let database = idempotent_conformance::PostgresServer::shared().fresh_database();
        Self { source: Source::Postgres(database.unwrap()) }
    }

    /// A builder for a runtime on this database.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Runtime::builder("handlers").reaper(false);
        match &self.source {
            Source::Memory(store) => builder.store(store.clone()),
            #[cfg(feature = "sqlite")]
            Source::Sqlite(file) => builder.url(file.url()),
            #[cfg(feature = "postgres")]
            Source::Postgres(database) => builder.url(database.url()),
        }
    }

    pub(crate) async fn runtime(&self) -> Runtime {
        self.builder().connect().await.unwrap()
    }
}

/// Calls until the answer is not "come back", as a queue would redeliver.
pub(crate) async fn until_answered<T>(
    mut call: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        match call().await {
            Err(Error::InFlight { retry_after } | Error::NotDue { retry_after }) => {
                tokio::time::sleep(retry_after.min(Duration::from_secs(1))).await;
            }
            answered => return answered,
        }
    }
}
