//! What a person decided.

use super::error::failed;
use super::execution::{Item, changed, record};
use super::runner::Db;
use super::step::{step, write};
use crate::protocol::{self, Micros, SettleTo, Settled, Settlement, State, StepFound, StepName};
use crate::store::StoreError;
use crate::store::sql::ms_between;

impl Item for Settlement {
    type Answer = Settled;

    fn is_single(&self) -> bool {
        !matches!(self.to, SettleTo::Step { .. })
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Settled, StoreError> {
        let now = db.now();
        match &self.to {
            SettleTo::Retry => self.again(db, now, false).await,
            SettleTo::Reopen => self.again(db, now, true).await,
            SettleTo::Completed(json) => self.result(db, now, State::Completed, json).await,
            SettleTo::Failed(json) => self.result(db, now, State::Failed, json).await,
            SettleTo::Step { name, found } => self.step(db, now, name, found).await,
        }
    }
}

impl Settlement {
    async fn result(
        &self,
        db: &mut Db<'_>,
        now: Micros,
        state: State,
        json: &[u8],
    ) -> Result<Settled, StoreError> {
        let query = sqlx::query(db.queries.settle_result.driver())
            .bind(now.0)
            .bind(state.stored())
            .bind(json)
            .bind(&self.note)
            .bind(self.id.0.as_slice())
            .bind(self.seen.0);
        let done = changed(db.connection, "to settle", query).await?;
        Ok(if done { Settled::Done } else { Settled::Outrun })
    }

    /// Of what is in review, or of what is `finished`.
    async fn again(
        &self,
        db: &mut Db<'_>,
        now: Micros,
        finished: bool,
    ) -> Result<Settled, StoreError> {
        let query = sqlx::query(db.queries.settle_again.driver())
            .bind(now.0)
            .bind(&self.note)
            .bind(self.id.0.as_slice())
            .bind(self.seen.0)
            .bind(finished);
        if changed(db.connection, "to settle", query).await? {
            return Ok(Settled::Done);
        }
        let early_us = sqlx::query_scalar::<_, i64>(db.queries.settle_early.driver())
            .bind(now.0)
            .bind(self.id.0.as_slice())
            .bind(self.seen.0)
            .bind(finished)
            .fetch_optional(&mut *db.connection)
            .await
            .map_err(|error| failed("to settle", error))?;
        Ok(match early_us {
            Some(us) => Settled::TooEarly { retry_after_ms: ms_between(us) },
            None => Settled::Outrun,
        })
    }

    /// Under the file's write lock, as all that writes two rows.
    async fn step(
        &self,
        db: &mut Db<'_>,
        now: Micros,
        name: &StepName,
        found: &StepFound,
    ) -> Result<Settled, StoreError> {
        let record = record(db, self.id, "to settle").await?;
        let step = step(db, self.id, name).await?;
        let (written, settled) =
            protocol::settle_step(record.as_ref(), step.as_ref(), self, found, now);
        if let (Some(seen), Some(written)) = (record, written) {
            write(db, &seen, &written).await?;
        }
        Ok(settled)
    }
}
