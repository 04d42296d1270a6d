//! The operations of attempts on single executions; renewals go in one statement.

use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::error::{Failure, at};
use super::outbox::Columns;
use super::row::{Instant, Row};
use super::runner::{Db, Operation, Query};
use super::step::{Journals, joined_journal};
use crate::protocol::{
    Completion, ExecutionId, Owner, REASON_BLIND, REASON_CRASHES, Release, ReleaseTo, Renewal,
    Renewed, State, Step, TakeOver, TakenOver, Target, Token, Written,
};
use crate::store::Execution;
use crate::store::sql::{self, ms, number};

pub(super) fn id(id: ExecutionId) -> Uuid {
    Uuid::from_bytes(id.0)
}

pub(super) fn owner(owner: Owner) -> Uuid {
    Uuid::from_bytes(owner.0)
}

/// A state's stored number.
pub(super) fn stored(state: State) -> i16 {
    state.stored().into()
}

async fn changed(db: &mut Db<'_>, what: &'static str, query: Query<'_>) -> Result<bool, Failure> {
    let done = query.execute(&mut *db.connection).await.map_err(at(what))?;
    Ok(done.rows_affected() > 0)
}

impl Operation for TakeOver {
    type Answer = TakenOver;

    /// One whose journal cannot be read is taken over by nobody.
    fn is_undone(&self) -> bool {
        self.target == Target::Run
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<TakenOver, Failure> {
        let taken = match self.target {
            Target::Run => take_over_to_run(db, self).await?,
            Target::Review => {
                let query = db
                    .query(&db.queries.take_over_review)
                    .bind(REASON_CRASHES)
                    .bind(id(self.id))
                    .bind(self.seen.0)
                    .bind(owner(self.owner));
                changed(db, "to take over", query).await?.then_some(TakenOver::Reviewed)
            }
        };
        if let Some(taken) = taken {
            return Ok(taken);
        }
        let own = db
            .query(&db.queries.taken_over)
            .bind(id(self.id))
            .bind(owner(self.owner))
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to take over"))?;
        let Some(row) = own.first() else { return Ok(TakenOver::Outrun) };
        taken_over(db, self.id, row, joined_journal(db, &own)?)
    }
}

async fn take_over_to_run(
    db: &mut Db<'_>,
    request: &TakeOver,
) -> Result<Option<TakenOver>, Failure> {
    let rows = db
        .query(&db.queries.take_over)
        .bind(number(request.version))
        .bind(owner(request.owner))
        .bind(ms(request.limits.lease_ms))
        .bind(ms(request.limits.max_runtime_ms))
        .bind(number(request.limits.crashes_max))
        .bind(ms(request.limits.retain_ms))
        .bind(id(request.id))
        .bind(request.seen.0)
        .bind(REASON_BLIND)
        .bind(ms(request.limits.alive_ms()))
        .fetch_all(&mut *db.connection)
        .await
        .map_err(at("to take over"))?;
    let Some(row) = rows.first() else { return Ok(None) };
    if row.try_get("is_reviewed").map_err(at("to take over"))? {
        return Ok(Some(TakenOver::Reviewed));
    }
    let journal = if row.try_get("is_whole").map_err(at("to take over"))? {
        joined_journal(db, &rows)?
    } else {
        // Behind the takeover, nobody else writes steps.
        Journals(&[request.id]).apply(db).await?.concat()
    };
    taken_over(db, request.id, row, journal).map(Some)
}

fn taken_over(
    db: &Db<'_>,
    id: ExecutionId,
    row: &PgRow,
    journal: Vec<Step>,
) -> Result<TakenOver, Failure> {
    let Instant(now) = row.try_get("now").map_err(at("to take over"))?;
    let granted = sql::granted(&Row::new(row), &db.queries.table, id)?;
    Ok(TakenOver::Granted { granted, journal, now })
}

/// The state of an execution that still has this owner and token.
async fn owned(
    db: &mut Db<'_>,
    execution: ExecutionId,
    by: Owner,
    token: Token,
) -> Result<Option<State>, Failure> {
    let row = db
        .query(&db.queries.owned)
        .bind(id(execution))
        .bind(owner(by))
        .bind(token.0)
        .fetch_optional(&mut *db.connection)
        .await
        .map_err(at("to read a guard"))?;
    let Some(row) = row else { return Ok(None) };
    let state: i16 = row.try_get("state").map_err(at("to read a guard"))?;
    Ok(State::from_stored(state.into()))
}

/// Renewals, in one statement.
pub(super) struct Renewals<'a>(pub(super) &'a [Renewal]);

impl Operation for Renewals<'_> {
    type Answer = Vec<Renewed>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Vec<Renewed>, Failure> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let rows = db
            .query(&db.queries.renew)
            .bind(self.0.iter().map(|renewal| id(renewal.id)).collect::<Vec<_>>())
            .bind(self.0.iter().map(|renewal| owner(renewal.owner)).collect::<Vec<_>>())
            .bind(self.0.iter().map(|renewal| renewal.token.0).collect::<Vec<_>>())
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to renew"))?;
        let answer = |row: &PgRow| {
            let renewed = row.try_get("renewed")?;
            let owned: bool = row.try_get("owned")?;
            Ok(match (renewed, owned) {
                (true, _) => Renewed::Renewed,
                (false, true) => Renewed::Skipped,
                (false, false) => Renewed::Lost,
            })
        };
        rows.iter().map(answer).collect::<Result<_, _>>().map_err(at("to renew"))
    }
}

/// Stores an outcome and its messages, if the attempt still owns the execution.
pub(super) async fn complete(db: &mut Db<'_>, completion: &Completion) -> Result<bool, Failure> {
    let (json, format, reason) = sql::result(&completion.result);
    let sends = !completion.sent().is_empty();
    let statement = if sends { &db.queries.outbox.complete } else { &db.queries.complete };
    let query = db
        .query(statement)
        .bind(stored(completion.state()))
        .bind(json)
        .bind(i16::from(format.stored()))
        .bind(reason)
        .bind(id(completion.id))
        .bind(owner(completion.owner))
        .bind(completion.token.0);
    if !sends {
        return changed(db, "to complete", query).await;
    }
    let row = Columns::of(completion.sent())?.bind(query).fetch_one(&mut *db.connection).await;
    row.and_then(|row| row.try_get("done")).map_err(at("to complete"))
}

impl Operation for Completion {
    type Answer = Written;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Written, Failure> {
        if complete(db, self).await? {
            return Ok(Written::Done);
        }
        let state = owned(db, self.id, self.owner, self.token).await?;
        Ok(if state.is_some_and(State::is_finished) { Written::Done } else { Written::Fenced })
    }
}

impl Operation for Release {
    type Answer = Written;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Written, Failure> {
        let statement = match self.to {
            ReleaseTo::Retry { .. } => &db.queries.release_retry,
            ReleaseTo::Crash => &db.queries.release_crash,
            ReleaseTo::Review => &db.queries.release_review,
        };
        let query = db.query(statement).bind(id(self.id)).bind(owner(self.owner));
        let query = query.bind(self.token.0).bind(&self.reason);
        let query = match self.to {
            ReleaseTo::Retry { delay_ms } => query.bind(REASON_BLIND).bind(ms(delay_ms)),
            ReleaseTo::Crash => query.bind(REASON_BLIND).bind(REASON_CRASHES),
            ReleaseTo::Review => query,
        };
        if changed(db, "to release", query).await? {
            return Ok(Written::Done);
        }
        Ok(match owned(db, self.id, self.owner, self.token).await? {
            Some(State::Retryable | State::Review) => Written::Done,
            _ => Written::Fenced,
        })
    }
}

/// [`Store::read`](crate::store::Store::read).
pub(super) struct Read<'a>(pub(super) &'a [ExecutionId]);

impl Operation for Read<'_> {
    type Answer = Vec<Option<Execution>>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Self::Answer, Failure> {
        let mut executions = Vec::with_capacity(self.0.len());
        for execution_id in self.0 {
            let row = db
                .query(&db.queries.read)
                .bind(id(*execution_id))
                .fetch_optional(&mut *db.connection)
                .await
                .map_err(at("to read"))?;
            executions.push(row.map(|row| execution(db, &row)).transpose()?);
        }
        Ok(executions)
    }
}

/// An execution, from the row of a statement that reads `now`, too.
pub(super) fn execution(db: &Db<'_>, row: &PgRow) -> Result<Execution, Failure> {
    let Instant(now) = row.try_get("now").map_err(at("to read"))?;
    Ok(sql::execution(&Row::new(row), &db.queries.table, now)?)
}
