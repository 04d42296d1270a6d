//! What a sequence asks about messages.

use idempotent_runtime::protocol::{DecideTo, MessageState};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{
    Acks, By, ClaimBy, CompleteBy, Decided, EXECUTIONS, Operation, OwnerOf, ReleaseBy, ResultOf,
    SettleBy, To, TokenOf, acks, batch, by, claim, complete, number, owner_of, take_over, token_of,
};

/// A message of a completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentBy {
    /// Of two.
    pub(crate) topic: u8,
    /// None, or one of two.
    pub(crate) ordering_key: u8,
    pub(crate) is_delayed: bool,
}

/// One call about messages.
#[derive(Clone, Debug)]
pub(crate) enum OutboxOperation {
    Claim(ClaimMessagesBy),
    /// An earlier claim, asked for once more.
    Again(u8),
    Renew(Vec<MessageBy>),
    End {
        batch: Vec<EndBy>,
        acks: Acks,
    },
    Decide(Vec<DecideBy>),
    List {
        namespace: u8,
        topic: Option<u8>,
        state: MessageState,
        after: Option<u8>,
        rows_max: u32,
    },
    Count {
        namespace: u8,
    },
    Purge {
        units: u64,
        rows_max: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimMessagesBy {
    pub(crate) namespace: u8,
    pub(crate) topic: u8,
    pub(crate) at_most_once: bool,
    pub(crate) reconciles: bool,
    pub(crate) rows_max: u32,
    pub(crate) acks: Acks,
}

/// A message, by its place among those that there are, and a relay, as its writes name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageBy {
    pub(crate) place: u8,
    pub(crate) owner: OwnerOf,
    pub(crate) token: TokenOf,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct EndBy {
    pub(crate) by: MessageBy,
    pub(crate) to: EndOf,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum EndOf {
    Delivered,
    Retry,
    /// After one and a half units.
    RetryLater,
    Ask,
    Dead,
    Review,
    Released,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DecideBy {
    pub(crate) place: u8,
    pub(crate) seen: TokenOf,
    pub(crate) to: DecideTo,
}

/// Any operation on messages, and those on executions that send them; now and then an execution's life and its next.
pub(crate) fn of_the_outbox() -> impl Strategy<Value = Vec<Operation>> {
    prop_oneof![52 => one().prop_map(|one| vec![one]), 1 => two_lives()]
}

fn one() -> impl Strategy<Value = Operation> {
    let rows_max = 1..=u32::from(EXECUTIONS);
    prop_oneof![
        1 => Just(Operation::Nothing),
        4 => (1_u64..=4).prop_map(|units| Operation::Age { units }),
        1 => Just(Operation::Age { units: 25 }),
        5 => batch(claim()).prop_map(Operation::Claim),
        2 => batch(take_over()).prop_map(Operation::TakeOver),
        8 => batch(sending()).prop_map(Operation::Complete),
        1 => by().prop_map(|by| Operation::Release(vec![ReleaseBy { by, to: To::Retry }])),
        2 => (number(), token_of()).prop_map(|(execution, seen)| {
            Operation::Settle(vec![SettleBy { execution, seen, to: Decided::Reopen }])
        }),
        2 => (option::of(number()), rows_max)
            .prop_map(|(after, rows_max)| Operation::Purge { after, rows_max }),
        24 => on_messages().prop_map(Operation::Outbox),
    ]
}

fn sending() -> impl Strategy<Value = CompleteBy> + Clone {
    (complete(), vec(sent(), 0..4)).prop_map(|(complete, sent)| CompleteBy { sent, ..complete })
}

fn sent() -> impl Strategy<Value = SentBy> + Clone {
    (topic(), 0..3_u8, prop::bool::weighted(0.2))
        .prop_map(|(topic, ordering_key, is_delayed)| SentBy { topic, ordering_key, is_delayed })
}

/// An execution sends what is delivered and outlives it, and sends again; one operation alone hardly ever gets so far.
fn two_lives() -> impl Strategy<Value = Vec<Operation>> {
    let first = vec(sent(), 1..3).prop_map(|mut sent| {
        for one in &mut sent {
            (one.topic, one.is_delayed) = (0, false);
        }
        sent
    });
    let parts = (number(), first, vec(sent(), 1..3), prop::bool::ANY);
    parts.prop_map(|(execution, first, second, at_most_once)| {
        let mut operations = Vec::from(life(execution, first));
        for _ in 0..2 {
            operations.extend(delivery(execution, at_most_once).map(Operation::Outbox));
        }
        let purge = Operation::Purge { after: None, rows_max: u32::from(EXECUTIONS) };
        operations.extend([Operation::Age { units: 25 }, purge]);
        operations.extend(life(execution, second));
        operations
    })
}

/// An execution that is claimed, if there is none, and completed, if it is running.
fn life(execution: u8, sent: Vec<SentBy>) -> [Operation; 2] {
    let claim = ClaimBy { execution, owner: 0, limits: 0, issued: None };
    let by = By { execution, owner: OwnerOf::Holder, token: TokenOf::Held };
    let complete = CompleteBy { by, failed: false, result: ResultOf::Empty, sent };
    [Operation::Claim(vec![claim]), Operation::Complete(vec![complete])]
}

/// A relay delivers all that is due of the namespace of an execution, but what it is to keep in order.
fn delivery(execution: u8, at_most_once: bool) -> [OutboxOperation; 2] {
    let claim = ClaimMessagesBy {
        namespace: execution,
        topic: 0,
        at_most_once,
        reconciles: true,
        rows_max: 50,
        acks: Acks::Heard,
    };
    let by = |place| MessageBy { place, owner: OwnerOf::Holder, token: TokenOf::Held };
    let ends = (0..50).map(|place| EndBy { by: by(place), to: EndOf::Delivered });
    let end = OutboxOperation::End { batch: ends.collect(), acks: Acks::Heard };
    [OutboxOperation::Claim(claim), end]
}

fn on_messages() -> impl Strategy<Value = OutboxOperation> {
    let rows_max = 1..=6_u32;
    prop_oneof![
        6 => claim_messages().prop_map(OutboxOperation::Claim),
        1 => (0..4_u8).prop_map(OutboxOperation::Again),
        2 => batch(message()).prop_map(OutboxOperation::Renew),
        8 => (batch(end()), acks()).prop_map(|(batch, acks)| OutboxOperation::End { batch, acks }),
        4 => batch(decide()).prop_map(OutboxOperation::Decide),
        2 => (0..2_u8, option::of(topic()), state(), option::of(place()), rows_max.clone())
            .prop_map(|(namespace, topic, state, after, rows_max)| OutboxOperation::List {
                namespace,
                topic,
                state,
                after,
                rows_max,
            }),
        1 => (0..2_u8).prop_map(|namespace| OutboxOperation::Count { namespace }),
        2 => (0..4_u64, rows_max)
            .prop_map(|(units, rows_max)| OutboxOperation::Purge { units, rows_max }),
    ]
}

fn topic() -> impl Strategy<Value = u8> + Clone {
    prop_oneof![3 => Just(0), 1 => Just(1)]
}

/// Mostly one of the first, which others wait for.
fn place() -> impl Strategy<Value = u8> + Clone {
    prop_oneof![2 => 0..3_u8, 1 => 0..16_u8]
}

fn namespace() -> impl Strategy<Value = u8> + Clone {
    prop_oneof![3 => Just(0), 1 => Just(1)]
}

fn state() -> impl Strategy<Value = MessageState> {
    prop_oneof![
        Just(MessageState::Pending),
        Just(MessageState::Sending),
        Just(MessageState::Delivered),
        Just(MessageState::Dead),
        Just(MessageState::Review),
    ]
}

fn claim_messages() -> impl Strategy<Value = ClaimMessagesBy> {
    // Now and then more than there are.
    let rows_max = prop_oneof![2 => 1..=3_u32, 1 => Just(50)];
    (namespace(), topic(), prop::bool::ANY, prop::bool::ANY, rows_max, acks()).prop_map(
        |(namespace, topic, at_most_once, reconciles, rows_max, acks)| ClaimMessagesBy {
            namespace,
            topic,
            at_most_once,
            reconciles,
            rows_max,
            acks,
        },
    )
}

fn message() -> impl Strategy<Value = MessageBy> + Clone {
    (place(), owner_of(), token_of()).prop_map(|(place, owner, token)| MessageBy {
        place,
        owner,
        token,
    })
}

fn end() -> impl Strategy<Value = EndBy> + Clone {
    let to = prop_oneof![
        3 => Just(EndOf::Delivered),
        1 => Just(EndOf::Retry),
        1 => Just(EndOf::RetryLater),
        1 => Just(EndOf::Ask),
        1 => Just(EndOf::Dead),
        1 => Just(EndOf::Review),
        1 => Just(EndOf::Released),
    ];
    (message(), to).prop_map(|(by, to)| EndBy { by, to })
}

fn decide() -> impl Strategy<Value = DecideBy> + Clone {
    let to = prop_oneof![2 => Just(DecideTo::Retry), 1 => Just(DecideTo::Delivered)];
    (place(), token_of(), to).prop_map(|(place, seen, to)| DecideBy { place, seen, to })
}
