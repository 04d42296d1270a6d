//! Writes to the journal, on both sides.

use idempotent_runtime::protocol::{
    self, ExecutionId, Micros, Owner, StepFound, StepName, StepRecord, StepRecorded, StepStart,
    StepStarted, Token,
};

use super::super::operation::{Acks, GenerationOf, SeenOf, StepBy};
use super::super::world::{Change, id, owner, step_name};
use super::{Both, Compared, Run, StepTransition, distinct, sent};

impl Run<'_> {
    pub(super) async fn start(&mut self, batch: &[StepBy], acks: Acks) -> Compared {
        let requests = self.steps(batch, |start, generation, name, id, owner, token| StepStart {
            id,
            owner,
            token,
            name,
            class: start.class,
            reconciles: start.reconciles,
            version: u32::from(start.value),
            generation,
            seen: self.seen(start),
        });
        let start: StepTransition<StepStart, StepStarted> = |world, id, request| {
            let (record, step) = (world.record(id), world.step(id, &request.name));
            let (write, answer) = protocol::start_step(record, step, request, world.now);
            (write.map(Change::from), answer)
        };
        for _ in 0..times(acks) {
            let answers = self.store.start_steps(&sent(&requests)).await;
            self.judge_steps(&requests, answers, |request| request.id, start, Self::same_started)
                .await?;
        }
        Ok(())
    }

    pub(super) async fn record(&mut self, batch: &[StepBy], acks: Acks) -> Compared {
        let requests = self.steps(batch, |record, generation, name, id, owner, token| StepRecord {
            id,
            owner,
            token,
            name,
            class: record.class,
            version: u32::from(record.value),
            generation,
            found: match record.value % 8 {
                0 => StepFound::DidNotHappen,
                value => StepFound::Happened(value.to_string().into_bytes()),
            },
            earliest: Micros(0),
        });
        let record: StepTransition<StepRecord, StepRecorded> = |world, id, request| {
            let (record, step) = (world.record(id), world.step(id, &request.name));
            let (write, answer) = protocol::record_step(record, step, request, world.now);
            (write.map(Change::from), answer)
        };
        for _ in 0..times(acks) {
            let answers = self.store.record_steps(&sent(&requests)).await;
            self.judge_steps(&requests, answers, |request| request.id, record, Self::same_recorded)
                .await?;
        }
        Ok(())
    }

    /// Whose entry a start goes on with.
    fn seen(&self, start: &StepBy) -> Option<Owner> {
        let entry = self.world.step(id(start.by.execution), &step_name(start.step));
        match start.seen {
            SeenOf::Held => entry.map(|entry| entry.owner),
            SeenOf::Nobody => None,
            SeenOf::Another(number) => Some(owner(number)),
        }
    }

    /// The requests of a batch, at most one for each step.
    fn steps<R>(
        &self,
        batch: &[StepBy],
        request: impl Fn(&StepBy, u32, StepName, ExecutionId, Owner, Token) -> R,
    ) -> Vec<Both<R>> {
        distinct(batch, |step| (step.by.execution, step.step))
            .into_iter()
            .map(|step| {
                let (id, name) = (id(step.by.execution), step_name(step.step));
                let execution = self.world.record(id).map_or(0, |record| record.generation);
                let held = self.world.step(id, &name).map_or(execution, |step| step.generation);
                let generation = match step.generation {
                    GenerationOf::Held => held,
                    GenerationOf::Next => held + 1,
                    GenerationOf::Earlier => held.saturating_sub(1),
                };
                self.attempt(step.by, |id, owner, token| {
                    request(&step, generation, name.clone(), id, owner, token)
                })
            })
            .collect()
    }
}

pub(super) fn times(acks: Acks) -> u8 {
    match acks {
        Acks::Heard => 1,
        Acks::Lost => 2,
    }
}
