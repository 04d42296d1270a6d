//! What each operation of a relay changes, as a function of the message's record and the store's time.
//!
//! As for executions, every function takes the record as it is and returns the record to write, if anything is to
//! be written. The guard of a relay's own writes is: same owner, same token, state sending.

use super::{
    DecideTo, DeliveryEnd, DeliveryEndTo, ExecutionId, Message, MessageClaim, MessageDecision,
    MessageRecord, MessageRenewal, MessageState, Micros, Owner, Renewed, Settled, Token, Written,
};

/// Last error of a message whose relay's lease lapsed, and that must not be delivered again blindly.
pub const REASON_DELIVERY_LAPSED: &str = "the relay's lease lapsed during a delivery that runs at most once, and nobody knows whether it happened";

/// What is stored of a message that is committed at `now` with its execution's completion, also in the place of one of
/// the same id that was delivered before the execution was purged.
#[must_use]
pub fn send(
    message: &Message,
    execution: ExecutionId,
    namespace: &str,
    seq: i64,
    now: Micros,
) -> MessageRecord {
    MessageRecord {
        id: message.id,
        execution,
        namespace: namespace.to_owned(),
        seq,
        topic: message.topic.clone(),
        ordering_key: message.ordering_key.clone(),
        headers: message.headers.clone(),
        body: message.body.clone(),
        state: MessageState::Pending,
        attempts: 0,
        at_most_once: false,
        asks: false,
        owner: Owner([0; 16]),
        token: Token(0),
        due_at: now.plus_ms(message.delay_ms),
        last_error: None,
        created_at: now,
        done_at: None,
    }
}

/// Whether an earlier message of one ordering key holds the later ones back: until it is delivered.
#[must_use]
pub fn holds_back(earlier: &MessageRecord) -> bool {
    earlier.state != MessageState::Delivered
}

/// Claims a message that is due, or whose relay's lease lapsed; unless an earlier one of its ordering key
/// [holds it back](holds_back). The record to write is sending, or in review where the delivery that lapsed must not
/// be repeated and nobody can be asked.
#[must_use]
pub fn claim_message(
    record: &MessageRecord,
    held_back: bool,
    claim: &MessageClaim,
    now: Micros,
) -> Option<MessageRecord> {
    let asked_for = record.namespace == claim.namespace && record.topic == claim.topic;
    let lapsed = record.state == MessageState::Sending && record.due_at < now;
    let due = record.state == MessageState::Pending && record.due_at <= now;
    if !asked_for || held_back || !(lapsed || due) {
        return None;
    }
    let asks = record.asks || lapsed && (record.at_most_once || claim.at_most_once);
    if asks && !claim.reconciles {
        let reason = REASON_DELIVERY_LAPSED.to_owned();
        let last_error = if lapsed { Some(reason) } else { record.last_error.clone() };
        return Some(MessageRecord {
            state: MessageState::Review,
            asks,
            last_error,
            ..record.clone()
        });
    }
    Some(MessageRecord {
        state: MessageState::Sending,
        attempts: record.attempts.saturating_add(1),
        at_most_once: claim.at_most_once,
        asks,
        owner: claim.owner,
        token: record.token.next(now),
        due_at: now.plus_ms(claim.lease_ms),
        ..record.clone()
    })
}

/// Whether this very claim took the message before, and its answer was lost.
#[must_use]
pub fn claimed_before(record: &MessageRecord, claim: &MessageClaim) -> bool {
    claim.again && guard(record, claim.owner, record.token)
}

fn guard(record: &MessageRecord, owner: Owner, token: Token) -> bool {
    record.owner == owner && record.token == token && record.state == MessageState::Sending
}

/// Prolongs a relay's lease.
#[must_use]
pub fn renew_message(
    record: Option<&MessageRecord>,
    request: &MessageRenewal,
    now: Micros,
) -> (Option<MessageRecord>, Renewed) {
    match record.filter(|record| guard(record, request.owner, request.token)) {
        Some(record) => {
            let due_at = now.plus_ms(request.lease_ms);
            (Some(MessageRecord { due_at, ..record.clone() }), Renewed::Renewed)
        }
        None => (None, Renewed::Lost),
    }
}

/// Writes how a delivery ended. That it was delivered is also noted of a message that went to review meanwhile; what
/// was written by this very claim before is recognised.
#[must_use]
pub fn end_delivery(
    record: Option<&MessageRecord>,
    request: &DeliveryEnd,
    now: Micros,
) -> (Option<MessageRecord>, Written) {
    let mine =
        |record: &&MessageRecord| record.owner == request.owner && record.token == request.token;
    let Some(record) = record.filter(mine) else {
        return (None, Written::Fenced);
    };
    let delivered = request.to == DeliveryEndTo::Delivered;
    match record.state {
        MessageState::Sending => {}
        MessageState::Review if delivered => {}
        MessageState::Pending
        | MessageState::Delivered
        | MessageState::Dead
        | MessageState::Review => return (None, Written::Done),
    }
    let failed = |state: MessageState, error: &str| MessageRecord {
        state,
        last_error: Some(error.to_owned()),
        ..record.clone()
    };
    let again = |delay_ms: u64, error: &str| MessageRecord {
        due_at: now.plus_ms(delay_ms),
        asks: false,
        ..failed(MessageState::Pending, error)
    };
    let next = match &request.to {
        DeliveryEndTo::Delivered => {
            MessageRecord { state: MessageState::Delivered, done_at: Some(now), ..record.clone() }
        }
        DeliveryEndTo::Retry { delay_ms, error } => again(*delay_ms, error),
        DeliveryEndTo::Ask { delay_ms, error } => {
            MessageRecord { asks: true, ..again(*delay_ms, error) }
        }
        DeliveryEndTo::Dead { error } => failed(MessageState::Dead, error),
        DeliveryEndTo::Review { error } => failed(MessageState::Review, error),
        DeliveryEndTo::Released => MessageRecord {
            state: MessageState::Pending,
            attempts: record.attempts.saturating_sub(1),
            due_at: now,
            ..record.clone()
        },
    };
    (Some(next), Written::Done)
}

/// Writes a person's decision about a message that is dead or in review.
#[must_use]
pub fn decide_message(
    record: Option<&MessageRecord>,
    request: &MessageDecision,
    now: Micros,
) -> (Option<MessageRecord>, Settled) {
    let open = |record: &&MessageRecord| {
        matches!(record.state, MessageState::Dead | MessageState::Review)
            && record.token == request.seen
    };
    let Some(record) = record.filter(open) else {
        return (None, Settled::Outrun);
    };
    let decided = MessageRecord {
        token: record.token.next(now),
        asks: false,
        last_error: Some(request.note.clone()),
        ..record.clone()
    };
    let next = match request.to {
        DecideTo::Retry => MessageRecord {
            state: MessageState::Pending,
            attempts: 0,
            at_most_once: false,
            due_at: now,
            ..decided
        },
        DecideTo::Delivered => {
            MessageRecord { state: MessageState::Delivered, done_at: Some(now), ..decided }
        }
    };
    (Some(next), Settled::Done)
}

/// Whether a delivered message is past its retention, which is `retain_ms`.
#[must_use]
pub fn message_expired(record: &MessageRecord, retain_ms: u64, now: Micros) -> bool {
    let done_at = record.done_at.filter(|_| record.state == MessageState::Delivered);
    done_at.is_some_and(|done_at| done_at.plus_ms(retain_ms) < now)
}

#[cfg(test)]
mod tests;
