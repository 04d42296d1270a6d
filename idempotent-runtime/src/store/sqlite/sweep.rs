//! Reaping and purging, in the order of creation.

use sqlx::SqliteConnection;

use super::error::failed;
use super::execution::Query;
use super::row::Row;
use super::runner::{Db, Operation};
use crate::protocol::{
    ExecutionId, Micros, REASON_ABANDONED, REASON_BLIND, REASON_CRASHES, REASON_LAPSED,
};
use crate::store::sql::{self, Sql, rows};
use crate::store::{Cursor, Purged, Reaped, StoreError};

/// Where a sweep starts: before everything, without a cursor.
pub(super) fn bound(after: Option<Cursor>) -> Cursor {
    after.unwrap_or(Cursor { created_at: Micros(i64::MIN), id: ExecutionId([0; 16]) })
}

/// The first and the last row of a page, and where to go on.
struct Page {
    first: Cursor,
    last: Cursor,
    next: Option<Cursor>,
}

impl Page {
    /// A statement over its rows.
    fn bind<'q>(&self, statement: &Sql, now: Micros) -> Query<'q> {
        sqlx::query(statement.driver())
            .bind(now.0)
            .bind(self.first.created_at.0)
            .bind(self.first.id.0.to_vec())
            .bind(self.last.created_at.0)
            .bind(self.last.id.0.to_vec())
    }
}

async fn page(
    db: &mut Db<'_>,
    after: Option<Cursor>,
    rows_max: u32,
) -> Result<Option<Page>, StoreError> {
    let after = bound(after);
    let (rows_max, limit) = rows(rows_max);
    let found = sqlx::query(db.queries.page.driver())
        .bind(after.created_at.0)
        .bind(after.id.0.to_vec())
        .bind(limit)
        .fetch_all(&mut *db.connection)
        .await
        .map_err(|error| failed("to sweep", error))?;
    let more = found.len() > rows_max;
    let examined = &found[..found.len().min(rows_max)];
    let (Some(first), Some(last)) = (examined.first(), examined.last()) else {
        return Ok(None);
    };
    let first = sql::cursor(&Row::new(first), &db.queries.table)?;
    let last = sql::cursor(&Row::new(last), &db.queries.table)?;
    Ok(Some(Page { first, last, next: more.then_some(last) }))
}

/// [`Store::reap`](crate::store::Store::reap).
pub(super) struct Reap {
    pub(super) after: Option<Cursor>,
    pub(super) younger_than_ms: Option<u64>,
    pub(super) rows_max: u32,
}

impl Operation for Reap {
    type Answer = Reaped;

    fn is_single(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Reaped, StoreError> {
        let now = db.now();
        // Behind the last place before the stretch, so that the index is entered at its start.
        let before = self.younger_than_ms.map(|ms| Cursor {
            created_at: Micros(now.minus_ms(ms).0.saturating_sub(1)),
            id: ExecutionId([u8::MAX; 16]),
        });
        let Some(page) = page(db, self.after.max(before), self.rows_max).await? else {
            return Ok(Reaped::default());
        };
        let rows = page
            .bind(&db.queries.reap, now)
            .bind(REASON_LAPSED)
            .bind(REASON_CRASHES)
            .bind(REASON_BLIND)
            .fetch_all(&mut *db.connection)
            .await
            .map_err(|error| failed("to reap", error))?;
        let mut lapsed = rows
            .iter()
            .map(|row| sql::lapsed(&Row::new(row), &db.queries.table))
            .collect::<Result<Vec<_>, _>>()?;
        lapsed.sort_by_key(|(cursor, ..)| *cursor);
        let lapsed = lapsed.into_iter().map(|(cursor, handler, state)| (cursor.id, handler, state));
        Ok(Reaped { lapsed: lapsed.collect(), next: page.next })
    }
}

async fn affected(connection: &mut SqliteConnection, query: Query<'_>) -> Result<u64, StoreError> {
    let done = query.execute(connection).await.map_err(|error| failed("to purge", error))?;
    Ok(done.rows_affected())
}

/// [`Store::purge`](crate::store::Store::purge).
pub(super) struct Purge {
    pub(super) after: Option<Cursor>,
    pub(super) rows_max: u32,
}

impl Operation for Purge {
    type Answer = Purged;

    fn is_single(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Purged, StoreError> {
        let now = db.now();
        let Some(page) = page(db, self.after, self.rows_max).await? else {
            return Ok(Purged::default());
        };
        let abandon = page.bind(&db.queries.abandon, now).bind(REASON_ABANDONED);
        let reviewed = affected(db.connection, abandon).await?;
        // While their executions are there to say which.
        affected(db.connection, page.bind(&db.queries.purge_steps, now)).await?;
        let deleted = affected(db.connection, page.bind(&db.queries.purge, now)).await?;
        Ok(Purged { deleted, reviewed, next: page.next })
    }
}
