//! Reviewing, reaping and purging, in the order of creation.

use sqlx::Row as _;
use uuid::Uuid;

use super::error::{Failure, at};
use super::execution::execution;
use super::row::{Instant, Row};
use super::runner::{Db, Operation};
use crate::protocol::{
    ExecutionId, Micros, REASON_ABANDONED, REASON_BLIND, REASON_CRASHES, REASON_LAPSED,
};
use crate::store::sql::{self, ms, rows};
use crate::store::{Cursor, Execution, Purged, Reaped};

/// Where a sweep starts: before everything, without a cursor.
fn bound(after: Option<Cursor>) -> (Instant, Uuid) {
    let after = after.unwrap_or(Cursor { created_at: Micros(i64::MIN), id: ExecutionId([0; 16]) });
    (Instant(after.created_at), Uuid::from_bytes(after.id.0))
}

/// [`Store::list_review`](crate::store::Store::list_review).
pub(super) struct Review<'a> {
    pub(super) namespace: &'a str,
    pub(super) after: Option<Cursor>,
    pub(super) rows_max: u32,
}

impl Operation for Review<'_> {
    type Answer = Vec<Execution>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Vec<Execution>, Failure> {
        let (created_at, id) = bound(self.after);
        let rows = db
            .query(&db.queries.review)
            .bind(self.namespace)
            .bind(created_at)
            .bind(id)
            .bind(i64::from(self.rows_max))
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to list executions in review"))?;
        rows.iter().map(|row| execution(db, row)).collect()
    }
}

/// The rows to examine, and where to go on.
async fn page(
    db: &mut Db<'_>,
    after: Option<Cursor>,
    younger_than_ms: Option<u64>,
    rows_max: u32,
) -> Result<(Vec<Uuid>, Option<Cursor>), Failure> {
    let (created_at, id) = bound(after);
    let (rows_max, limit) = rows(rows_max);
    let found = db
        .query(&db.queries.page)
        .bind(created_at)
        .bind(id)
        .bind(younger_than_ms.map(ms))
        .bind(limit)
        .fetch_all(&mut *db.connection)
        .await
        .map_err(at("to sweep"))?;
    let more = found.len() > rows_max;
    let cursors = found
        .iter()
        .take(rows_max)
        .map(|row| sql::cursor(&Row::new(row), &db.queries.table))
        .collect::<Result<Vec<_>, _>>()?;
    let next = if more { cursors.last().copied() } else { None };
    Ok((cursors.iter().map(|cursor| Uuid::from_bytes(cursor.id.0)).collect(), next))
}

/// [`Store::reap`](crate::store::Store::reap).
pub(super) struct Reap {
    pub(super) after: Option<Cursor>,
    pub(super) younger_than_ms: Option<u64>,
    pub(super) rows_max: u32,
}

impl Operation for Reap {
    type Answer = Reaped;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Reaped, Failure> {
        let (ids, next) = page(db, self.after, self.younger_than_ms, self.rows_max).await?;
        if ids.is_empty() {
            return Ok(Reaped::default());
        }
        let rows = db
            .query(&db.queries.reap)
            .bind(ids)
            .bind(REASON_LAPSED)
            .bind(REASON_BLIND)
            .bind(REASON_CRASHES)
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to reap"))?;
        let mut lapsed = rows
            .iter()
            .map(|row| sql::lapsed(&Row::new(row), &db.queries.table))
            .collect::<Result<Vec<_>, _>>()?;
        lapsed.sort_by_key(|(cursor, ..)| *cursor);
        let lapsed = lapsed.into_iter().map(|(cursor, handler, state)| (cursor.id, handler, state));
        Ok(Reaped { lapsed: lapsed.collect(), next })
    }
}

/// [`Store::purge`](crate::store::Store::purge).
pub(super) struct Purge {
    pub(super) after: Option<Cursor>,
    pub(super) rows_max: u32,
}

impl Operation for Purge {
    type Answer = Purged;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Purged, Failure> {
        let (ids, next) = page(db, self.after, None, self.rows_max).await?;
        if ids.is_empty() {
            return Ok(Purged::default());
        }
        let row = db
            .query(&db.queries.purge)
            .bind(ids)
            .bind(REASON_ABANDONED)
            .fetch_one(&mut *db.connection)
            .await
            .map_err(at("to purge"))?;
        let count = |column| {
            let rows: i64 = row.try_get(column).map_err(at("to purge"))?;
            Ok::<_, Failure>(u64::try_from(rows).unwrap_or(0))
        };
        Ok(Purged { deleted: count("deleted")?, reviewed: count("reviewed")?, next })
    }
}
