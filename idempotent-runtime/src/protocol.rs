//! The protocol itself, pure: what a claim finds, what is decided, what a write changes.
//!
//! Functions of (record, event, the store's time); no I/O, no clock, no store. The `memory` store runs them
//! as they are, the SQL stores guard and write what they decide, and random sequences of operations compare
//! the two.

mod claim;
mod delivery;
mod fingerprint;
mod map;
mod message;
mod record;
mod request;
mod step;
mod token;
mod transition;

pub use claim::{Decision, Seen, decide};
pub use delivery::{
    REASON_DELIVERY_LAPSED, claim_message, claimed_before, decide_message, end_delivery,
    holds_back, message_expired, renew_message, send,
};
pub(crate) use fingerprint::{Comparison, Entry, compare};
pub(crate) use map::IdMap;
#[cfg(feature = "testing")]
pub(crate) use map::seed_maps;
pub use message::{
    DecideTo, DeliveryEnd, DeliveryEndTo, Message, MessageClaim, MessageDecision, MessageId,
    MessageListing, MessageRecord, MessageRenewal, MessageState, MessagesClaimed, TopicCount,
};
pub use record::{
    ExecutionId, Identity, Limits, Micros, Owner, Record, ResultFormat, State, StoredResult,
};
pub use request::{
    Claim, Claimed, Completion, Granted, Release, ReleaseTo, Renewal, Renewed, SettleTo, Settled,
    Settlement, StepFound, TakeOver, TakenOver, Target, Written,
};
pub use step::{
    Step, StepClass, StepName, StepRecord, StepRecorded, StepStart, StepStarted, StepState,
    StepWrite, record_step, start_step,
};
pub use token::Token;
pub use transition::{
    REASON_ABANDONED, REASON_BLIND, REASON_CRASHES, REASON_LAPSED, abandoned, claim, complete,
    expired, reap, release, renew, settle, settle_step, take_over,
};
