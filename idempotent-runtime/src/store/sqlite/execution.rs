//! The operations on single executions, run by the writer.

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteArguments;

use super::error::failed;
use super::queries::Queries;
use super::row::Row;
use super::runner::{Db, Operation};
use crate::protocol::{
    Claim, Claimed, Completion, ExecutionId, Granted, Micros, Owner, REASON_CRASHES, Release,
    ReleaseTo, Renewal, Renewed, ResultFormat, Seen, SettleTo, Settled, Settlement, State,
    StoredResult, TakeOver, TakenOver, Target, Token, Written,
};
use crate::store::sql::{self, ms, ms_between, number};
use crate::store::{StoreError, StoreErrorKind};

/// A batch of requests, each answered in its place.
pub(super) struct Items<T>(pub(super) Vec<T>);

/// A request on one execution.
pub(super) trait Item: Send + Sync {
    /// Its answer.
    type Answer: Send + 'static;

    /// Runs it; running it again is safe.
    fn apply(
        &self,
        db: &mut Db<'_>,
    ) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;
}

impl<T: Item + 'static> Operation for Items<T> {
    type Answer = Vec<T::Answer>;

    fn is_single(&self) -> bool {
        self.0.len() == 1
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Self::Answer, StoreError> {
        let mut answers = Vec::with_capacity(self.0.len());
        for item in &self.0 {
            answers.push(item.apply(db).await?);
        }
        Ok(answers)
    }
}

type Query<'q> = sqlx::query::Query<'q, sqlx::Sqlite, SqliteArguments>;

async fn changed(
    connection: &mut SqliteConnection,
    what: &str,
    query: Query<'_>,
) -> Result<bool, StoreError> {
    let done = query.execute(connection).await.map_err(|error| failed(what, error))?;
    Ok(done.rows_affected() > 0)
}

impl Item for Claim {
    type Answer = Claimed;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Claimed, StoreError> {
        let now = db.now();
        let too_old =
            self.issued_at.is_some_and(|issued| issued.plus_ms(self.limits.retain_ms) < now);
        if !too_old {
            let query = sqlx::query(Queries::sql(&db.queries.claim))
                .bind(now.0)
                .bind(self.id.0.as_slice())
                .bind(&self.identity.namespace)
                .bind(&self.identity.tenant)
                .bind(&self.identity.handler)
                .bind(&self.identity.key)
                .bind(number(self.version))
                .bind(self.owner.0.as_slice())
                .bind(ms(self.limits.lease_ms))
                .bind(ms(self.limits.max_runtime_ms))
                .bind(number(self.limits.crashes_max))
                .bind(ms(self.limits.retain_ms))
                .bind(&self.fingerprint);
            if changed(db.connection, "to claim", query).await? {
                let granted = Granted { token: Token::first(now), attempts: 1, crashes: 0 };
                return Ok(Claimed::Granted(granted));
            }
        }
        match seen(db, self.id, now).await? {
            Some(found) => Ok(found),
            None if too_old => Ok(Claimed::TooOld),
            // Another process deleted it in between; the writer now tries again under the lock.
            None => Err(StoreError::new(StoreErrorKind::Busy, "sqlite: the row came and went")),
        }
    }
}

/// What a claim finds that is there.
async fn seen(
    db: &mut Db<'_>,
    id: ExecutionId,
    now: Micros,
) -> Result<Option<Claimed>, StoreError> {
    let row = sqlx::query(Queries::sql(&db.queries.record))
        .bind(id.0.as_slice())
        .fetch_optional(&mut *db.connection)
        .await
        .map_err(|error| failed("to claim", error))?;
    let Some(row) = row else { return Ok(None) };
    let record = sql::record(&Row(&row), &db.queries.table)?;
    Ok(Some(Claimed::Found(Box::new(Seen { record, now }))))
}

/// A claim that looks before it inserts, so that a replay takes no lock.
pub(super) struct Look<'a>(pub(super) &'a Claim);

impl Item for Look<'_> {
    type Answer = Claimed;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Claimed, StoreError> {
        let now = db.now();
        match seen(db, self.0.id, now).await? {
            Some(found) => Ok(found),
            None => self.0.apply(db).await,
        }
    }
}

impl Item for TakeOver {
    type Answer = TakenOver;

    async fn apply(&self, db: &mut Db<'_>) -> Result<TakenOver, StoreError> {
        let now = db.now();
        if self.target == Target::Review {
            let query = sqlx::query(Queries::sql(&db.queries.take_over_review))
                .bind(now.0)
                .bind(REASON_CRASHES)
                .bind(self.id.0.as_slice())
                .bind(self.seen.0)
                .bind(self.owner.0.as_slice());
            if changed(db.connection, "to take over", query).await? {
                return Ok(TakenOver::Reviewed);
            }
        } else {
            // All rows, of which there is one: a statement that is left before its end commits unseen, and where it
            // cannot, nobody is told.
            let rows = sqlx::query(Queries::sql(&db.queries.take_over))
                .bind(now.0)
                .bind(number(self.version))
                .bind(self.owner.0.as_slice())
                .bind(ms(self.limits.lease_ms))
                .bind(ms(self.limits.max_runtime_ms))
                .bind(number(self.limits.crashes_max))
                .bind(ms(self.limits.retain_ms))
                .bind(self.id.0.as_slice())
                .bind(self.seen.0)
                .fetch_all(&mut *db.connection)
                .await
                .map_err(|error| failed("to take over", error))?;
            if let Some(row) = rows.first() {
                let granted = sql::granted(&Row(row), &db.queries.table, self.id)?;
                return Ok(TakenOver::Granted(granted));
            }
        }
        let own = sqlx::query(Queries::sql(&db.queries.taken_over))
            .bind(self.id.0.as_slice())
            .bind(self.owner.0.as_slice())
            .fetch_optional(&mut *db.connection)
            .await
            .map_err(|error| failed("to take over", error))?;
        match own {
            Some(row) => {
                Ok(TakenOver::Granted(sql::granted(&Row(&row), &db.queries.table, self.id)?))
            }
            None => Ok(TakenOver::Outrun),
        }
    }
}

/// The state of an execution that still has this owner and token.
async fn owned(
    db: &mut Db<'_>,
    id: ExecutionId,
    owner: Owner,
    token: Token,
) -> Result<Option<State>, StoreError> {
    let state = sqlx::query_scalar::<_, i64>(Queries::sql(&db.queries.owned))
        .bind(id.0.as_slice())
        .bind(owner.0.as_slice())
        .bind(token.0)
        .fetch_optional(&mut *db.connection)
        .await
        .map_err(|error| failed("to read a guard", error))?;
    Ok(state.and_then(State::from_stored))
}

impl Item for Renewal {
    type Answer = Renewed;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Renewed, StoreError> {
        let now = db.now();
        let query = sqlx::query(Queries::sql(&db.queries.renew))
            .bind(now.0)
            .bind(self.id.0.as_slice())
            .bind(self.owner.0.as_slice())
            .bind(self.token.0);
        if changed(db.connection, "to renew", query).await? {
            return Ok(Renewed::Renewed);
        }
        Ok(match owned(db, self.id, self.owner, self.token).await? {
            Some(State::Running) => Renewed::Skipped,
            _ => Renewed::Lost,
        })
    }
}

impl Item for Completion {
    type Answer = Written;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Written, StoreError> {
        let now = db.now();
        let (json, format, reason) = match &self.result {
            StoredResult::Json(json) => (Some(json), ResultFormat::Json, None),
            StoredResult::Absent { reason } => (None, ResultFormat::Absent, Some(reason)),
        };
        let state = if self.failed { State::Failed } else { State::Completed };
        let query = sqlx::query(Queries::sql(&db.queries.complete))
            .bind(now.0)
            .bind(state.stored())
            .bind(json)
            .bind(format.stored())
            .bind(reason)
            .bind(self.id.0.as_slice())
            .bind(self.owner.0.as_slice())
            .bind(self.token.0);
        if changed(db.connection, "to complete", query).await? {
            return Ok(Written::Done);
        }
        let state = owned(db, self.id, self.owner, self.token).await?;
        Ok(if state.is_some_and(State::is_finished) { Written::Done } else { Written::Fenced })
    }
}

impl Item for Release {
    type Answer = Written;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Written, StoreError> {
        let now = db.now();
        let release = |state: State, not_before: Option<i64>| {
            sqlx::query(Queries::sql(&db.queries.release)).bind(state.stored()).bind(not_before)
        };
        let query = match self.to {
            ReleaseTo::Retry { delay_ms } => {
                let not_before = (delay_ms > 0).then(|| now.0.saturating_add(ms(delay_ms) * 1_000));
                release(State::Retryable, not_before).bind(&self.reason)
            }
            ReleaseTo::Review => release(State::Review, None).bind(&self.reason),
            ReleaseTo::Crash => sqlx::query(Queries::sql(&db.queries.release_crash))
                .bind(&self.reason)
                .bind(REASON_CRASHES),
        };
        let query =
            query.bind(self.id.0.as_slice()).bind(self.owner.0.as_slice()).bind(self.token.0);
        if changed(db.connection, "to release", query).await? {
            return Ok(Written::Done);
        }
        Ok(match owned(db, self.id, self.owner, self.token).await? {
            Some(State::Retryable | State::Review) => Written::Done,
            _ => Written::Fenced,
        })
    }
}

impl Item for Settlement {
    type Answer = Settled;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Settled, StoreError> {
        let now = db.now();
        let result = |state: State, json| {
            sqlx::query(Queries::sql(&db.queries.settle_result))
                .bind(now.0)
                .bind(state.stored())
                .bind(json)
        };
        let query = match &self.to {
            SettleTo::Retry => sqlx::query(Queries::sql(&db.queries.settle_retry)).bind(now.0),
            SettleTo::Completed(json) => result(State::Completed, json),
            SettleTo::Failed(json) => result(State::Failed, json),
        };
        let query = query.bind(&self.note).bind(self.id.0.as_slice()).bind(self.seen.0);
        if changed(db.connection, "to settle", query).await? {
            return Ok(Settled::Done);
        }
        if self.to != SettleTo::Retry {
            return Ok(Settled::Outrun);
        }
        let early_us = sqlx::query_scalar::<_, i64>(Queries::sql(&db.queries.settle_early))
            .bind(now.0)
            .bind(self.id.0.as_slice())
            .bind(self.seen.0)
            .fetch_optional(&mut *db.connection)
            .await
            .map_err(|error| failed("to settle", error))?;
        Ok(match early_us {
            Some(us) => Settled::TooEarly { retry_after_ms: ms_between(us) },
            None => Settled::Outrun,
        })
    }
}
