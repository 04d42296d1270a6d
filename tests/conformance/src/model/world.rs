//! The model: executions in a map, and the pure functions over them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use idempotent_runtime::protocol::{
    self, ExecutionId, Identity, Limits, Message, MessageId, MessageRecord, Micros, Owner, Record,
    State, Step, StepName, StepWrite,
};

use super::UNIT_MS;
use super::operation::{Number, SentBy};

/// The steps of an execution.
pub(super) type Journal = BTreeMap<StepName, Step>;

/// What an operation writes.
#[derive(Debug)]
pub(super) struct Change {
    record: Record,
    step: Option<Step>,
    messages: Vec<Message>,
}

impl Change {
    /// An outcome with what is sent.
    pub(super) fn sending(record: Record, messages: &[Message]) -> Self {
        Self { messages: messages.to_vec(), ..record.into() }
    }
}

impl From<Record> for Change {
    fn from(record: Record) -> Self {
        Self { record, step: None, messages: Vec::new() }
    }
}

impl From<StepWrite> for Change {
    fn from(StepWrite { record, step }: StepWrite) -> Self {
        Self { record, step: Some(step), messages: Vec::new() }
    }
}

/// The executions as the protocol has them.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Micros,
    pub(super) records: HashMap<ExecutionId, Record>,
    journals: HashMap<ExecutionId, Journal>,
    /// The ids of the records in the order of their creation.
    pub(super) order: Vec<ExecutionId>,
    /// The messages in the order of their commits.
    pub(super) messages: Vec<MessageRecord>,
    /// Every message that there ever was.
    pub(super) sent: BTreeSet<MessageId>,
    places: i64,
}

impl World {
    pub(super) fn new() -> Self {
        let now = Micros(1_790_000_000_000_000);
        Self {
            now,
            records: HashMap::new(),
            journals: HashMap::new(),
            order: Vec::new(),
            messages: Vec::new(),
            sent: BTreeSet::new(),
            places: 0,
        }
    }

    pub(super) fn record(&self, id: ExecutionId) -> Option<&Record> {
        self.records.get(&id)
    }

    /// The steps of an execution, in the order of their names.
    pub(super) fn steps(&self, id: ExecutionId) -> Vec<Step> {
        self.journals.get(&id).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    pub(super) fn step(&self, id: ExecutionId, name: &StepName) -> Option<&Step> {
        self.journals.get(&id)?.get(name)
    }

    /// Writes what an operation decided.
    pub(super) fn write(&mut self, id: ExecutionId, Change { record, step, messages }: Change) {
        if self.records.insert(id, record).is_none() {
            self.order.push(id);
        }
        if let Some(step) = step {
            self.journals.entry(id).or_default().insert(step.name.clone(), step);
        }
        for message in messages {
            // Of the same id there is at most one that outlived an earlier life of the execution.
            self.messages.retain(|left| left.id != message.id || protocol::holds_back(left));
            self.places += 1;
            self.sent.insert(message.id);
            let namespace = identity(id).namespace;
            self.messages.push(protocol::send(&message, id, &namespace, self.places, self.now));
        }
    }

    fn has_undelivered(&self, id: ExecutionId) -> bool {
        let mut own = self.messages.iter().filter(|message| message.execution == id);
        own.any(protocol::holds_back)
    }

    /// The executions behind `after` that were created in the last `younger_ms`, in the order of creation.
    pub(super) fn candidates(
        &self,
        after: Option<ExecutionId>,
        younger_ms: Option<u64>,
    ) -> Vec<ExecutionId> {
        let behind = after.and_then(|after| self.order.iter().position(|id| *id == after));
        let since = younger_ms.map_or(Micros(i64::MIN), |ms| self.now.minus_ms(ms));
        let rest = self.order.iter().skip(behind.map_or(0, |behind| behind + 1));
        rest.copied().filter(|id| self.records[id].created_at >= since).collect()
    }

    /// Reaps the lapsed ones among `examined`.
    pub(super) fn reap(&mut self, examined: &[ExecutionId]) -> Vec<(ExecutionId, String, State)> {
        let mut lapsed = Vec::new();
        for id in examined {
            if let Some(reaped) = protocol::reap(&self.records[id], self.now) {
                lapsed.push((*id, identity(*id).handler, reaped.state));
                self.records.insert(*id, reaped);
            }
        }
        lapsed
    }

    /// Deletes the expired ones among `examined`, and sends the abandoned ones to review; how many of each.
    pub(super) fn purge(&mut self, examined: &[ExecutionId]) -> (u64, u64) {
        let (mut deleted, mut reviewed) = (0, 0);
        for id in examined {
            if let Some(abandoned) = protocol::abandoned(&self.records[id], self.now) {
                self.records.insert(*id, abandoned);
                reviewed += 1;
            } else if protocol::expired(&self.records[id], self.now) && !self.has_undelivered(*id) {
                self.records.remove(id);
                self.journals.remove(id);
                self.order.retain(|kept| kept != id);
                deleted += 1;
            }
        }
        (deleted, reviewed)
    }
}

/// The id of an execution; its last byte is its number.
pub(super) fn id(number: Number) -> ExecutionId {
    let mut bytes = *b"random sequence ";
    bytes[15] = number;
    ExecutionId(bytes)
}

pub(super) fn owner(number: u8) -> Owner {
    Owner([number; 16])
}

pub(super) fn namespace(number: u8) -> String {
    format!("namespace {}", number % 2)
}

/// The name of a step. Their order by bytes is another than that of a language, or of a plain concatenation.
pub(super) fn step_name(number: u8) -> StepName {
    let (step, part) = match number {
        0 => ("ship", ""),
        1 => ("ship", "b"),
        2 => ("ship", "B"),
        _ => ("ship\u{e4}", ""),
    };
    StepName { step: step.to_owned(), part: part.to_owned() }
}

/// What the id of an execution is made from.
pub(super) fn identity(id: ExecutionId) -> Identity {
    let number = id.0[15];
    Identity {
        namespace: namespace(number),
        tenant: "acme".to_owned(),
        handler: if number < 2 { "charge" } else { "refund" }.to_owned(),
        key: (number > 0).then(|| format!("charge:{number}")),
    }
}

/// Limits of which no sum of some and ages, which are whole units, is ever nearly another.
pub(super) fn limits(choice: u8) -> Limits {
    let (lease_halves, runtime_halves, crashes_max, retain_quarters) = match choice {
        0 => (3, 5, 1, 13),
        1 => (5, 13, 0, 13),
        2 => (3, 13, 3, 81),
        // A lease that reaches past `max_runtime`.
        _ => (7, 5, 1, 81),
    };
    Limits {
        lease_ms: UNIT_MS / 2 * lease_halves,
        max_runtime_ms: UNIT_MS / 2 * runtime_halves,
        crashes_max,
        retain_ms: UNIT_MS / 4 * retain_quarters,
    }
}

/// A message whose id is made of these numbers.
pub(super) fn message(
    number: [u8; 3],
    SentBy { topic: number_of, ordering_key, is_delayed }: SentBy,
) -> Message {
    let mut id = *b"random message  ";
    id[13..].copy_from_slice(&number);
    Message {
        id: MessageId(id),
        topic: topic(number_of),
        ordering_key: (ordering_key > 0).then(|| format!("customer {ordering_key}")),
        headers: (ordering_key == 2)
            .then(|| ("language".to_owned(), "de".to_owned()))
            .into_iter()
            .collect(),
        body: format!("{number:?}").into_bytes(),
        delay_ms: if is_delayed { UNIT_MS / 2 * 3 } else { 0 },
    }
}

pub(super) fn topic(number: u8) -> String {
    if number == 0 { "receipt" } else { "hook" }.to_owned()
}

/// A relay's claim; none of the owners of executions.
pub(super) fn relay(number: u16) -> Owner {
    let mut owner = [0xEE; 16];
    owner[14..].copy_from_slice(&number.to_be_bytes());
    Owner(owner)
}
