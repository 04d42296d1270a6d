//! The journal: the steps of an execution, and what starting and recording one changes.

use serde::{Deserialize, Serialize};

use super::{ExecutionId, Micros, Owner, Record, State, StepFound, Token};

/// What a step's effect may do when an attempt ends without a record of it. The numbers are the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum StepClass {
    /// Effect and record in one commit of the store's database.
    Transaction = 1,
    /// Started, then run again with the same provider key while the provider remembers it.
    ProviderWindow = 2,
    /// Recorded after the effect; may repeat.
    Plain = 3,
    /// Started, and never run again blindly.
    AtMostOnce = 4,
}

impl StepClass {
    /// The class of a stored number, or `None` if no class has it.
    #[must_use]
    pub fn from_stored(number: i64) -> Option<Self> {
        Some(match number {
            1 => Self::Transaction,
            2 => Self::ProviderWindow,
            3 => Self::Plain,
            4 => Self::AtMostOnce,
            _ => return None,
        })
    }

    /// The stored number.
    #[must_use]
    pub fn stored(self) -> u8 {
        self as u8
    }
}

/// How far a step is. The numbers are the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum StepState {
    /// Started: the effect may have happened.
    Started = 1,
    /// Recorded, with its value.
    Recorded = 2,
    /// It is known that the effect did not happen: it is to be tried anew.
    Cleared = 3,
}

impl StepState {
    /// The state of a stored number, or `None` if no state has it.
    #[must_use]
    pub fn from_stored(number: i64) -> Option<Self> {
        Some(match number {
            1 => Self::Started,
            2 => Self::Recorded,
            3 => Self::Cleared,
            _ => return None,
        })
    }

    /// The stored number.
    #[must_use]
    pub fn stored(self) -> u8 {
        self as u8
    }
}

/// Names a step of a handler, or one part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepName {
    /// The step.
    pub step: String,
    /// The part of it, or empty.
    pub part: String,
}

/// One entry of an execution's journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its name.
    pub name: StepName,
    /// What its effect may do.
    pub class: StepClass,
    /// Whether the step asks the outside what happened.
    pub reconciles: bool,
    /// How far it is.
    pub state: StepState,
    /// Part of the provider key; rises when the effect is known not to have happened, and is tried anew.
    pub generation: u32,
    /// Version of the handler that wrote it last.
    pub version: u32,
    /// The attempt that wrote it last.
    pub owner: Owner,
    /// When this generation was first started, or recorded.
    pub started_at: Micros,
    /// From then on no attempt that started it can act any more.
    pub alive_until: Micros,
    /// The value as JSON, once recorded.
    pub value: Option<Vec<u8>>,
    /// When it counts as recorded: [`StepRecord::done_at`].
    pub done_at: Option<Micros>,
}

impl Step {
    /// Whether its value is recorded.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.state == StepState::Recorded
    }

    /// Whether the effect may have happened, and no record says so.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == StepState::Started
    }

    /// Whether it is open, must not be repeated, and asks nobody.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.is_open() && self.class == StepClass::AtMostOnce && !self.reconciles
    }

    /// The entry once it is known that the effect did not happen.
    pub(super) fn cleared(&self) -> Self {
        Self {
            state: StepState::Cleared,
            generation: self.generation.saturating_add(1),
            value: None,
            done_at: None,
            ..self.clone()
        }
    }
}

/// Note that a step's effect is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepStart {
    /// Which execution.
    pub id: ExecutionId,
    /// The attempt.
    pub owner: Owner,
    /// Its token.
    pub token: Token,
    /// Which step.
    pub name: StepName,
    /// What its effect may do.
    pub class: StepClass,
    /// Whether the step asks the outside what happened.
    pub reconciles: bool,
    /// The handler's version.
    pub version: u32,
    /// The generation to run: the execution's for a step without an entry, the entry's to go on with it, the next
    /// one where the effect is known not to have happened.
    pub generation: u32,
    /// Whose entry the attempt saw, which it goes on with; `None` where it saw none.
    pub seen: Option<Owner>,
}

/// The answer to a [`StepStart`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepStarted {
    /// The effect may begin; also when this very attempt had started it before (a lost acknowledgement).
    Started {
        /// When this generation was first started.
        started_at: Micros,
        /// The store's time.
        now: Micros,
    },
    /// There is an entry that was not seen, or it is in another generation. Nothing was written.
    Found(Box<Step>),
    /// The guard did not hold. Nothing was written.
    Fenced,
}

/// Record what became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// Which execution.
    pub id: ExecutionId,
    /// The attempt.
    pub owner: Owner,
    /// Its token.
    pub token: Token,
    /// Which step.
    pub name: StepName,
    /// What its effect may do.
    pub class: StepClass,
    /// The handler's version.
    pub version: u32,
    /// The generation that ran.
    pub generation: u32,
    /// What became of it. That it did not happen can be said only of what this attempt has started.
    pub found: StepFound,
    /// The value counts as recorded then at the earliest: behind all that the attempt knows, so that they keep their
    /// order where the store's clock stands still or jumps back.
    pub earliest: Micros,
}

impl StepRecord {
    /// When a value that is recorded `now` counts as recorded.
    #[must_use]
    pub fn done_at(&self, now: Micros) -> Micros {
        now.max(self.earliest)
    }
}

/// The answer to a [`StepRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepRecorded {
    /// It is stored; also when this very attempt had stored it before (a lost acknowledgement), and when a value had
    /// been recorded before, which stays.
    Done {
        /// When the value counts as recorded; of what did not happen, the store's time.
        done_at: Micros,
    },
    /// The guard did not hold, or what did not happen was not started by this attempt. Nothing was written.
    Fenced,
}

/// What a step's write changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepWrite {
    /// The execution's record.
    pub record: Record,
    /// The entry.
    pub step: Step,
}

fn guard(record: &Record, owner: Owner, token: Token) -> bool {
    record.owner == owner && record.token == token && record.state == State::Running
}

/// The record after one entry became another: it counts the open steps.
pub(super) fn counted(record: &Record, before: Option<&Step>, after: &Step) -> Record {
    let moved = |count: u32, was: bool, is: bool| {
        count.saturating_sub(u32::from(was)).saturating_add(u32::from(is))
    };
    let was = |is: fn(&Step) -> bool| before.is_some_and(is);
    Record {
        open_steps: moved(record.open_steps, was(Step::is_open), after.is_open()),
        blind_steps: moved(record.blind_steps, was(Step::is_blind), after.is_blind()),
        ..record.clone()
    }
}

/// Starts a step of an attempt that still owns the execution.
#[must_use]
pub fn start_step(
    record: Option<&Record>,
    step: Option<&Step>,
    request: &StepStart,
    now: Micros,
) -> (Option<StepWrite>, StepStarted) {
    let Some(record) = record.filter(|record| guard(record, request.owner, request.token)) else {
        return (None, StepStarted::Fenced);
    };
    let mut started_at = now;
    if let Some(step) = step {
        let same = step.generation == request.generation;
        let seen = request.seen == Some(step.owner);
        match step.state {
            StepState::Started if same && step.owner == request.owner => {
                return (None, StepStarted::Started { started_at: step.started_at, now });
            }
            StepState::Started if same && seen => started_at = step.started_at,
            StepState::Started if step.generation < request.generation && seen => {}
            StepState::Cleared if same && seen => {}
            StepState::Started | StepState::Cleared | StepState::Recorded => {
                return (None, StepStarted::Found(Box::new(step.clone())));
            }
        }
    }
    let started = Step {
        name: request.name.clone(),
        class: request.class,
        reconciles: request.reconciles,
        state: StepState::Started,
        generation: request.generation,
        version: request.version,
        owner: request.owner,
        started_at,
        alive_until: record.alive_until,
        value: None,
        done_at: None,
    };
    let record = counted(record, step, &started);
    (Some(StepWrite { record, step: started }), StepStarted::Started { started_at, now })
}

/// Records what became of a step of an attempt that still owns the execution. A value that is recorded never changes.
#[must_use]
pub fn record_step(
    record: Option<&Record>,
    step: Option<&Step>,
    request: &StepRecord,
    now: Micros,
) -> (Option<StepWrite>, StepRecorded) {
    let Some(record) = record.filter(|record| guard(record, request.owner, request.token)) else {
        return (None, StepRecorded::Fenced);
    };
    let value = match &request.found {
        StepFound::Happened(value) => value,
        StepFound::DidNotHappen => return clear_step(record, step, request, now),
    };
    if let Some(step) = step.filter(|step| step.is_recorded()) {
        return (None, StepRecorded::Done { done_at: step.done_at.unwrap_or(now) });
    }
    let open = step.filter(|step| step.is_open());
    let done_at = request.done_at(now);
    let recorded = Step {
        name: request.name.clone(),
        class: request.class,
        reconciles: open.is_some_and(|step| step.reconciles),
        state: StepState::Recorded,
        generation: request.generation,
        version: request.version,
        owner: request.owner,
        started_at: open.map_or(now, |step| step.started_at),
        alive_until: open.map_or(now, |step| step.alive_until),
        value: Some(value.clone()),
        done_at: Some(done_at),
    };
    let record = counted(record, step, &recorded);
    (Some(StepWrite { record, step: recorded }), StepRecorded::Done { done_at })
}

/// Notes that what the attempt has started did not happen: the step is closed, and its next start is another generation.
fn clear_step(
    record: &Record,
    step: Option<&Step>,
    request: &StepRecord,
    now: Micros,
) -> (Option<StepWrite>, StepRecorded) {
    let Some(step) = step.filter(|step| step.owner == request.owner) else {
        return (None, StepRecorded::Fenced);
    };
    let cleared = Step { version: request.version, ..step.cleared() };
    match step.state {
        StepState::Started if step.generation == request.generation => {
            let record = counted(record, Some(step), &cleared);
            (Some(StepWrite { record, step: cleared }), StepRecorded::Done { done_at: now })
        }
        StepState::Cleared if step.generation == request.generation.saturating_add(1) => {
            (None, StepRecorded::Done { done_at: now })
        }
        StepState::Started | StepState::Cleared | StepState::Recorded => {
            (None, StepRecorded::Fenced)
        }
    }
}
