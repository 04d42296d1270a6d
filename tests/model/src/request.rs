//! What is asked of the store, small enough to be compared; and the protocol's requests that it stands for.

use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, DecideTo, DeliveryEnd, DeliveryEndTo, ExecutionId, Identity,
    Limits, Message, MessageClaim, MessageDecision, MessageId, MessageRecord, Micros, Owner,
    Release, ReleaseTo, Renewal, Renewed, SettleTo, Settlement, Step, StepClass, StepFound,
    StepName, StepRecord, StepRecorded, StepStart, StepStarted, StoredResult, TakeOver, TakenOver,
    Target, Token, Written,
};

use crate::config::{Class, Config, Sink};
use crate::time::{BACKOFF_MS, LEASE_MS};

/// A value: the number of the attempt that made it, or one of the following.
pub(crate) type Value = u8;
/// What a person said it is.
pub(crate) const OF_A_PERSON: Value = 250;
/// What the provider answered, who gives the same answer to the same key.
pub(crate) const OF_THE_PROVIDER: Value = 200;
/// Values and owners below are attempts.
pub(crate) const ATTEMPTS_MAX: u8 = 100;

/// An attempt, as its writes say who they are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct By {
    /// Its owner.
    pub(crate) owner: u8,
    /// Its token.
    pub(crate) token: Token,
}

/// What follows a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Gives {
    /// The body returned an error.
    Error,
    /// The body panicked or ran for too long.
    Crash,
    /// Nobody knows whether the effect happened.
    Review,
    /// The step can be asked about only after this many milliseconds.
    Wait(u64),
}

/// What a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Decides {
    /// Run it again.
    Retry,
    /// Run a finished one again.
    Reopen,
    /// It is done.
    Completed,
    /// It is over.
    Failed,
    /// The step's effect happened.
    Happened,
    /// The step's effect did not happen.
    DidNotHappen,
}

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Delivers {
    /// The sink took it.
    Delivered,
    /// It did not.
    Retry,
    /// Nobody knows.
    Ask,
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Claim the execution.
    Claim { owner: u8, payload: u8 },
    /// Take it over on the token that was seen.
    TakeOver { owner: u8, payload: u8, seen: Token, to_review: bool },
    /// Prolong the lease.
    Renew { by: By },
    /// The effect is about to begin.
    Start { by: By, generation: u32, seen: Option<u8> },
    /// The effect happened, with this value, or did not.
    Record { by: By, generation: u32, value: Option<Value> },
    /// The body's outcome.
    Complete { by: By, failed: bool, value: Value },
    /// Give the attempt up.
    Release { by: By, gives: Gives },
    /// A person's decision about what had this token.
    Settle { seen: Token, decides: Decides },
    /// Become the message's deliverer.
    ClaimMessage { owner: u8, again: bool },
    /// How the delivery ended.
    EndDelivery { by: By, delivers: Delivers },
    /// A person's decision about a message.
    DecideMessage { seen: Token, delivered: bool },
    /// What only a wrong completion leaves for later: the message.
    SendLater,
}

/// What the store answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Claimed(Claimed),
    TakenOver(TakenOver),
    Renewed(Renewed),
    Started(StepStarted),
    Recorded(StepRecorded),
    Written(Written),
    Settled,
    Message(Option<MessageRecord>),
    Nothing,
}

pub(crate) const ID: ExecutionId = ExecutionId([1; 16]);
pub(crate) const MESSAGE: MessageId = MessageId([2; 16]);

pub(crate) fn owner(number: u8) -> Owner {
    let mut bytes = [0; 16];
    bytes[0] = number;
    Owner(bytes)
}

pub(crate) fn number(owner: Owner) -> u8 {
    owner.0[0]
}

pub(crate) fn name() -> StepName {
    StepName { step: String::new(), part: String::new() }
}

pub(crate) fn claim(limits: Limits, number: u8, payload: u8) -> Claim {
    let identity = Identity {
        namespace: String::new(),
        tenant: String::new(),
        handler: String::new(),
        key: None,
    };
    let fingerprint = Some(vec![payload]);
    Claim {
        id: ID,
        identity: identity.into(),
        owner: owner(number),
        version: 1,
        limits,
        fingerprint,
        issued_at: None,
    }
}

pub(crate) fn take_over(limits: Limits, number: u8, seen: Token, to_review: bool) -> TakeOver {
    let target = if to_review { Target::Review } else { Target::Run };
    TakeOver { id: ID, seen, owner: owner(number), version: 1, limits, target }
}

pub(crate) fn renewal(by: By) -> Renewal {
    Renewal { id: ID, owner: owner(by.owner), token: by.token }
}

pub(crate) fn class(config: &Config) -> StepClass {
    match config.class {
        Class::Transaction | Class::TransactionStep => StepClass::Transaction,
        Class::Window => StepClass::ProviderWindow,
        Class::Plain => StepClass::Plain,
        Class::AtMostOnce => StepClass::AtMostOnce,
    }
}

pub(crate) fn start(config: &Config, by: By, generation: u32, seen: Option<u8>) -> StepStart {
    StepStart {
        id: ID,
        owner: owner(by.owner),
        token: by.token,
        name: name(),
        class: class(config),
        reconciles: config.reconciles,
        version: 1,
        generation,
        seen: seen.map(owner),
    }
}

pub(crate) fn record(config: &Config, by: By, generation: u32, value: Option<Value>) -> StepRecord {
    let found = value.map_or(StepFound::DidNotHappen, |value| StepFound::Happened(vec![value]));
    StepRecord {
        id: ID,
        owner: owner(by.owner),
        token: by.token,
        name: name(),
        class: class(config),
        version: 1,
        generation,
        found,
        earliest: Micros(0),
    }
}

pub(crate) fn completion(config: &Config, by: By, failed: bool, value: Value) -> Completion {
    let message = Message {
        id: MESSAGE,
        topic: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: Vec::new(),
        delay_ms: 0,
    };
    Completion {
        id: ID,
        owner: owner(by.owner),
        token: by.token,
        failed,
        result: StoredResult::Json(vec![value]),
        messages: config.sink.map(|_| message).into_iter().collect(),
    }
}

pub(crate) fn release(by: By, gives: Gives) -> Release {
    let to = match gives {
        Gives::Error => ReleaseTo::Retry { delay_ms: BACKOFF_MS },
        Gives::Wait(delay_ms) => ReleaseTo::Retry { delay_ms },
        Gives::Crash => ReleaseTo::Crash,
        Gives::Review => ReleaseTo::Review,
    };
    Release { id: ID, owner: owner(by.owner), token: by.token, to, reason: String::new() }
}

pub(crate) fn settlement(seen: Token, decides: Decides) -> Settlement {
    let step = |found| SettleTo::Step { name: name(), found };
    let to = match decides {
        Decides::Retry => SettleTo::Retry,
        Decides::Reopen => SettleTo::Reopen,
        Decides::Completed => SettleTo::Completed(vec![OF_A_PERSON]),
        Decides::Failed => SettleTo::Failed(vec![OF_A_PERSON]),
        Decides::Happened => step(StepFound::Happened(vec![OF_A_PERSON])),
        Decides::DidNotHappen => step(StepFound::DidNotHappen),
    };
    Settlement { id: ID, seen, to, note: String::new() }
}

pub(crate) fn message_claim(sink: Sink, number: u8, again: bool) -> MessageClaim {
    MessageClaim {
        namespace: String::new(),
        topic: String::new(),
        owner: owner(number),
        lease_ms: LEASE_MS,
        at_most_once: sink.at_most_once,
        reconciles: sink.reconciles,
        rows_max: 1,
        since: crate::time::NOW,
        again,
    }
}

pub(crate) fn delivery_end(by: By, delivers: Delivers) -> DeliveryEnd {
    let error = String::new();
    let to = match delivers {
        Delivers::Delivered => DeliveryEndTo::Delivered,
        Delivers::Retry => DeliveryEndTo::Retry { delay_ms: 0, error },
        Delivers::Ask => DeliveryEndTo::Ask { delay_ms: 0, error },
    };
    DeliveryEnd { id: MESSAGE, owner: owner(by.owner), token: by.token, to }
}

pub(crate) fn message_decision(seen: Token, delivered: bool) -> MessageDecision {
    let to = if delivered { DecideTo::Delivered } else { DecideTo::Retry };
    MessageDecision { id: MESSAGE, seen, to, note: String::new() }
}

/// The one value of a result or a step.
pub(crate) fn value_of(json: &[u8]) -> Value {
    json.first().copied().unwrap_or_default()
}

/// The one value of a finished record.
pub(crate) fn result_of(result: Option<&StoredResult>) -> Option<Value> {
    match result {
        Some(StoredResult::Json(json)) => Some(value_of(json)),
        Some(StoredResult::Absent { .. }) | None => None,
    }
}

/// The one value of a step.
pub(crate) fn recorded(step: &Step) -> Option<Value> {
    step.value.as_deref().filter(|_| step.is_recorded()).map(value_of)
}
