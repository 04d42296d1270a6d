//! The operations on single executions, run by the writer.

use sqlx::SqliteConnection;
use sqlx::sqlite::{SqliteArguments, SqliteRow};

use super::error::failed;
use super::outbox;
use super::row::Row;
use super::runner::{Db, Operation};
use super::step::journal;
use crate::protocol::{
    Claim, Claimed, Completion, ExecutionId, Granted, Micros, Owner, REASON_BLIND, REASON_CRASHES,
    Record, Release, ReleaseTo, Renewal, Renewed, Seen, State, TakeOver, TakenOver, Target, Token,
    Written,
};
use crate::store::sql::bounds::{Carries, Load, REQUEST_BYTES};
use crate::store::sql::{self, ms, number};
use crate::store::{StoreError, StoreErrorKind};

/// A batch of requests, each answered in its place.
pub(super) struct Items<T>(pub(super) Vec<T>);

/// A request on one execution.
pub(super) trait Item: Send + Sync {
    /// Its answer.
    type Answer: Send + 'static;

    /// Whether it writes one row at most, and reads nothing that must be of the same moment.
    fn is_single(&self) -> bool {
        true
    }

    /// About what it carries, in bytes.
    fn bytes(&self) -> usize {
        REQUEST_BYTES
    }

    /// Runs it; running it again is safe.
    fn apply(
        &self,
        db: &mut Db<'_>,
    ) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;
}

impl<T: Item + 'static> Operation for Items<T> {
    type Answer = Vec<T::Answer>;

    fn is_single(&self) -> bool {
        matches!(&self.0[..], [item] if item.is_single())
    }

    fn load(&self) -> Load {
        let bytes = self.0.iter().map(Item::bytes).fold(0, usize::saturating_add);
        Load { requests: self.0.len(), bytes }
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Self::Answer, StoreError> {
        let mut answers = Vec::with_capacity(self.0.len());
        for item in &self.0 {
            answers.push(item.apply(db).await?);
        }
        Ok(answers)
    }
}

pub(super) type Query<'q> = sqlx::query::Query<'q, sqlx::Sqlite, SqliteArguments>;

pub(super) async fn changed(
    connection: &mut SqliteConnection,
    what: &str,
    query: Query<'_>,
) -> Result<bool, StoreError> {
    let done = query.execute(connection).await.map_err(|error| failed(what, error))?;
    Ok(done.rows_affected() > 0)
}

impl Item for Claim {
    type Answer = Claimed;

    fn bytes(&self) -> usize {
        Carries::bytes(self)
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Claimed, StoreError> {
        let now = db.now();
        let too_old =
            self.issued_at.is_some_and(|issued| issued.plus_ms(self.limits.retain_ms) < now);
        if !too_old {
            let query = sqlx::query(db.queries.claim.driver())
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
                .bind(&self.fingerprint)
                .bind(ms(self.limits.alive_ms()));
            if changed(db.connection, "to claim", query).await? {
                let token = Token::first(now);
                let granted = Granted { token, attempts: 1, crashes: 0, generation: 0 };
                return Ok(Claimed::Granted(granted));
            }
        }
        match record(db, self.id, "to claim").await? {
            Some(record) => Ok(found(record, now)),
            None if too_old => Ok(Claimed::TooOld),
            // Another process deleted it in between; the writer now tries again under the lock.
            None => Err(StoreError::new(StoreErrorKind::Busy, "sqlite: the row came and went")),
        }
    }
}

/// What a claim finds that is there.
fn found(record: Record, now: Micros) -> Claimed {
    Claimed::Found(Box::new(Seen { record, now }))
}

/// The record of an execution.
pub(super) async fn record(
    db: &mut Db<'_>,
    id: ExecutionId,
    what: &str,
) -> Result<Option<Record>, StoreError> {
    let row = sqlx::query(db.queries.record.driver())
        .bind(id.0.as_slice())
        .fetch_optional(&mut *db.connection)
        .await
        .map_err(|error| failed(what, error))?;
    row.map(|row| sql::record(&Row::new(&row), &db.queries.table)).transpose()
}

/// A claim that looks before it inserts, so that a replay takes no lock.
pub(super) struct Look<'a>(pub(super) &'a Claim);

impl Item for Look<'_> {
    type Answer = Claimed;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Claimed, StoreError> {
        let now = db.now();
        match record(db, self.0.id, "to claim").await? {
            Some(record) => Ok(found(record, now)),
            None => self.0.apply(db).await,
        }
    }
}

impl Item for TakeOver {
    type Answer = TakenOver;

    /// The journal is that of the moment in which it is taken over.
    fn is_single(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<TakenOver, StoreError> {
        let now = db.now();
        // Before anything is written: one that cannot be read is taken over by nobody.
        let journal = journal(db, self.id).await?;
        let taken = |row: &SqliteRow| {
            let granted = sql::granted(&Row::new(row), &db.queries.table, self.id)?;
            Ok(TakenOver::Granted { granted, journal, now })
        };
        let reason = match self.target {
            Target::Run => {
                if let Some(row) = self.run(db, now).await? {
                    return taken(&row);
                }
                // What has lapsed and was not taken over has a blind step.
                REASON_BLIND
            }
            Target::Review => REASON_CRASHES,
        };
        let review = sqlx::query(db.queries.take_over_review.driver())
            .bind(now.0)
            .bind(reason)
            .bind(self.id.0.as_slice())
            .bind(self.seen.0)
            .bind(self.owner.0.as_slice());
        if changed(db.connection, "to take over", review).await? {
            return Ok(TakenOver::Reviewed);
        }
        let own = sqlx::query(db.queries.taken_over.driver())
            .bind(self.id.0.as_slice())
            .bind(self.owner.0.as_slice())
            .fetch_optional(&mut *db.connection)
            .await
            .map_err(|error| failed("to take over", error))?;
        own.as_ref().map_or(Ok(TakenOver::Outrun), taken)
    }
}

impl TakeOver {
    /// Takes over what is due, or has lapsed outside of any step that must not be repeated.
    async fn run(&self, db: &mut Db<'_>, now: Micros) -> Result<Option<SqliteRow>, StoreError> {
        // All rows, of which there is one: a statement that is left before its end commits unseen, and where it
        // cannot, nobody is told.
        let rows = sqlx::query(db.queries.take_over.driver())
            .bind(now.0)
            .bind(number(self.version))
            .bind(self.owner.0.as_slice())
            .bind(ms(self.limits.lease_ms))
            .bind(ms(self.limits.max_runtime_ms))
            .bind(number(self.limits.crashes_max))
            .bind(ms(self.limits.retain_ms))
            .bind(self.id.0.as_slice())
            .bind(self.seen.0)
            .bind(ms(self.limits.alive_ms()))
            .fetch_all(&mut *db.connection)
            .await
            .map_err(|error| failed("to take over", error))?;
        Ok(rows.into_iter().next())
    }
}

/// The state of an execution that still has this owner and token.
async fn owned(
    db: &mut Db<'_>,
    id: ExecutionId,
    owner: Owner,
    token: Token,
) -> Result<Option<State>, StoreError> {
    let state = sqlx::query_scalar::<_, i64>(db.queries.owned.driver())
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
        let query = sqlx::query(db.queries.renew.driver())
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

/// Stores an outcome and its messages, if the attempt still owns the execution.
pub(super) async fn complete(db: &mut Db<'_>, completion: &Completion) -> Result<bool, StoreError> {
    let (json, format, reason) = sql::result(&completion.result);
    let query = sqlx::query(db.queries.complete.driver())
        .bind(db.now().0)
        .bind(completion.state().stored())
        .bind(json)
        .bind(format.stored())
        .bind(reason)
        .bind(completion.id.0.as_slice())
        .bind(completion.owner.0.as_slice())
        .bind(completion.token.0);
    let done = changed(db.connection, "to complete", query).await?;
    if done {
        outbox::commit(db, completion).await?;
    }
    Ok(done)
}

impl Item for Completion {
    type Answer = Written;

    fn is_single(&self) -> bool {
        self.sent().is_empty()
    }

    fn bytes(&self) -> usize {
        Carries::bytes(self)
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Written, StoreError> {
        if complete(db, self).await? {
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
        let query = match self.to {
            ReleaseTo::Retry { delay_ms } => {
                let not_before = (delay_ms > 0).then(|| now.0.saturating_add(ms(delay_ms) * 1_000));
                sqlx::query(db.queries.release.driver())
                    .bind(not_before)
                    .bind(&self.reason)
                    .bind(REASON_BLIND)
            }
            ReleaseTo::Crash => sqlx::query(db.queries.release_crash.driver())
                .bind(&self.reason)
                .bind(REASON_CRASHES)
                .bind(REASON_BLIND),
            ReleaseTo::Review => sqlx::query(db.queries.release_review.driver()).bind(&self.reason),
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
