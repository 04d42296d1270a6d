//! The test kit for users, shown on handlers that hold and on handlers that do not.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

#[cfg(feature = "sqlite")]
mod database;
mod fakes;
mod kit;
mod right;
mod wrong;
