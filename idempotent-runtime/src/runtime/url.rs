//! Which store a URL names.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::Builder;
use crate::error::Error;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::store::sql::ConnectOptions;
use crate::store::{Memory, Store};

type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, Error>> + Send>>;

/// The stores that a URL can name.
enum Scheme {
    Memory,
    Sqlite,
    Postgres,
}

fn scheme(url: &str) -> Result<Scheme, Error> {
    let named = url.split_once(':').map(|(scheme, _)| scheme);
    match named {
        Some("memory") => Ok(Scheme::Memory),
        Some("sqlite") => Ok(Scheme::Sqlite),
        Some("postgres" | "postgresql") => Ok(Scheme::Postgres),
        // The rest of a URL may hold a password.
        Some(other) => Err(wrong(&format!("the scheme `{other}:`"))),
        None => Err(wrong("a URL without a scheme")),
    }
}

fn wrong(what: &str) -> Error {
    let forms = "`sqlite://file.db`, `postgres://user@host/db` or `memory:`";
    Error::Config { setting: "url", reason: format!("{what} names no store; write {forms}") }
}

/// Opens the store that a URL names.
pub(super) fn open(builder: &mut Builder, url: String) -> Result<Opening, Error> {
    match scheme(&url)? {
        Scheme::Memory => {
            let clock = Arc::clone(&builder.clock);
            Ok(Box::pin(async move { Ok(Arc::new(Memory::new(clock)) as Arc<dyn Store>) }))
        }
        Scheme::Sqlite => sqlite(builder, url),
        Scheme::Postgres => postgres(builder, url),
    }
}

/// The SQL that brings the schema of the store that a URL names up to date.
pub(super) fn migrations_sql(builder: &Builder, url: &str) -> Result<String, Error> {
    match scheme(url)? {
        Scheme::Memory => Err(Error::Unsupported {
            reason: "the memory store has no schema; name a database".to_owned(),
        }),
        #[cfg(feature = "sqlite")]
        Scheme::Sqlite => Ok(crate::store::sqlite::migrations_sql(&builder.table_prefix)?),
        #[cfg(not(feature = "sqlite"))]
        Scheme::Sqlite => Err(feature_off(builder, "sqlite")),
        #[cfg(feature = "postgres")]
        Scheme::Postgres => {
            let schema = builder.schema.as_deref();
            Ok(crate::store::postgres::migrations_sql(&builder.table_prefix, schema)?)
        }
        #[cfg(not(feature = "postgres"))]
        Scheme::Postgres => Err(feature_off(builder, "postgres")),
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn options(builder: &Builder, url: String) -> ConnectOptions {
    let mut options = ConnectOptions::new(url, Arc::clone(&builder.clock));
    options.pool_size = builder.pool_size;
    options.table_prefix.clone_from(&builder.table_prefix);
    options.schema.clone_from(&builder.schema);
    options.transaction_pooler = builder.transaction_pooler;
    options
}

#[cfg(feature = "sqlite")]
fn sqlite(builder: &mut Builder, url: String) -> Result<Opening, Error> {
    let (options, pool) = (options(builder, url), builder.transaction_pool.take());
    Ok(Box::pin(async move {
        let mut store = crate::store::sqlite::Sqlite::open(&options).await?;
        if let Some(pool) = pool {
            store = store.lend_from(pool).await?;
        }
        Ok(Arc::new(store) as Arc<dyn Store>)
    }))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(builder: &mut Builder, _: String) -> Result<Opening, Error> {
    Err(feature_off(builder, "sqlite"))
}

#[cfg(feature = "postgres")]
fn postgres(builder: &mut Builder, url: String) -> Result<Opening, Error> {
    let mut options = options(builder, url);
    // The heartbeat opens the one that is left.
    options.pool_size -= 1;
    let pool = builder.transaction_pool.take();
    Ok(Box::pin(async move {
        let mut store = crate::store::postgres::Postgres::open(&options).await?;
        if let Some(pool) = pool {
            store = store.lend_from(pool).await?;
        }
        Ok(Arc::new(store) as Arc<dyn Store>)
    }))
}

#[cfg(not(feature = "postgres"))]
fn postgres(builder: &mut Builder, _: String) -> Result<Opening, Error> {
    Err(feature_off(builder, "postgres"))
}

#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
fn feature_off(_: &Builder, feature: &str) -> Error {
    Error::Unsupported {
        reason: format!(
            "this binary was built without the feature `{feature}`; write \
             `idempotent-runtime = {{ version = \"..\", features = [\"{feature}\"] }}` in Cargo.toml"
        ),
    }
}
