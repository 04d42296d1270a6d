//! What a person decided.

use super::error::{Failure, at};
use super::execution::{id, stored};
use super::runner::{Db, Operation, Query};
use super::step::{Found, Write, write_or_answer};
use crate::protocol::{
    self, ExecutionId, SettleTo, Settled, Settlement, State, StepFound, StepName, StepState,
};

/// The statement that writes a decision, with its parameters.
fn query<'q>(db: &Db<'_>, settlement: &'q Settlement) -> Query<'q> {
    let queries = db.queries;
    let statement = match &settlement.to {
        SettleTo::Retry => &queries.settle_retry,
        SettleTo::Reopen => &queries.settle_reopen,
        SettleTo::Step { .. } => &queries.steps.settle,
        SettleTo::Completed(_) | SettleTo::Failed(_) => &queries.settle_result,
    };
    let query = db.query(statement);
    let query = query.bind(id(settlement.id)).bind(settlement.seen.0).bind(&settlement.note);
    match &settlement.to {
        SettleTo::Retry | SettleTo::Reopen => query,
        SettleTo::Completed(json) => query.bind(stored(State::Completed)).bind(json),
        SettleTo::Failed(json) => query.bind(stored(State::Failed)).bind(json),
        SettleTo::Step { name, found } => {
            let (state, raised, value) = match found {
                StepFound::Happened(json) => (StepState::Recorded, 0_i64, Some(json)),
                StepFound::DidNotHappen => (StepState::Cleared, 1, None),
            };
            let query = query.bind(&name.step).bind(&name.part);
            query.bind(i16::from(state.stored())).bind(raised).bind(value)
        }
    }
}

impl Write for Settlement {
    type Answer = Settled;

    fn place(&self) -> (ExecutionId, Option<&StepName>) {
        let name = match &self.to {
            SettleTo::Step { name, .. } => Some(name),
            SettleTo::Retry | SettleTo::Reopen | SettleTo::Completed(_) | SettleTo::Failed(_) => {
                None
            }
        };
        (self.id, name)
    }

    async fn write(&self, db: &mut Db<'_>) -> Result<Option<Settled>, Failure> {
        let done = query(db, self).execute(&mut *db.connection).await.map_err(at("to settle"))?;
        Ok((done.rows_affected() > 0).then_some(Settled::Done))
    }

    fn answer(&self, Found { record, step, now }: &Found) -> Option<Settled> {
        let record = record.as_ref();
        let (writes, answer) = if let SettleTo::Step { found, .. } = &self.to {
            let step = step.as_ref();
            let (write, answer) = protocol::settle_step(record, step, self, found, *now);
            (write.is_some(), answer)
        } else {
            let (write, answer) = protocol::settle(record, self, *now);
            (write.is_some(), answer)
        };
        (!writes).then_some(answer)
    }
}

impl Operation for Settlement {
    type Answer = Settled;

    /// It raises the token, so a second try would find itself outrun by the first.
    fn is_repeatable(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Settled, Failure> {
        write_or_answer(db, self).await
    }
}
