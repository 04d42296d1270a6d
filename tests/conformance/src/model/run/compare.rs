//! What is equal, up to the store's own time and tokens.

use std::fmt::Debug;

use idempotent_runtime::protocol::{
    Claimed, ExecutionId, Granted, Micros, Record, Settled, TakenOver,
};
use idempotent_runtime::store::{Cursor, Execution, StoreError};

use super::super::TOLERANCE_US;
use super::super::tokens::Pair;
use super::super::world::identity;
use super::Run;

pub(super) type Compared = Result<(), String>;

impl Run<'_> {
    pub(super) fn same_claimed(
        &mut self,
        id: ExecutionId,
        store: &Claimed,
        model: &Claimed,
    ) -> Compared {
        match (store, model) {
            (Claimed::Granted(store), Claimed::Granted(model)) => {
                self.same_grant(id, *store, *model)
            }
            (Claimed::Found(store), Claimed::Found(model)) => {
                self.same_record((&store.record, store.now), (&model.record, model.now))
            }
            _ => same("the answer", store, model),
        }
    }

    pub(super) fn same_taken_over(
        &mut self,
        id: ExecutionId,
        store: &TakenOver,
        model: &TakenOver,
    ) -> Compared {
        match (store, model) {
            (TakenOver::Granted(store), TakenOver::Granted(model)) => {
                self.same_grant(id, *store, *model)
            }
            _ => same("the answer", store, model),
        }
    }

    pub(super) fn same_settled(
        &mut self,
        _id: ExecutionId,
        store: &Settled,
        model: &Settled,
    ) -> Compared {
        match (store, model) {
            (
                Settled::TooEarly { retry_after_ms: store },
                Settled::TooEarly { retry_after_ms: model },
            ) if store.abs_diff(*model) <= TOLERANCE_US.unsigned_abs() / 1_000 => Ok(()),
            _ => same("the answer", store, model),
        }
    }

    pub(super) fn same_answer<A: Debug + PartialEq>(
        &mut self,
        _id: ExecutionId,
        store: &A,
        model: &A,
    ) -> Compared {
        same("the answer", store, model)
    }

    fn same_grant(&mut self, id: ExecutionId, store: Granted, model: Granted) -> Compared {
        same("the attempts", &store.attempts, &model.attempts)?;
        same("the crashes", &store.crashes, &model.crashes)?;
        self.tokens.learn(id, Pair { model: model.token, store: store.token })
    }

    pub(super) async fn same_records(
        &mut self,
        ids: impl Iterator<Item = ExecutionId>,
    ) -> Compared {
        let ids: Vec<_> = ids.collect();
        for (id, found) in ids.iter().zip(answered(self.store.read(&ids).await, ids.len())?) {
            match found {
                Some(execution) => {
                    same("the id", &execution.record.id, id)?;
                    self.same_execution(&execution)?;
                }
                None => same("the record", &None, &self.world.record(*id))?,
            }
        }
        Ok(())
    }

    pub(super) fn same_execution(&mut self, execution: &Execution) -> Compared {
        let id = execution.record.id;
        same("the identity", &execution.identity, &identity(id))?;
        let model = self.world.record(id).cloned();
        let model = model.ok_or_else(|| format!("{id} is in the store, and not in the model"))?;
        self.same_record((&execution.record, execution.now), (&model, self.world.now))
    }

    /// Two records, each with its side's time.
    fn same_record(&mut self, store: (&Record, Micros), model: (&Record, Micros)) -> Compared {
        let ((record, now), (expected, model_now)) = (store, model);
        let pair = Pair { model: expected.token, store: record.token };
        self.tokens.learn(record.id, pair)?;
        let moved = |instant: Micros| Micros(instant.0 - model_now.0 + now.0);
        let near = |instant: Micros, expected: Micros| match moved(expected) {
            expected if instant.0.abs_diff(expected.0) <= TOLERANCE_US.unsigned_abs() => instant,
            expected => expected,
        };
        let maybe_near = |instant: Option<Micros>, expected: Option<Micros>| {
            expected
                .map(|expected| instant.map_or(moved(expected), |instant| near(instant, expected)))
        };
        let expected = Record {
            token: record.token,
            lease_until: near(record.lease_until, expected.lease_until),
            attempt_started_at: near(record.attempt_started_at, expected.attempt_started_at),
            not_before: maybe_near(record.not_before, expected.not_before),
            created_at: near(record.created_at, expected.created_at),
            done_at: maybe_near(record.done_at, expected.done_at),
            ..expected.clone()
        };
        same("the record", record, &expected)
    }
}

/// Which of the candidates a sweep examined, judged by where it says to go on.
pub(super) fn examined(
    candidates: &[ExecutionId],
    next: Option<Cursor>,
    rows_max: u32,
) -> Result<&[ExecutionId], String> {
    let examined = match next {
        None => candidates,
        Some(next) => {
            let last = candidates.iter().position(|id| *id == next.id);
            let last = last.ok_or_else(|| format!("{next:?} is none of {candidates:?}"))?;
            &candidates[..=last]
        }
    };
    let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
    if examined.len() > rows_max {
        return Err(format!("{} were examined, more than {rows_max}", examined.len()));
    }
    Ok(examined)
}

pub(super) fn answered<A>(
    answers: Result<Vec<A>, StoreError>,
    requests: usize,
) -> Result<Vec<A>, String> {
    let answers = answers.map_err(failed)?;
    same("the number of answers", &answers.len(), &requests)?;
    Ok(answers)
}

#[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
pub(super) fn failed(error: StoreError) -> String {
    format!("the store fails: {error} ({:?})", error.kind())
}

pub(super) fn same<T: Debug + PartialEq>(what: &str, store: &T, model: &T) -> Compared {
    if store == model {
        return Ok(());
    }
    Err(format!("{what} is\n  {store:?}\nin the store, and\n  {model:?}\nin the model"))
}
