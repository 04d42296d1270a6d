//! The SQLite store holds the contract.
#![cfg(feature = "sqlite")]

use idempotent_conformance::sqlite::SqliteFactory;

idempotent_runtime::store_conformance!(async { SqliteFactory::fresh() });
