//! What is asked of the store and what it answers, as values: they are delayed, repeated, kept and shown.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, DeliveryEnd, ExecutionId, MessageClaim, MessageDecision, MessageId,
    MessageListing, MessageRecord, MessageRenewal, MessagesClaimed, Release, Renewal, Renewed,
    Settled, Settlement, Step, StepRecord, StepRecorded, StepStart, StepStarted, TakeOver,
    TakenOver, TopicCount, Written,
};
use idempotent_runtime::store::{
    Cursor, Execution, Memory, Messages as _, Purged, Reaped, Store as _, StoreError,
    StoreErrorKind,
};

/// A call of the store.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Claim(Vec<Claim>),
    TakeOver(Vec<TakeOver>),
    Renew(Vec<Renewal>),
    Complete(Vec<Completion>),
    Release(Vec<Release>),
    Settle(Vec<Settlement>),
    StartSteps(Vec<StepStart>),
    RecordSteps(Vec<StepRecord>),
    Journals(Vec<ExecutionId>),
    Read(Vec<ExecutionId>),
    ListReview(String, Option<Cursor>, u32),
    Reap(Option<Cursor>, Option<u64>, u32),
    Purge(Option<Cursor>, u32),
    ClaimMessages(Vec<MessageClaim>),
    RenewMessages(Vec<MessageRenewal>),
    EndDeliveries(Vec<DeliveryEnd>),
    DecideMessages(Vec<MessageDecision>),
    ReadMessages(Vec<MessageId>),
    ListMessages(MessageListing),
    CountMessages(String),
    PurgeMessages(u64, u32),
}

/// The answer to one.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Claimed(Vec<Claimed>),
    TakenOver(Vec<TakenOver>),
    Renewed(Vec<Renewed>),
    Written(Vec<Written>),
    Settled(Vec<Settled>),
    Started(Vec<StepStarted>),
    Recorded(Vec<StepRecorded>),
    Journals(Vec<Vec<Step>>),
    Read(Vec<Option<Execution>>),
    Review(Vec<Execution>),
    Reaped(Reaped),
    Purged(Purged),
    MessagesClaimed(Vec<MessagesClaimed>),
    ReadMessages(Vec<Option<MessageRecord>>),
    Messages(Vec<MessageRecord>),
    Counts(Vec<TopicCount>),
    Number(u64),
}

impl Request {
    /// Has the store without a database do it, which answers at once.
    pub(crate) fn apply(&self, store: &Memory) -> Result<Answer, StoreError> {
        Ok(match self {
            Self::Claim(it) => Answer::Claimed(at_once(store.claim(it))?),
            Self::TakeOver(it) => Answer::TakenOver(at_once(store.take_over(it))?),
            Self::Renew(it) => Answer::Renewed(at_once(store.renew(it))?),
            Self::Complete(it) => Answer::Written(at_once(store.complete(it))?),
            Self::Release(it) => Answer::Written(at_once(store.release(it))?),
            Self::Settle(it) => Answer::Settled(at_once(store.settle(it))?),
            Self::StartSteps(it) => Answer::Started(at_once(store.start_steps(it))?),
            Self::RecordSteps(it) => Answer::Recorded(at_once(store.record_steps(it))?),
            Self::Journals(it) => Answer::Journals(at_once(store.journals(it))?),
            Self::Read(it) => Answer::Read(at_once(store.read(it))?),
            Self::ListReview(namespace, after, rows_max) => {
                Answer::Review(at_once(store.list_review(namespace, *after, *rows_max))?)
            }
            Self::Reap(after, younger_than_ms, rows_max) => {
                Answer::Reaped(at_once(store.reap(*after, *younger_than_ms, *rows_max))?)
            }
            Self::Purge(after, rows_max) => {
                Answer::Purged(at_once(store.purge(*after, *rows_max))?)
            }
            Self::ClaimMessages(it) => Answer::MessagesClaimed(at_once(store.claim_messages(it))?),
            Self::RenewMessages(it) => Answer::Renewed(at_once(store.renew_messages(it))?),
            Self::EndDeliveries(it) => Answer::Written(at_once(store.end_deliveries(it))?),
            Self::DecideMessages(it) => Answer::Settled(at_once(store.decide_messages(it))?),
            Self::ReadMessages(it) => Answer::ReadMessages(at_once(store.read_messages(it))?),
            Self::ListMessages(it) => Answer::Messages(at_once(store.list_messages(it))?),
            Self::CountMessages(it) => Answer::Counts(at_once(store.count_messages(it))?),
            Self::PurgeMessages(retain_ms, rows_max) => {
                Answer::Number(at_once(store.purge_messages(*retain_ms, *rows_max))?)
            }
        })
    }

    /// Whether it may write.
    pub(crate) fn writes(&self) -> bool {
        !matches!(
            self,
            Self::Journals(_)
                | Self::Read(_)
                | Self::ListReview(..)
                | Self::ReadMessages(_)
                | Self::ListMessages(_)
                | Self::CountMessages(_)
        )
    }

    /// The executions that it names.
    pub(crate) fn executions(&self) -> Vec<ExecutionId> {
        match self {
            Self::Claim(it) => it.iter().map(|it| it.id).collect(),
            Self::TakeOver(it) => it.iter().map(|it| it.id).collect(),
            Self::Renew(it) => it.iter().map(|it| it.id).collect(),
            Self::Complete(it) => it.iter().map(|it| it.id).collect(),
            Self::Release(it) => it.iter().map(|it| it.id).collect(),
            Self::Settle(it) => it.iter().map(|it| it.id).collect(),
            Self::StartSteps(it) => it.iter().map(|it| it.id).collect(),
            Self::RecordSteps(it) => it.iter().map(|it| it.id).collect(),
            Self::Journals(it) | Self::Read(it) => it.clone(),
            Self::ListReview(..)
            | Self::Reap(..)
            | Self::Purge(..)
            | Self::ClaimMessages(_)
            | Self::RenewMessages(_)
            | Self::EndDeliveries(_)
            | Self::DecideMessages(_)
            | Self::ReadMessages(_)
            | Self::ListMessages(_)
            | Self::CountMessages(_)
            | Self::PurgeMessages(..) => Vec::new(),
        }
    }
}

impl Answer {
    /// What it says that is worth counting.
    pub(crate) fn outcomes(&self) -> Vec<&'static str> {
        let count = |what, times| vec![what; times];
        match self {
            Self::TakenOver(it) => it.iter().filter_map(took_over).collect(),
            Self::Renewed(it) => {
                count("lease lost", it.iter().filter(|it| **it == Renewed::Lost).count())
            }
            Self::Written(it) => {
                count("write fenced", it.iter().filter(|it| **it == Written::Fenced).count())
            }
            Self::Started(it) => {
                count("start fenced", it.iter().filter(|it| **it == StepStarted::Fenced).count())
            }
            Self::Recorded(it) => {
                count("record fenced", it.iter().filter(|it| **it == StepRecorded::Fenced).count())
            }
            Self::Reaped(it) => count("reaped", it.lapsed.len()),
            Self::Purged(it) => count("purged", usize::try_from(it.deleted).unwrap_or(0)),
            Self::MessagesClaimed(it) => {
                count("message to review", it.iter().map(|it| it.reviewed.len()).sum())
            }
            Self::Settled(it) => {
                count("settled", it.iter().filter(|it| **it == Settled::Done).count())
            }
            Self::Claimed(_)
            | Self::Journals(_)
            | Self::Read(_)
            | Self::Review(_)
            | Self::ReadMessages(_)
            | Self::Messages(_)
            | Self::Counts(_)
            | Self::Number(_) => Vec::new(),
        }
    }
}

fn took_over(taken: &TakenOver) -> Option<&'static str> {
    match taken {
        TakenOver::Granted { .. } => Some("taken over"),
        TakenOver::Reviewed => Some("taken to review"),
        TakenOver::Outrun => None,
    }
}

/// What a future yields that does not wait.
pub(crate) fn at_once<A>(
    call: impl Future<Output = Result<A, StoreError>>,
) -> Result<A, StoreError> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(StoreError::new(StoreErrorKind::Other, "the memory store waits")),
    }
}
