//! Idempotent handlers.
#![doc(html_no_source)]

extern crate self as idempotent_runtime;

mod error;
mod handler;
pub mod protocol;
pub mod store;
