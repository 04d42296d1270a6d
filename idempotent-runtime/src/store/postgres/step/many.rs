//! Starts and records that share a statement and a commit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::protocol::{
    ExecutionId, Micros, Owner, StepClass, StepFound, StepName, StepRecord, StepRecorded,
    StepStart, StepStarted, Token,
};
use crate::store::postgres::batch::{Coalesced, Many, column};
use crate::store::postgres::error::{Failure, at};
use crate::store::postgres::execution::{id, owner};
use crate::store::postgres::row::Instant;
use crate::store::postgres::runner::Db;
use crate::store::sql::number;

/// An attempt's entry.
type Key<'a> = (ExecutionId, Owner, &'a str, &'a str);

/// Requests by the entries that they ask for.
struct Asked<'a, D> {
    /// The first request for each entry, and what it says.
    first: HashMap<Key<'a>, (usize, D)>,
    /// The first request for the same entry.
    alike: Vec<usize>,
    /// Whether another one says something else, by the first.
    differs: Vec<bool>,
}

impl<'a, D: PartialEq> Asked<'a, D> {
    /// Those for one entry that say different things go alone: the statement does one of them, and does not say which.
    fn new<R>(
        requests: &'a [R],
        of: impl Fn(&'a R) -> (ExecutionId, Owner, &'a StepName, D),
    ) -> Self {
        let mut asked = Self {
            first: HashMap::with_capacity(requests.len()),
            alike: Vec::with_capacity(requests.len()),
            differs: vec![false; requests.len()],
        };
        for (place, request) in requests.iter().enumerate() {
            let (id, owner, name, says) = of(request);
            let first = match asked.first.entry((id, owner, &name.step, &name.part)) {
                Entry::Occupied(entry) => {
                    let (first, said) = entry.get();
                    asked.differs[*first] |= *said != says;
                    *first
                }
                Entry::Vacant(entry) => entry.insert((place, says)).0,
            };
            asked.alike.push(first);
        }
        asked
    }

    /// What each of them is told by the rows that were written, which have an instant of that name.
    fn answers<A: Clone>(
        &self,
        rows: &[PgRow],
        instant: &str,
        answer: impl Fn(Micros) -> A,
    ) -> Result<Vec<Option<A>>, sqlx::Error> {
        let mut written = vec![None; self.alike.len()];
        for row in rows {
            let (id, owner): (Uuid, Uuid) = (row.try_get("id")?, row.try_get("owner")?);
            let (step, part): (&str, &str) = (row.try_get("step")?, row.try_get("part")?);
            let Instant(at) = row.try_get(instant)?;
            let key = (ExecutionId(id.into_bytes()), Owner(owner.into_bytes()), step, part);
            if let Some((first, _)) = self.first.get(&key) {
                written[*first] = (!self.differs[*first]).then(|| answer(at));
            }
        }
        Ok(self.alike.iter().map(|first| written[*first].clone()).collect())
    }
}

impl Coalesced for StepStart {
    /// What has an entry is counted for what it was.
    fn goes_along(&self) -> bool {
        self.seen.is_none()
    }
}

impl Many for StepStart {
    /// What has an entry, or is locked, or not to be started, goes alone.
    async fn many(db: &mut Db<'_>, starts: &[Self]) -> Result<Vec<Option<StepStarted>>, Failure> {
        let rows = db
            .query(&db.queries.steps.start_many)
            .bind(column(starts, |start| id(start.id)))
            .bind(column(starts, |start| owner(start.owner)))
            .bind(column(starts, |start| start.token.0))
            .bind(column(starts, |start| start.name.step.as_str()))
            .bind(column(starts, |start| start.name.part.as_str()))
            .bind(column(starts, |start| i16::from(start.class.stored())))
            .bind(column(starts, |start| start.reconciles))
            .bind(column(starts, |start| number(start.generation)))
            .bind(column(starts, |start| number(start.version)))
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to start a step"))?;
        // A second start of the same generation is told of the first, whatever else it says.
        let asked = Asked::new(starts, |start| {
            (start.id, start.owner, &start.name, (start.token, start.generation))
        });
        let started = |started_at| StepStarted::Started { started_at, now: started_at };
        asked.answers(&rows, "started_at", started).map_err(at("to start a step"))
    }
}

fn value(record: &StepRecord) -> Option<&[u8]> {
    match &record.found {
        StepFound::Happened(value) => Some(value),
        StepFound::DidNotHappen => None,
    }
}

/// Whether a step of that class was started before.
fn is_started(class: StepClass) -> bool {
    match class {
        StepClass::Plain | StepClass::Transaction => false,
        StepClass::ProviderWindow | StepClass::AtMostOnce => true,
    }
}

impl Coalesced for StepRecord {
    /// That something did not happen is rare.
    fn goes_along(&self) -> bool {
        matches!(self.found, StepFound::Happened(_))
    }
}

impl Many for StepRecord {
    /// What is recorded, or is locked, or not to be recorded, goes alone.
    async fn many(db: &mut Db<'_>, records: &[Self]) -> Result<Vec<Option<StepRecorded>>, Failure> {
        let steps = &db.queries.steps;
        let starts = records.iter().any(|record| is_started(record.class));
        let statement = if starts { &steps.record_started_many } else { &steps.record_many };
        let rows = db
            .query(statement)
            .bind(column(records, |record| id(record.id)))
            .bind(column(records, |record| owner(record.owner)))
            .bind(column(records, |record| record.token.0))
            .bind(column(records, |record| record.name.step.as_str()))
            .bind(column(records, |record| record.name.part.as_str()))
            .bind(column(records, |record| number(record.generation)))
            .bind(column(records, |record| number(record.version)))
            .bind(column(records, |record| i16::from(record.class.stored())))
            .bind(column(records, value))
            .bind(column(records, |record| Instant(record.earliest)))
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to record a step"))?;
        // A second record is told of the first, whose value stays.
        let asked: Asked<'_, Token> =
            Asked::new(records, |record| (record.id, record.owner, &record.name, record.token));
        let done = |done_at| StepRecorded::Done { done_at };
        asked.answers(&rows, "done_at", done).map_err(at("to record a step"))
    }
}
