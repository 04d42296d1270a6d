//! Broken rules of the outbox.

use idempotent_runtime::protocol::{
    self, DecideTo, DeliveryEndTo, MessageRecord, MessageState, Renewed, Written,
};

use super::{Mix, Rules, broken, differs};

fn as_sending(record: Option<&MessageRecord>) -> Option<MessageRecord> {
    record.map(|record| MessageRecord { state: MessageState::Sending, ..record.clone() })
}

mutants! {
    outbox failures_send { sent: |completion| &completion.messages }
    outbox completions_send_nothing { sent: |_| &[] }
    outbox what_is_delayed_is_claimed { claim_message: |message, held, claim, now| {
        let due = MessageRecord { due_at: message.due_at.min(now), ..message.clone() };
        let due = if message.state == MessageState::Pending { &due } else { message };
        protocol::claim_message(due, held, claim, now)
    } }
    outbox live_leases_are_claimed { claim_message: |message, held, claim, now| {
        let lapsed = MessageRecord { due_at: now.minus_ms(1), ..message.clone() };
        let lapsed = if message.state == MessageState::Sending { &lapsed } else { message };
        protocol::claim_message(lapsed, held, claim, now)
    } }
    outbox lapsed_leases_are_left { claim_message: |message, held, claim, now| {
        let pending = message.state == MessageState::Pending;
        pending.then(|| protocol::claim_message(message, held, claim, now)).flatten()
    } }
    outbox any_topic_is_claimed { claim_message: |message, held, claim, now| {
        let claim = protocol::MessageClaim { topic: message.topic.clone(), ..claim.clone() };
        protocol::claim_message(message, held, &claim, now)
    } }
    outbox any_namespace_is_claimed { claim_message: |message, held, claim, now| {
        let namespace = message.namespace.clone();
        let claim = protocol::MessageClaim { namespace, ..claim.clone() };
        protocol::claim_message(message, held, &claim, now)
    } }
    outbox at_most_once_is_forgotten { claim_message: |message, held, claim, now| {
        let blind = MessageRecord { at_most_once: false, ..message.clone() };
        let claim = protocol::MessageClaim { at_most_once: false, ..claim.clone() };
        protocol::claim_message(&blind, held, &claim, now)
    } }
    outbox nobody_asks { claim_message: |message, held, claim, now| {
        let next = protocol::claim_message(message, held, claim, now)?;
        Some(MessageRecord { asks: false, ..next })
    } }
    outbox claims_keep_the_token { claim_message: |message, held, claim, now| {
        let next = protocol::claim_message(message, held, claim, now)?;
        Some(MessageRecord { token: message.token, ..next })
    } }
    outbox claims_count_no_attempt { claim_message: |message, held, claim, now| {
        let next = protocol::claim_message(message, held, claim, now)?;
        Some(MessageRecord { attempts: message.attempts, ..next })
    } }
    suite claims_since_an_instant_leave_it_out { claim_message: |message, held, claim, now| {
        let later = message.created_at > claim.since;
        later.then(|| protocol::claim_message(message, held, claim, now)).flatten()
    } }
    outbox order_is_ignored { claim_message: |message, _, claim, now| {
        protocol::claim_message(message, false, claim, now)
    } }
    suite the_dead_hold_nobody_back { holds_back: |earlier| {
        protocol::holds_back(earlier) && earlier.state != MessageState::Dead
    } }
    outbox backoffs_hold_nobody_back { holds_back: |earlier| {
        protocol::holds_back(earlier) && earlier.state != MessageState::Pending
    } }
    outbox the_delivered_hold_back { holds_back: |_| true }
    outbox lost_claims_are_not_found { claimed_before: |_, _| false }
    outbox claims_of_others_are_answered { claimed_before: |message, claim| {
        claim.again && message.state == MessageState::Sending
    } }
    outbox renewals_are_unguarded { renew_message: |message, request, now| {
        let (owner, token) = message.map_or((request.owner, request.token), |it| (it.owner, it.token));
        let request = protocol::MessageRenewal { owner, token, ..*request };
        protocol::renew_message(message, &request, now)
    } }
    outbox renewals_revive_what_ended { renew_message: |message, request, now| {
        protocol::renew_message(as_sending(message).as_ref(), request, now)
    } }
    outbox renewals_do_nothing { renew_message: |_, _, _| (None, Renewed::Renewed) }
    outbox ends_are_unguarded { end_delivery: |message, request, now| {
        let (owner, token) = message.map_or((request.owner, request.token), |it| (it.owner, it.token));
        let request = protocol::DeliveryEnd { owner, token, ..request.clone() };
        protocol::end_delivery(message, &request, now)
    } }
    outbox ends_ignore_the_token { end_delivery: |message, request, now| {
        let token = message.map_or(request.token, |it| it.token);
        protocol::end_delivery(message, &protocol::DeliveryEnd { token, ..request.clone() }, now)
    } }
    outbox ends_ignore_the_owner { end_delivery: |message, request, now| {
        let owner = message.map_or(request.owner, |it| it.owner);
        protocol::end_delivery(message, &protocol::DeliveryEnd { owner, ..request.clone() }, now)
    } }
    outbox ends_are_written_twice { end_delivery: |message, request, now| {
        protocol::end_delivery(as_sending(message).as_ref(), request, now)
    } }
    outbox lost_acknowledgements_are_fenced { end_delivery: |message, request, now| {
        let (write, answer) = protocol::end_delivery(message, request, now);
        let answer = if write.is_none() { Written::Fenced } else { answer };
        (write, answer)
    } }
    outbox late_acknowledgements_clear_no_review { end_delivery: |message, request, now| {
        let sending = message.filter(|it| it.state == MessageState::Sending);
        protocol::end_delivery(sending.or(message.filter(|it| it.state != MessageState::Review)), request, now)
    } }
    outbox releases_count { end_delivery: |message, request, now| {
        let (write, answer) = protocol::end_delivery(message, request, now);
        let released = request.to == DeliveryEndTo::Released;
        let attempts = message.map_or(0, |message| message.attempts);
        (write.map(|it| if released { MessageRecord { attempts, ..it } } else { it }), answer)
    } }
    outbox delays_are_ignored { end_delivery: |message, request, now| {
        let (write, answer) = protocol::end_delivery(message, request, now);
        let pending = |it: &MessageRecord| it.state == MessageState::Pending;
        (write.map(|it| if pending(&it) { MessageRecord { due_at: now, ..it } } else { it }), answer)
    } }
    outbox decisions_ignore_the_token { decide_message: |message, request, now| {
        let seen = message.map_or(request.seen, |it| it.token);
        protocol::decide_message(message, &protocol::MessageDecision { seen, ..request.clone() }, now)
    } }
    outbox decisions_keep_the_token { decide_message: |message, request, now| {
        let (write, answer) = protocol::decide_message(message, request, now);
        let kept = |it| MessageRecord { token: request.seen, ..it };
        (write.map(kept), answer)
    } }
    outbox decisions_keep_the_attempts { decide_message: |message, request, now| {
        let (write, answer) = protocol::decide_message(message, request, now);
        let attempts = message.map_or(0, |message| message.attempts);
        (write.map(|it| MessageRecord { attempts, ..it }), answer)
    } }
    outbox retries_are_deliveries { decide_message: |message, request, now| {
        let to = DecideTo::Delivered;
        protocol::decide_message(message, &protocol::MessageDecision { to, ..request.clone() }, now)
    } }
    outbox anything_is_decided { decide_message: |message, request, now| {
        let dead = message.map(|it| MessageRecord { state: MessageState::Dead, ..it.clone() });
        protocol::decide_message(dead.as_ref(), request, now)
    } }
    outbox the_undelivered_expire { message_expired: |message, retain_ms, now| {
        message.done_at.unwrap_or(message.created_at).plus_ms(retain_ms) < now
    } }
    outbox messages_expire_at_once { message_expired: |message, _, now| {
        protocol::message_expired(message, 0, now)
    } }
    outbox messages_never_expire { message_expired: |_, _, _| false }
    outbox senders_are_not_spared { spares_senders: false }
    outbox messages_are_purged_with_their_execution { purges_messages: true }
    outbox what_is_sent_again_stays_delivered { sent_again: |left, _| left.clone() }
    outbox what_is_sent_again_keeps_its_state { sent_again: |left, sent| {
        MessageRecord { state: left.state, done_at: left.done_at, ..sent }
    } }
    outbox what_is_sent_again_keeps_its_content { sent_again: |left, sent| {
        let (topic, ordering_key) = (left.topic.clone(), left.ordering_key.clone());
        MessageRecord { topic, ordering_key, headers: left.headers.clone(), ..sent }
    } }
    outbox what_is_sent_again_keeps_its_place { sent_again: |left, sent| {
        MessageRecord { seq: left.seq, ..sent }
    } }
    outbox what_is_sent_again_keeps_its_attempts { sent_again: |left, sent| {
        MessageRecord { attempts: left.attempts, ..sent }
    } }
    outbox what_is_sent_again_keeps_its_relay { sent_again: |left, sent| {
        MessageRecord { owner: left.owner, token: left.token, ..sent }
    } }
    outbox what_is_sent_again_keeps_what_became_of_it { sent_again: |left, sent| {
        let last_error = left.last_error.clone();
        MessageRecord { last_error, asks: left.asks, at_most_once: left.at_most_once, ..sent }
    } }
    suite what_is_undelivered_is_sent_over { sends_over: |_| true }
}
