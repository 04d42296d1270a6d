//! The journal.
//!
//! What is started, and what is recorded after it was started, changes two rows: the entry, and the execution's
//! counters. Both are written under the file's write lock, which the writer takes before anything is read, so that
//! what is decided about what was read is still true when it is written. A step that is recorded without a start
//! changes no counter; it is one statement, and need not stand in the writer's queue.

use sqlx::sqlite::SqliteRow;

use super::error::failed;
use super::execution::{Item, changed, record};
use super::queries::Queries;
use super::row::Row;
use super::runner::Db;
use crate::protocol::{
    self, ExecutionId, Record, Step, StepClass, StepFound, StepName, StepRecord, StepRecorded,
    StepStart, StepStarted, StepWrite,
};
use crate::store::sql::bounds::Carries;
use crate::store::sql::{self, number};
use crate::store::{StoreError, StoreErrorKind};

/// The entries of an execution, from their rows.
pub(super) fn steps(rows: &[SqliteRow], queries: &Queries) -> Result<Vec<Step>, StoreError> {
    rows.iter().map(|row| Ok(sql::step(&Row::new(row), &queries.step_table)?.1)).collect()
}

/// The entries of an execution, in the order of their names.
pub(super) async fn journal(db: &mut Db<'_>, id: ExecutionId) -> Result<Vec<Step>, StoreError> {
    let rows = sqlx::query(db.queries.journal.driver())
        .bind(id.0.as_slice())
        .fetch_all(&mut *db.connection)
        .await
        .map_err(|error| failed("to read a journal", error))?;
    steps(&rows, db.queries)
}

/// One entry.
pub(super) async fn step(
    db: &mut Db<'_>,
    id: ExecutionId,
    name: &StepName,
) -> Result<Option<Step>, StoreError> {
    let row = sqlx::query(db.queries.step.driver())
        .bind(id.0.as_slice())
        .bind(&name.step)
        .bind(&name.part)
        .fetch_optional(&mut *db.connection)
        .await
        .map_err(|error| failed("to read a step", error))?;
    let step = row.map(|row| sql::step(&Row::new(&row), &db.queries.step_table)).transpose()?;
    Ok(step.map(|(_, step)| step))
}

/// Writes an entry, and its execution where that changes, if the execution is as it was `seen`.
pub(super) async fn write(
    db: &mut Db<'_>,
    seen: &Record,
    StepWrite { record, step }: &StepWrite,
) -> Result<(), StoreError> {
    let entry = sqlx::query(db.queries.write_step.driver())
        .bind(seen.id.0.as_slice())
        .bind(&step.name.step)
        .bind(&step.name.part)
        .bind(step.class.stored())
        .bind(step.reconciles)
        .bind(step.state.stored())
        .bind(number(step.generation))
        .bind(number(step.version))
        .bind(step.owner.0.as_slice())
        .bind(step.started_at.0)
        .bind(step.alive_until.0)
        .bind(&step.value)
        .bind(step.done_at.map(|done| done.0))
        .bind(seen.owner.0.as_slice())
        .bind(seen.token.0)
        .bind(seen.state.stored());
    let mut written = changed(db.connection, "to write a step", entry).await?;
    if record != seen {
        let query = sqlx::query(db.queries.write_record.driver())
            .bind(record.state.stored())
            .bind(record.token.0)
            .bind(number(record.crashes))
            .bind(record.not_before.map(|due| due.0))
            .bind(&record.reason)
            .bind(number(record.open_steps))
            .bind(number(record.blind_steps))
            .bind(seen.id.0.as_slice())
            .bind(seen.owner.0.as_slice())
            .bind(seen.token.0)
            .bind(seen.state.stored());
        written &= changed(db.connection, "to write a step", query).await?;
    }
    if written {
        return Ok(());
    }
    Err(StoreError::new(StoreErrorKind::Busy, "sqlite: the execution changed under the write lock"))
}

impl Item for StepStart {
    type Answer = StepStarted;

    fn is_single(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        Carries::bytes(self)
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<StepStarted, StoreError> {
        let now = db.now();
        let record = record(db, self.id, "to start a step").await?;
        let step = step(db, self.id, &self.name).await?;
        let (written, started) = protocol::start_step(record.as_ref(), step.as_ref(), self, now);
        if let (Some(seen), Some(written)) = (record, written) {
            write(db, &seen, &written).await?;
        }
        Ok(started)
    }
}

/// Records a step and says so, or says what is there instead and whether it is the same.
async fn record_step(
    db: &mut Db<'_>,
    request: &StepRecord,
) -> Result<(bool, StepRecorded), StoreError> {
    let now = db.now();
    let record = record(db, request.id, "to record a step").await?;
    let step = step(db, request.id, &request.name).await?;
    let (written, answer) = protocol::record_step(record.as_ref(), step.as_ref(), request, now);
    let (Some(seen), Some(written)) = (record, written) else { return Ok((false, answer)) };
    write(db, &seen, &written).await?;
    Ok((true, answer))
}

/// Records a step inside of a transaction that holds the file's lock: what is recorded already is not this one's.
pub(super) async fn record_once(
    db: &mut Db<'_>,
    request: &StepRecord,
) -> Result<StepRecorded, StoreError> {
    let (written, recorded) = record_step(db, request).await?;
    Ok(if written { recorded } else { StepRecorded::Fenced })
}

impl Item for StepRecord {
    type Answer = StepRecorded;

    fn is_single(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        Carries::bytes(self)
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<StepRecorded, StoreError> {
        Ok(record_step(db, self).await?.1)
    }
}

/// A step that is recorded without a start, in one statement.
pub(super) struct Unstarted<'a> {
    record: &'a StepRecord,
    value: &'a [u8],
}

impl<'a> Unstarted<'a> {
    /// If the step's class lets it be recorded without a start.
    pub(super) fn new(record: &'a StepRecord) -> Option<Self> {
        match (&record.found, record.class) {
            (StepFound::Happened(value), StepClass::Plain | StepClass::Transaction) => {
                Some(Self { record, value })
            }
            _ => None,
        }
    }
}

impl Item for Unstarted<'_> {
    type Answer = StepRecorded;

    async fn apply(&self, db: &mut Db<'_>) -> Result<StepRecorded, StoreError> {
        let Self { record, value } = *self;
        let now = db.now();
        let done_at = record.done_at(now);
        let StepRecord { id, owner, token, name, class, version, generation, .. } = record;
        let query = sqlx::query(db.queries.record_step.driver())
            .bind(now.0)
            .bind(id.0.as_slice())
            .bind(&name.step)
            .bind(&name.part)
            .bind(class.stored())
            .bind(number(*generation))
            .bind(number(*version))
            .bind(owner.0.as_slice())
            .bind(value)
            .bind(token.0)
            .bind(done_at.0);
        if changed(db.connection, "to record a step", query).await? {
            return Ok(StepRecorded::Done { done_at });
        }
        // Fenced off, or there already: the writer tells, under the lock.
        Err(StoreError::new(StoreErrorKind::Busy, "sqlite: the step is not to be inserted"))
    }
}
