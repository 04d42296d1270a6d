//! The conformance suite run on the stores of `idempotent-runtime`: how each of them is made afresh and aged,
//! the pure model that random operations are compared with, and a private PostgreSQL server for tests.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod crowd;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod guards;
pub mod memory;
pub mod model;
#[cfg(feature = "postgres")]
pub mod postgres;
mod postgres_server;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use postgres_server::{
    Crash, Cut, Database, Fate, Passing, PostgresOptions, PostgresServer, Proxy, ServerError, Way,
};

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod sql;
