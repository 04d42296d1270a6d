//! The steps of executions: starting, recording and reading them.

mod many;

use std::collections::HashMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::error::{Failure, at};
use super::execution::{id, owner};
use super::row::{Instant, Row};
use super::runner::{Db, Operation};
use crate::protocol::{
    self, ExecutionId, Micros, Record, Step, StepClass, StepFound, StepName, StepRecord,
    StepRecorded, StepStart, StepStarted,
};
use crate::store::sql::{self, Sql, number};
use crate::store::{StoreError, StoreErrorKind};

/// Tries of a write whose row was changed by others while it waited for it.
const WRITE_TRIES_MAX: u32 = 5;

/// An execution and one of its steps, at one moment: what a write that changed nothing is answered by.
pub(super) struct Found {
    pub(super) record: Option<Record>,
    pub(super) step: Option<Step>,
    pub(super) now: Micros,
}

/// A write of which `protocol` says what it is answered where it changes nothing.
pub(super) trait Write: Sync {
    /// Its answer.
    type Answer: Send;

    /// The execution, and the step if it is about one.
    fn place(&self) -> (ExecutionId, Option<&StepName>);

    /// Writes, if the rows are such that it does.
    fn write(
        &self,
        db: &mut Db<'_>,
    ) -> impl Future<Output = Result<Option<Self::Answer>, Failure>> + Send;

    /// The answer, unless it should write.
    fn answer(&self, found: &Found) -> Option<Self::Answer>;
}

/// Writes; if nothing was written, judges by what is there then, and writes again if it should.
pub(super) async fn write_or_answer<W: Write>(
    db: &mut Db<'_>,
    request: &W,
) -> Result<W::Answer, Failure> {
    let place = request.place();
    for _ in 0..WRITE_TRIES_MAX {
        if let Some(written) = request.write(db).await? {
            return Ok(written);
        }
        if let Some(answer) = request.answer(&found(db, place).await?) {
            return Ok(answer);
        }
    }
    let text = format!("postgres: execution {} changed {WRITE_TRIES_MAX} times", place.0);
    Err(StoreError::new(StoreErrorKind::Busy, text).into())
}

async fn found(
    db: &mut Db<'_>,
    (execution, step): (ExecutionId, Option<&StepName>),
) -> Result<Found, Failure> {
    let row = db
        .query(&db.queries.steps.found)
        .bind(id(execution))
        .bind(step.map(|name| name.step.as_str()))
        .bind(step.map(|name| name.part.as_str()))
        .fetch_optional(&mut *db.connection)
        .await
        .map_err(at("to read a guard"))?;
    let Some(row) = row else {
        return Ok(Found { record: None, step: None, now: Micros(0) });
    };
    let Instant(now) = row.try_get("now").map_err(at("to read a guard"))?;
    let record = Some(sql::record(&Row::new(&row), &db.queries.table)?);
    Ok(Found { record, step: joined_step(db, &row)?, now })
}

/// The step that an outer join found, if it found one.
fn joined_step(db: &Db<'_>, row: &PgRow) -> Result<Option<Step>, Failure> {
    let id: Option<Uuid> = row.try_get("step_id").map_err(at("to read a step"))?;
    let step = id.map(|_| sql::step(&Row::of_step(row), &db.queries.steps.table)).transpose()?;
    Ok(step.map(|(_, step)| step))
}

/// The journal that an outer join found.
pub(super) fn joined_journal(db: &Db<'_>, rows: &[PgRow]) -> Result<Vec<Step>, Failure> {
    let steps = rows.iter().filter_map(|row| joined_step(db, row).transpose());
    Ok(in_order(steps.collect::<Result<_, _>>()?))
}

fn in_order(mut journal: Vec<Step>) -> Vec<Step> {
    journal.sort_by(|a, b| a.name.cmp(&b.name));
    journal
}

impl Write for StepStart {
    type Answer = StepStarted;

    fn place(&self) -> (ExecutionId, Option<&StepName>) {
        (self.id, Some(&self.name))
    }

    async fn write(&self, db: &mut Db<'_>) -> Result<Option<StepStarted>, Failure> {
        let row = db
            .query(&db.queries.steps.start)
            .bind(id(self.id))
            .bind(owner(self.owner))
            .bind(self.token.0)
            .bind(&self.name.step)
            .bind(&self.name.part)
            .bind(i16::from(self.class.stored()))
            .bind(self.reconciles)
            .bind(number(self.generation))
            .bind(number(self.version))
            .bind(self.seen.map(owner))
            .fetch_optional(&mut *db.connection)
            .await
            .map_err(at("to start a step"))?;
        let Some(row) = row else { return Ok(None) };
        let Instant(started_at) = row.try_get("started_at").map_err(at("to start a step"))?;
        let Instant(now) = row.try_get("now").map_err(at("to start a step"))?;
        Ok(Some(StepStarted::Started { started_at, now }))
    }

    fn answer(&self, Found { record, step, now }: &Found) -> Option<StepStarted> {
        let (write, answer) = protocol::start_step(record.as_ref(), step.as_ref(), self, *now);
        write.is_none().then_some(answer)
    }
}

impl Operation for StepStart {
    type Answer = StepStarted;

    async fn apply(&self, db: &mut Db<'_>) -> Result<StepStarted, Failure> {
        write_or_answer(db, self).await
    }
}

impl Write for StepRecord {
    type Answer = StepRecorded;

    fn place(&self) -> (ExecutionId, Option<&StepName>) {
        (self.id, Some(&self.name))
    }

    async fn write(&self, db: &mut Db<'_>) -> Result<Option<StepRecorded>, Failure> {
        let steps = &db.queries.steps;
        match self.found {
            StepFound::Happened(_) => {
                // A step that writes no start has an entry only where another class, or an attempt before, wrote one.
                if matches!(self.class, StepClass::Plain | StepClass::Transaction)
                    && let Some(recorded) = self.write_by(db, &steps.record_new).await?
                {
                    return Ok(Some(recorded));
                }
                self.write_by(db, &steps.record).await
            }
            StepFound::DidNotHappen => self.write_by(db, &steps.clear).await,
        }
    }

    fn answer(&self, Found { record, step, now }: &Found) -> Option<StepRecorded> {
        let (write, answer) = protocol::record_step(record.as_ref(), step.as_ref(), self, *now);
        write.is_none().then_some(answer)
    }
}

impl StepRecord {
    async fn write_by(
        &self,
        db: &mut Db<'_>,
        statement: &Sql,
    ) -> Result<Option<StepRecorded>, Failure> {
        let query = db
            .query(statement)
            .bind(id(self.id))
            .bind(owner(self.owner))
            .bind(self.token.0)
            .bind(&self.name.step)
            .bind(&self.name.part)
            .bind(number(self.generation))
            .bind(number(self.version));
        let query = match &self.found {
            StepFound::Happened(value) => {
                query.bind(i16::from(self.class.stored())).bind(value).bind(Instant(self.earliest))
            }
            StepFound::DidNotHappen => query,
        };
        let row = query.fetch_optional(&mut *db.connection).await;
        let Some(row) = row.map_err(at("to record a step"))? else { return Ok(None) };
        let Instant(done_at) = row.try_get("done_at").map_err(at("to record a step"))?;
        Ok(Some(StepRecorded::Done { done_at }))
    }
}

/// Records a step inside of a transaction: what is recorded already is not this one's.
pub(super) async fn record_once(
    db: &mut Db<'_>,
    request: &StepRecord,
) -> Result<StepRecorded, Failure> {
    for _ in 0..WRITE_TRIES_MAX {
        if let Some(recorded) = request.write(db).await? {
            return Ok(recorded);
        }
        if request.answer(&found(db, request.place()).await?).is_some() {
            return Ok(StepRecorded::Fenced);
        }
    }
    let text = format!("postgres: execution {} changed {WRITE_TRIES_MAX} times", request.id);
    Err(StoreError::new(StoreErrorKind::Busy, text).into())
}

impl Operation for StepRecord {
    type Answer = StepRecorded;

    async fn apply(&self, db: &mut Db<'_>) -> Result<StepRecorded, Failure> {
        write_or_answer(db, self).await
    }
}

/// [`Store::journals`](crate::store::Store::journals).
pub(super) struct Journals<'a>(pub(super) &'a [ExecutionId]);

impl Operation for Journals<'_> {
    type Answer = Vec<Vec<Step>>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Self::Answer, Failure> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let rows = db
            .query(&db.queries.steps.journals)
            .bind(self.0.iter().map(|execution| id(*execution)).collect::<Vec<_>>())
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to read journals"))?;
        let mut journals: HashMap<ExecutionId, Vec<Step>> = HashMap::new();
        for row in &rows {
            let (execution, step) = sql::step(&Row::new(row), &db.queries.steps.table)?;
            journals.entry(execution).or_default().push(step);
        }
        let journal = |id| in_order(journals.get(id).cloned().unwrap_or_default());
        Ok(self.0.iter().map(journal).collect())
    }
}
