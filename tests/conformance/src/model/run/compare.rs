//! What is equal, up to the store's own time and tokens.

use std::fmt::Debug;

use idempotent_runtime::protocol::{
    Claimed, ExecutionId, Granted, Micros, Record, Settled, Step, StepRecorded, StepStarted,
    TakenOver,
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
            (
                TakenOver::Granted { granted: store, journal, now },
                TakenOver::Granted { granted: model, journal: expected, now: model_now },
            ) => {
                self.same_grant(id, *store, *model)?;
                same_journal(Moved { model: *model_now, store: *now }, journal, expected)
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

    pub(super) fn same_started(
        &mut self,
        _id: ExecutionId,
        store: &StepStarted,
        model: &StepStarted,
    ) -> Compared {
        match (store, model) {
            (
                StepStarted::Started { started_at, now },
                StepStarted::Started { started_at: expected, now: model_now },
            ) => {
                let moved = Moved { model: *model_now, store: *now };
                same("the start", started_at, &moved.near(*started_at, *expected))
            }
            (StepStarted::Found(store), StepStarted::Found(model)) => {
                same_step(self.moved(), store, model)
            }
            _ => same("the answer", store, model),
        }
    }

    pub(super) fn same_recorded(
        &mut self,
        _id: ExecutionId,
        store: &StepRecorded,
        model: &StepRecorded,
    ) -> Compared {
        let moved = self.moved();
        let expected = match (*store, *model) {
            (StepRecorded::Done { done_at }, StepRecorded::Done { done_at: expected }) => {
                StepRecorded::Done { done_at: moved.near(done_at, expected) }
            }
            (_, model) => model,
        };
        same("the record", store, &expected)
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
        same("the generation", &store.generation, &model.generation)?;
        self.tokens.learn(id, Pair { model: model.token, store: store.token })
    }

    /// From the model's time to that of the place, more or less.
    pub(super) fn moved(&self) -> Moved {
        Moved { model: self.world.now, store: self.place.now() }
    }

    /// Compares executions and their journals.
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
        for (id, journal) in ids.iter().zip(answered(self.store.journals(&ids).await, ids.len())?) {
            same_journal(self.moved(), &journal, &self.world.steps(*id))?;
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
        let moved = Moved { model: model_now, store: now };
        let expected = Record {
            token: record.token,
            lease_until: moved.near(record.lease_until, expected.lease_until),
            attempt_started_at: moved.near(record.attempt_started_at, expected.attempt_started_at),
            alive_until: moved.near(record.alive_until, expected.alive_until),
            not_before: moved.maybe_near(record.not_before, expected.not_before),
            created_at: moved.near(record.created_at, expected.created_at),
            done_at: moved.maybe_near(record.done_at, expected.done_at),
            ..expected.clone()
        };
        same("the record", record, &expected)
    }
}

/// The same moment on both sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    model: Micros,
    store: Micros,
}

impl Moved {
    /// An instant of the store if it is near what the model expects, else what is expected.
    pub(super) fn near(self, instant: Micros, expected: Micros) -> Micros {
        let expected = Micros(expected.0 - self.model.0 + self.store.0);
        let is_near = instant.0.abs_diff(expected.0) <= TOLERANCE_US.unsigned_abs();
        if is_near { instant } else { expected }
    }

    pub(super) fn maybe_near(
        self,
        instant: Option<Micros>,
        expected: Option<Micros>,
    ) -> Option<Micros> {
        expected.map(|expected| self.near(instant.unwrap_or(Micros(i64::MIN)), expected))
    }
}

fn same_journal(moved: Moved, journal: &[Step], expected: &[Step]) -> Compared {
    let names = |steps: &[Step]| steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>();
    same("the journal", &names(journal), &names(expected))?;
    journal.iter().zip(expected).try_for_each(|(step, expected)| same_step(moved, step, expected))
}

fn same_step(moved: Moved, step: &Step, expected: &Step) -> Compared {
    let expected = Step {
        started_at: moved.near(step.started_at, expected.started_at),
        alive_until: moved.near(step.alive_until, expected.alive_until),
        done_at: moved.maybe_near(step.done_at, expected.done_at),
        ..expected.clone()
    };
    same("the step", step, &expected)
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
