//! The same for steps.

use super::{Attempt, Bench, LEASE_S, MAX_RUNTIME_S, only};
use crate::protocol::{
    ExecutionId, Micros, ReleaseTo, SettleTo, Settlement, Step, StepClass, StepFound, StepName,
    StepRecord, StepRecorded, StepStart, StepStarted, Written,
};

/// The name of a step without parts.
pub(in super::super) fn step(name: &str) -> StepName {
    part(name, "")
}

/// The name of a part of a step.
pub(in super::super) fn part(name: &str, part: &str) -> StepName {
    StepName { step: name.to_owned(), part: part.to_owned() }
}

impl Attempt {
    /// The start of a step with a provider window: its effect may be repeated.
    pub(in super::super) fn start(self, name: &str) -> StepStart {
        StepStart {
            id: self.id,
            owner: self.owner,
            token: self.token,
            name: step(name),
            class: StepClass::ProviderWindow,
            reconciles: false,
            version: 3,
            generation: 0,
            seen: None,
        }
    }

    /// The start of a step that must not be repeated and asks nobody.
    pub(in super::super) fn blind_start(self, name: &str) -> StepStart {
        StepStart { class: StepClass::AtMostOnce, ..self.start(name) }
    }

    /// The record of a step that need not have been started.
    pub(in super::super) fn record(self, name: &str, value: &str) -> StepRecord {
        StepRecord {
            id: self.id,
            owner: self.owner,
            token: self.token,
            name: step(name),
            class: StepClass::Plain,
            version: 3,
            generation: 0,
            found: StepFound::Happened(value.as_bytes().to_vec()),
            earliest: Micros(0),
        }
    }

    /// What a person found out about a step.
    pub(in super::super) fn found(self, name: &str, found: StepFound) -> Settlement {
        self.settlement(SettleTo::Step { name: step(name), found })
    }

    /// That it happened, with this value.
    pub(in super::super) fn happened(self, name: &str, value: &str) -> Settlement {
        self.found(name, StepFound::Happened(value.as_bytes().to_vec()))
    }

    /// That it did not happen.
    pub(in super::super) fn did_not_happen(self, name: &str) -> Settlement {
        self.found(name, StepFound::DidNotHappen)
    }
}

impl Bench {
    pub(in super::super) async fn start(&self, start: &StepStart) -> StepStarted {
        only(self.store().start_steps(std::slice::from_ref(start)).await.expect("start_steps"))
    }

    pub(in super::super) async fn record_step(&self, record: &StepRecord) -> StepRecorded {
        only(self.store().record_steps(std::slice::from_ref(record)).await.expect("record_steps"))
    }

    pub(in super::super) async fn journal(&self, id: ExecutionId) -> Vec<Step> {
        only(self.store().journals(&[id]).await.expect("journals"))
    }

    /// The journal of an execution whose counters must be equal to it.
    pub(in super::super) async fn counted(&self, id: ExecutionId) -> Vec<Step> {
        let journal = self.journal(id).await;
        let record = self.record(id).await;
        let count = |is: fn(&Step) -> bool| journal.iter().filter(|step| is(step)).count();
        let counts = [count(Step::is_open), count(Step::is_blind)];
        let counted = [record.open_steps, record.blind_steps];
        let counted = counted.map(|steps| usize::try_from(steps).expect("there are few steps"));
        assert_eq!(counted, counts, "{journal:?}");
        journal
    }

    /// The only entry of a journal.
    pub(in super::super) async fn only_step(&self, id: ExecutionId) -> Step {
        only(self.counted(id).await)
    }

    /// Starts a step that must be startable.
    pub(in super::super) async fn started(&self, start: &StepStart) {
        let answer = self.start(start).await;
        assert!(matches!(answer, StepStarted::Started { .. }), "{answer:?}");
    }

    /// The entry of the step that a record is about.
    pub(in super::super) async fn step(&self, record: &StepRecord) -> Step {
        let journal = self.counted(record.id).await;
        journal.into_iter().find(|step| step.name == record.name).expect("it is there")
    }

    /// Records a step that must be recordable, and is then.
    pub(in super::super) async fn recorded(&self, record: &StepRecord) {
        let answer = self.record_step(record).await;
        let StepRecorded::Done { done_at } = answer else { panic!("{answer:?}") };
        assert_eq!(self.step(record).await.done_at, Some(done_at));
    }

    /// In review, with these steps started and no attempt alive any more.
    pub(in super::super) async fn reviewed_with(&self, n: u16, steps: &[&str]) -> Attempt {
        let attempt = self.running(n).await;
        for step in steps {
            self.started(&attempt.blind_start(step)).await;
        }
        assert_eq!(self.release(&attempt.release(ReleaseTo::Review)).await, Written::Done);
        self.age_s(MAX_RUNTIME_S + LEASE_S).await;
        attempt
    }
}
