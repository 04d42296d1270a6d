//! What a random sequence is made of. Executions, owners and tokens are chosen relative to what the model holds
//! when the operation is run, so that a shorter sequence is one, too.

mod messages;

use idempotent_runtime::protocol::StepClass;
use proptest::collection::vec;
use proptest::prelude::*;

pub(super) use messages::{
    ClaimMessagesBy, DecideBy, EndBy, EndOf, MessageBy, OutboxOperation, SentBy, of_the_outbox,
};

/// Executions that a sequence plays with.
pub(super) const EXECUTIONS: u8 = 5;
/// Owners that a sequence plays with.
pub(super) const OWNERS: u8 = 4;

/// Steps that each execution plays with.
pub(super) const STEPS: u8 = 4;

/// An execution by its number, below [`EXECUTIONS`].
pub(super) type Number = u8;

/// One call to a store, or time that passes.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// What others shrink to.
    Nothing,
    Age {
        units: u64,
    },
    Claim(Vec<ClaimBy>),
    TakeOver(Vec<TakeOverBy>),
    Renew(Vec<By>),
    Complete(Vec<CompleteBy>),
    Release(Vec<ReleaseBy>),
    Settle(Vec<SettleBy>),
    Start {
        batch: Vec<StepBy>,
        acks: Acks,
    },
    Record {
        batch: Vec<StepBy>,
        acks: Acks,
    },
    Read(Vec<Number>),
    ListReview {
        namespace: u8,
        after: Option<Number>,
        rows_max: u32,
    },
    Reap {
        after: Option<Number>,
        younger: Option<u64>,
        rows_max: u32,
    },
    Purge {
        after: Option<Number>,
        rows_max: u32,
    },
    Outbox(OutboxOperation),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimBy {
    pub(super) execution: Number,
    pub(super) owner: u8,
    pub(super) limits: u8,
    /// How many units ago the operation was issued.
    pub(super) issued: Option<u64>,
}

/// An attempt, as its writes name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct By {
    pub(super) execution: Number,
    pub(super) owner: OwnerOf,
    pub(super) token: TokenOf,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OwnerOf {
    /// The one that holds the execution.
    Holder,
    Another(u8),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TokenOf {
    /// The execution's token.
    Held,
    /// One that it had before.
    Earlier(u8),
    /// One that nobody ever had.
    Unheard,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TakeOverBy {
    pub(super) execution: Number,
    pub(super) seen: TokenOf,
    pub(super) owner: u8,
    pub(super) limits: u8,
    pub(super) to_review: bool,
}

#[derive(Clone, Debug)]
pub(super) struct CompleteBy {
    pub(super) by: By,
    pub(super) failed: bool,
    pub(super) result: ResultOf,
    pub(super) sent: Vec<SentBy>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ResultOf {
    Json(u8),
    Empty,
    Absent,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ReleaseBy {
    pub(super) by: By,
    pub(super) to: To,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum To {
    Retry,
    /// After one and a half units.
    RetryLater,
    Crash,
    Review,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SettleBy {
    pub(super) execution: Number,
    pub(super) seen: TokenOf,
    pub(super) to: Decided,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Decided {
    Retry,
    Reopen,
    Completed,
    Failed,
    /// The step of that number.
    Happened(u8),
    DidNotHappen(u8),
}

/// A write to the journal; of a record, whether the step reconciles is not asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepBy {
    pub(super) by: By,
    /// Below [`STEPS`].
    pub(super) step: u8,
    pub(super) class: StepClass,
    pub(super) reconciles: bool,
    pub(super) generation: GenerationOf,
    pub(super) seen: SeenOf,
    /// Of a record, every eighth says that it did not happen.
    pub(super) value: u8,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum GenerationOf {
    /// The entry's, or of a step without one the execution's.
    Held,
    Next,
    Earlier,
}

/// Whose entry a start goes on with.
#[derive(Clone, Copy, Debug)]
pub(super) enum SeenOf {
    /// The entry's owner, if there is one.
    Held,
    Nobody,
    Another(u8),
}

/// Whether a batch is sent again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Acks {
    Heard,
    /// The first time, nobody heard the answers.
    Lost,
}

/// Any operation on executions, those that bring one further more often than others.
pub(super) fn on_executions() -> impl Strategy<Value = Operation> {
    let rows_max = 1..=u32::from(EXECUTIONS);
    prop_oneof![
        1 => Just(Operation::Nothing),
        3 => (1_u64..=4).prop_map(|units| Operation::Age { units }),
        1 => Just(Operation::Age { units: 25 }),
        5 => batch(claim()).prop_map(Operation::Claim),
        6 => batch(take_over()).prop_map(Operation::TakeOver),
        3 => batch(by()).prop_map(Operation::Renew),
        4 => batch(complete()).prop_map(Operation::Complete),
        5 => batch(release()).prop_map(Operation::Release),
        4 => batch(settle()).prop_map(Operation::Settle),
        6 => (batch(step()), acks()).prop_map(|(batch, acks)| Operation::Start { batch, acks }),
        4 => (batch(step()), acks()).prop_map(|(batch, acks)| Operation::Record { batch, acks }),
        1 => batch(number()).prop_map(Operation::Read),
        2 => (0..2_u8, proptest::option::of(number()), rows_max.clone()).prop_map(
            |(namespace, after, rows_max)| Operation::ListReview { namespace, after, rows_max }
        ),
        2 => (proptest::option::of(number()), proptest::option::of(0_u64..8), rows_max.clone())
            .prop_map(|(after, younger, rows_max)| Operation::Reap { after, younger, rows_max }),
        2 => (proptest::option::of(number()), rows_max)
            .prop_map(|(after, rows_max)| Operation::Purge { after, rows_max }),
    ]
}

/// Mostly one request, sometimes up to four.
fn batch<T: std::fmt::Debug + Clone>(
    request: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Vec<T>> {
    prop_oneof![3 => vec(request.clone(), 1), 1 => vec(request, 2..=4)]
}

fn number() -> impl Strategy<Value = Number> + Clone {
    0..EXECUTIONS
}

fn owner_of() -> impl Strategy<Value = OwnerOf> + Clone {
    prop_oneof![5 => Just(OwnerOf::Holder), 1 => (0..OWNERS).prop_map(OwnerOf::Another)]
}

fn token_of() -> impl Strategy<Value = TokenOf> + Clone {
    prop_oneof![
        8 => Just(TokenOf::Held),
        1 => (0_u8..4).prop_map(TokenOf::Earlier),
        1 => Just(TokenOf::Unheard),
    ]
}

fn by() -> impl Strategy<Value = By> + Clone {
    (number(), owner_of(), token_of()).prop_map(|(execution, owner, token)| By {
        execution,
        owner,
        token,
    })
}

fn claim() -> impl Strategy<Value = ClaimBy> + Clone {
    let issued = prop_oneof![3 => Just(None), 1 => (0_u64..30).prop_map(Some)];
    (number(), 0..OWNERS, 0..4_u8, issued).prop_map(|(execution, owner, limits, issued)| ClaimBy {
        execution,
        owner,
        limits,
        issued,
    })
}

fn take_over() -> impl Strategy<Value = TakeOverBy> + Clone {
    (number(), token_of(), 0..OWNERS, 0..4_u8, prop::bool::weighted(0.2)).prop_map(
        |(execution, seen, owner, limits, to_review)| TakeOverBy {
            execution,
            seen,
            owner,
            limits,
            to_review,
        },
    )
}

fn complete() -> impl Strategy<Value = CompleteBy> + Clone {
    let result = prop_oneof![
        4 => any_byte().prop_map(ResultOf::Json),
        1 => Just(ResultOf::Empty),
        1 => Just(ResultOf::Absent),
    ];
    (by(), prop::bool::weighted(0.3), result).prop_map(|(by, failed, result)| CompleteBy {
        by,
        failed,
        result,
        sent: Vec::new(),
    })
}

fn any_byte() -> impl Strategy<Value = u8> + Clone {
    prop::num::u8::ANY
}

fn release() -> impl Strategy<Value = ReleaseBy> + Clone {
    let to = prop_oneof![Just(To::Retry), Just(To::RetryLater), Just(To::Crash), Just(To::Review)];
    (by(), to).prop_map(|(by, to)| ReleaseBy { by, to })
}

fn settle() -> impl Strategy<Value = SettleBy> + Clone {
    let to = prop_oneof![
        2 => Just(Decided::Retry),
        1 => Just(Decided::Completed),
        1 => Just(Decided::Failed),
        1 => Just(Decided::Reopen),
        2 => step_number().prop_map(Decided::Happened),
        2 => step_number().prop_map(Decided::DidNotHappen),
    ];
    (number(), token_of(), to).prop_map(|(execution, seen, to)| SettleBy { execution, seen, to })
}

fn acks() -> impl Strategy<Value = Acks> {
    prop_oneof![4 => Just(Acks::Heard), 1 => Just(Acks::Lost)]
}

/// Mostly the first, so that a sequence comes back to it.
fn step_number() -> impl Strategy<Value = u8> + Clone {
    prop_oneof![3 => Just(0), 1 => 0..STEPS]
}

fn step() -> impl Strategy<Value = StepBy> + Clone {
    let class = prop_oneof![
        1 => Just(StepClass::Plain),
        1 => Just(StepClass::Transaction),
        2 => Just(StepClass::ProviderWindow),
        4 => Just(StepClass::AtMostOnce),
    ];
    let generation = prop_oneof![
        6 => Just(GenerationOf::Held),
        1 => Just(GenerationOf::Next),
        1 => Just(GenerationOf::Earlier),
    ];
    let seen = prop_oneof![
        6 => Just(SeenOf::Held),
        1 => Just(SeenOf::Nobody),
        1 => (0..OWNERS).prop_map(SeenOf::Another),
    ];
    (by(), step_number(), class, prop::bool::ANY, generation, seen, any_byte()).prop_map(
        |(by, step, class, reconciles, generation, seen, value)| StepBy {
            by,
            step,
            class,
            reconciles,
            generation,
            seen,
            value,
        },
    )
}
