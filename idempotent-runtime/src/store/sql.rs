//! What the SQL stores share: how much goes together, options, names, schema versions, and the way from columns to records and steps.

pub(in crate::store) mod bounds;
mod columns;
mod message;
mod names;
mod numbers;
mod options;
mod place;
mod pool;
mod record;
mod schema;
mod statement;
mod step;

#[cfg(test)]
mod tests;

pub(in crate::store) use columns::{EXECUTION, GRANTED, RECORD, STEP, list};
pub(in crate::store) use message::{MESSAGE, headers, message, overwritten, topic_count};
pub(in crate::store) use names::Names;
#[cfg(any(feature = "sqlite", test))]
pub(in crate::store) use numbers::ms_between;
pub(in crate::store) use numbers::{MS_MAX, jittered, ms, number, rows};
pub(crate) use options::ConnectOptions;
pub(in crate::store) use place::Places;
pub use pool::TransactionPool;
pub(in crate::store) use record::{Fields, cursor, execution, granted, lapsed, record, result};
pub(in crate::store) use schema::{Migration, Stored, check_columns, judge};
#[cfg(feature = "testing")]
pub use statement::Rewrite;
pub(in crate::store) use statement::Sql;
pub(in crate::store) use step::step;
