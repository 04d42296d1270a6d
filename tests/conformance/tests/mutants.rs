//! The suite is worth something: of a store that breaks one rule, at least one property does not hold.

#[path = "mutants/elsewhere.rs"]
mod elsewhere;
#[path = "mutants/outbox.rs"]
mod outbox;
#[path = "mutants/reference.rs"]
mod reference;

use std::panic::{AssertUnwindSafe, catch_unwind};

use idempotent_conformance::model::{self, Mix};
use idempotent_runtime::protocol::{
    self, Claim, Claimed, Completion, Limits, Micros, Record, Release, ReleaseTo, Renewal, Renewed,
    SettleTo, Settled, Settlement, State, Step, StoredResult, TakeOver, TakenOver, Token,
};
use idempotent_runtime::testing::conformance::{PROPERTIES, check};
use reference::{Reference, Rules};

/// The properties that do not hold of a store with these rules.
fn broken(rules: &Rules) -> Vec<&'static str> {
    let holds = |name: &str| {
        let factory = std::future::ready(Reference::stopped(rules.clone()));
        catch_unwind(AssertUnwindSafe(|| check(name, factory))).is_ok()
    };
    PROPERTIES.iter().map(|property| property.name()).filter(|name| !holds(name)).collect()
}

/// Whether random sequences tell these rules from the protocol's.
fn differs(mix: Mix, rules: &Rules) -> bool {
    model::try_compare(mix, 400, [Reference::ticking(rules.clone())]).is_err()
}

#[test]
fn every_property_holds_of_a_store_that_breaks_no_rule() {
    assert_eq!(broken(&Rules::default()), [""; 0]);
    for mix in [Mix::Executions, Mix::Outbox] {
        let compared = model::try_compare(mix, 400, [Reference::ticking(Rules::default())]);
        compared.unwrap_or_else(|difference| panic!("{difference}"));
    }
}

/// One test per broken rule. `suite` is caught by the properties, `both` and `outbox` by random
/// sequences, too.
macro_rules! mutants {
    ($($by:ident $name:ident { $($field:ident: $rule:expr),+ })+) => { $(
        #[test]
        fn $name() {
            let rules = Rules { $($field: $rule,)+ ..Rules::default() };
            let broken = broken(&rules);
            println!("{} properties: {broken:?}", broken.len());
            assert!(!broken.is_empty(), "no property catches it");
            mutants!(@$by rules);
        }
    )+ };
    (@suite $rules:ident) => {};
    (@both $rules:ident) => {
        assert!(differs(Mix::Executions, &$rules), "no random sequence catches it")
    };
    (@outbox $rules:ident) => {
        assert!(differs(Mix::Outbox, &$rules), "no random sequence of the outbox catches it")
    };
}

#[path = "mutants/completions.rs"]
mod completions;
#[path = "mutants/messages.rs"]
mod messages;
#[path = "mutants/steps.rs"]
mod steps;

mutants! {
    both claim_grants_what_is_there { claim: |_, claim, now| protocol::claim(None, claim, now) }
    both claim_takes_over_what_lapsed { claim: |record, claim, now| {
        let lapsed = |record: &&Record| record.state == State::Running && record.lease_until < now;
        protocol::claim(record.filter(|record| !lapsed(record)), claim, now)
    } }
    both claim_is_never_too_old { claim: |record, claim, now| {
        protocol::claim(record, &Claim { issued_at: None, ..claim.clone() }, now)
    } }
    both claim_is_too_old_though_it_is_there { claim: |record, claim, now| {
        match protocol::claim(None, claim, now) {
            (None, Claimed::TooOld) => (None, Claimed::TooOld),
            _ => protocol::claim(record, claim, now),
        }
    } }
    both claim_leases_past_max_runtime { claim: |record, claim, now| {
        let (mut write, answer) = protocol::claim(record, claim, now);
        if let Some(record) = &mut write {
            record.lease_until = now.plus_ms(claim.limits.lease_ms);
        }
        (write, answer)
    } }
    both claim_stores_no_fingerprint { claim: |record, claim, now| {
        protocol::claim(record, &Claim { fingerprint: None, ..claim.clone() }, now)
    } }
    suite claim_counts_tokens_from_one { claim: |record, claim, now| {
        let (mut write, mut answer) = protocol::claim(record, claim, now);
        if let (Some(record), Claimed::Granted(granted)) = (&mut write, &mut answer) {
            (record.token, granted.token) = (Token(1), Token(1));
        }
        (write, answer)
    } }
    suite claim_looks_before_it_writes { claims_atomically: false }

    both take_over_ignores_the_token { take_over: |record, journal, request, now| {
        let seen = record.map_or(request.seen, |record| record.token);
        protocol::take_over(record, journal, &TakeOver { seen, ..request.clone() }, now)
    } }
    both take_over_ignores_the_lease { take_over: |record, journal, request, now| {
        let lapsed = record.map(|record| Record { lease_until: Micros(0), ..record.clone() });
        protocol::take_over(lapsed.as_ref(), journal, request, now)
    } }
    both take_over_ignores_the_backoff { take_over: |record, journal, request, now| {
        let due = record.map(|record| Record { not_before: None, ..record.clone() });
        protocol::take_over(due.as_ref(), journal, request, now)
    } }
    both take_over_ignores_the_state { take_over: |record, journal, request, now| {
        let running = record.map(|record| Record { state: State::Running, ..record.clone() });
        protocol::take_over(running.as_ref(), journal, request, now)
    } }
    both take_over_does_not_know_its_own { take_over: |record, journal, request, now| {
        let own =
            |record: &Record| record.state == State::Running && record.owner == request.owner;
        protocol::take_over(record.filter(|record| !own(record)), journal, request, now)
    } }
    both take_over_keeps_the_token { take_over: |record, journal, request, now| {
        taken(record, journal, request, now, |next, old| next.token = old.token)
    } }
    both take_over_keeps_the_owner { take_over: |record, journal, request, now| {
        taken(record, journal, request, now, |next, old| next.owner = old.owner)
    } }
    both take_over_keeps_the_limits { take_over: |record, journal, request, now| {
        taken(record, journal, request, now, |next, old| next.limits = old.limits)
    } }
    both take_over_counts_no_crash { take_over: |record, journal, request, now| {
        taken(record, journal, request, now, |next, old| next.crashes = old.crashes)
    } }
    both take_over_starts_no_new_runtime { take_over: |record, journal, request, now| {
        taken(record, journal, request, now, |next, old| next.attempt_started_at = old.attempt_started_at)
    } }

    both take_over_forgets_who_may_be_alive { take_over: |record, journal, request, now| {
        taken(record, journal, request, now, |next, _| {
            next.alive_until = now.plus_ms(next.limits.alive_ms());
        })
    } }

    both renew_ignores_the_owner { renew: |record, request, now| {
        let owner = record.map_or(request.owner, |record| record.owner);
        protocol::renew(record, &Renewal { owner, ..*request }, now)
    } }
    both renew_ignores_the_token { renew: |record, request, now| {
        let token = record.map_or(request.token, |record| record.token);
        protocol::renew(record, &Renewal { token, ..*request }, now)
    } }
    both renew_ignores_the_state { renew: |record, request, now| {
        let running = record.map(|record| Record { state: State::Running, ..record.clone() });
        protocol::renew(running.as_ref(), request, now)
    } }
    both renew_reaches_past_max_runtime { renew: |record, request, now| {
        let endless = record.map(endless);
        let (write, answer) = protocol::renew(endless.as_ref(), request, now);
        (write.zip(record).map(|(next, old)| Record { limits: old.limits, ..next }), answer)
    } }
    both renew_skips_what_it_lost { renew: |record, request, now| {
        match protocol::renew(record, request, now) {
            (write, Renewed::Lost) if record.is_some() => (write, Renewed::Skipped),
            answered => answered,
        }
    } }

    both complete_ignores_the_owner { complete: |record, request, now| {
        let owner = record.map_or(request.owner, |record| record.owner);
        protocol::complete(record, &Completion { owner, ..request.clone() }, now)
    } }
    both complete_ignores_the_token { complete: |record, request, now| {
        let token = record.map_or(request.token, |record| record.token);
        protocol::complete(record, &Completion { token, ..request.clone() }, now)
    } }
    both complete_ignores_the_state { complete: |record, request, now| {
        let running = record.map(|record| Record { state: State::Running, ..record.clone() });
        protocol::complete(running.as_ref(), request, now)
    } }
    both complete_replaces_its_own_result { complete: |record, request, now| {
        let running = record
            .filter(|record| record.state.is_finished())
            .map(|record| Record { state: State::Running, ..record.clone() });
        protocol::complete(running.as_ref().or(record), request, now)
    } }
    both complete_does_not_know_its_own { complete: |record, request, now| {
        let unfinished = record.filter(|record| !record.state.is_finished());
        protocol::complete(unfinished, request, now)
    } }
    both complete_has_no_guard { complete: |record, request, now| {
        let (owner, token) =
            record.map_or((request.owner, request.token), |record| (record.owner, record.token));
        let running = record.map(|record| Record { state: State::Running, ..record.clone() });
        protocol::complete(running.as_ref(), &Completion { owner, token, ..request.clone() }, now)
    } }
    both complete_refuses_a_lapsed_lease { complete: |record, request, now| {
        protocol::complete(record.filter(|record| record.lease_until >= now), request, now)
    } }
    both complete_stores_empty_results_as_none { complete: |record, request, now| {
        let result = match &request.result {
            StoredResult::Json(bytes) if bytes.is_empty() => {
                StoredResult::Absent { reason: "empty".to_owned() }
            }
            StoredResult::Json(_) | StoredResult::Absent { .. } => request.result.clone(),
        };
        protocol::complete(record, &Completion { result, ..request.clone() }, now)
    } }
    suite complete_stores_text_only { complete: |record, request, now| {
        let result = match &request.result {
            StoredResult::Json(bytes) => {
                StoredResult::Json(String::from_utf8_lossy(bytes).into_owned().into_bytes())
            }
            result @ StoredResult::Absent { .. } => result.clone(),
        };
        protocol::complete(record, &Completion { result, ..request.clone() }, now)
    } }
    suite complete_truncates_at_64_kib { complete: |record, request, now| {
        let result = match &request.result {
            StoredResult::Json(bytes) => {
                StoredResult::Json(bytes[..bytes.len().min(65_535)].to_vec())
            }
            result @ StoredResult::Absent { .. } => result.clone(),
        };
        protocol::complete(record, &Completion { result, ..request.clone() }, now)
    } }

    both release_ignores_the_owner { release: |record, request, now| {
        let owner = record.map_or(request.owner, |record| record.owner);
        protocol::release(record, &Release { owner, ..request.clone() }, now)
    } }
    both release_ignores_the_token { release: |record, request, now| {
        let token = record.map_or(request.token, |record| record.token);
        protocol::release(record, &Release { token, ..request.clone() }, now)
    } }
    both release_ignores_the_state { release: |record, request, now| {
        let running = record.map(|record| Record { state: State::Running, ..record.clone() });
        protocol::release(running.as_ref(), request, now)
    } }
    both release_does_not_know_its_own { release: |record, request, now| {
        protocol::release(record.filter(|record| record.state == State::Running), request, now)
    } }
    both release_counts_every_one_as_a_crash { release: |record, request, now| {
        protocol::release(record, &Release { to: ReleaseTo::Crash, ..request.clone() }, now)
    } }
    both release_knows_no_crash_too_many { release: |record, request, now| {
        let endless = record.map(|record| {
            let limits = Limits { crashes_max: u32::MAX, ..record.limits };
            Record { limits, ..record.clone() }
        });
        let (write, answer) = protocol::release(endless.as_ref(), request, now);
        (write.zip(record).map(|(next, old)| Record { limits: old.limits, ..next }), answer)
    } }

    both settle_ignores_the_token { settle: |record, request, now| {
        let seen = record.map_or(request.seen, |record| record.token);
        protocol::settle(record, &Settlement { seen, ..request.clone() }, now)
    } }
    both settle_ignores_the_state { settle: |record, request, now| {
        let in_review = record.map(|record| Record { state: State::Review, ..record.clone() });
        protocol::settle(in_review.as_ref(), request, now)
    } }
    both settle_keeps_the_token { settle: |record, request, now| {
        let (write, answer) = protocol::settle(record, request, now);
        (write.zip(record).map(|(next, old)| Record { token: old.token, ..next }), answer)
    } }
    both settle_retries_too_early { settle: |record, request, now| {
        let dead = record.map(|record| Record { alive_until: now, ..record.clone() });
        let (write, answer) = protocol::settle(dead.as_ref(), request, now);
        let restored =
            write.zip(record).map(|(next, old)| Record { alive_until: old.alive_until, ..next });
        (restored, answer)
    } }
    suite settle_waits_no_margin { settle: |record, request, now| {
        match protocol::settle(record, request, now) {
            (None, Settled::TooEarly { retry_after_ms })
                if record
                    .is_some_and(|record| retry_after_ms <= record.limits.margin_ms()) =>
            {
                let later = now.plus_ms(retry_after_ms);
                protocol::settle(record, request, later)
            }
            answered => answered,
        }
    } }
    both settle_keeps_the_crashes { settle: |record, request, now| {
        let (write, answer) = protocol::settle(record, request, now);
        (write.zip(record).map(|(next, old)| Record { crashes: old.crashes, ..next }), answer)
    } }
    both settle_forgets_when { settle: |record, request, now| {
        let (write, answer) = protocol::settle(record, request, now);
        let forgetful = request.to != SettleTo::Retry;
        let keep = |next: Record| Record { done_at: next.done_at.filter(|_| !forgetful), ..next };
        (write.map(keep), answer)
    } }

    both reap_is_unconditional { reap: |record, now| {
        protocol::reap(&Record { lease_until: Micros(0), ..record.clone() }, now)
            .map(|next| Record { lease_until: record.lease_until, ..next })
    } }
    both reap_ignores_the_state { reap: |record, now| {
        protocol::reap(&Record { state: State::Running, ..record.clone() }, now)
    } }
    both reap_counts_no_crash { reap: |record, now| {
        protocol::reap(record, now).map(|next| Record { crashes: record.crashes, ..next })
    } }
    both reap_never_sends_to_review { reap: |record, now| {
        protocol::reap(record, now).map(|next| Record { state: State::Retryable, ..next })
    } }
    both reap_ignores_how_young { heeds_younger: false }
    both reap_lists_nothing_that_it_spares { counts_only_the_lapsed: true }

    both purge_ignores_retain { expired: |record, _| record.state.is_finished() }
    both purge_deletes_what_runs { expired: |record, now| {
        let done = Record { state: State::Completed, done_at: Some(record.lease_until), ..record.clone() };
        protocol::expired(record, now)
            || record.state == State::Running && protocol::expired(&done, now)
    } }
    both purge_deletes_what_is_in_review { expired: |record, now| {
        let done = Record { state: State::Retryable, ..record.clone() };
        protocol::expired(record, now)
            || record.state == State::Review && protocol::expired(&done, now)
    } }
    both purge_ignores_the_backoff { expired: |record, now| {
        protocol::expired(&Record { not_before: None, ..record.clone() }, now)
    } }
    both purge_never_deletes_what_is_retryable { expired: |record, now| {
        record.state.is_finished() && protocol::expired(record, now)
    } }
    both purge_counts_from_the_creation { expired: |record, now| {
        record.state.is_finished()
            && record.created_at.plus_ms(record.limits.retain_ms) < now
    } }

    both list_shows_every_namespace { listed: |_, record, _| record.state == State::Review }
    suite list_ignores_case { listed: |identity, record, namespace| {
        record.state == State::Review && identity.namespace.eq_ignore_ascii_case(namespace)
    } }
    suite list_ignores_spaces { listed: |identity, record, namespace| {
        record.state == State::Review && identity.namespace.trim_end() == namespace.trim_end()
    } }
    both list_shows_every_state { listed: |identity, _, namespace| {
        identity.namespace == namespace
    } }
    both cursor_includes_its_execution { behind: |row, after| row >= after }
    suite cursor_knows_no_id { behind: |row, after| row.created_at > after.created_at }

    suite identity_is_lower_case { identity: |identity| {
        let mut stored = identity.clone();
        stored.key = stored.key.map(|key| key.to_lowercase());
        stored
    } }
    suite identity_is_trimmed { identity: |identity| {
        let mut stored = identity.clone();
        stored.key = stored.key.map(|key| key.trim_end().to_owned());
        stored
    } }
    both identity_has_an_empty_key_for_none { identity: |identity| {
        let mut stored = identity.clone();
        stored.key = Some(stored.key.unwrap_or_default());
        stored
    } }
    suite tenant_is_cut_at_255 { identity: |identity| {
        let mut stored = identity.clone();
        stored.tenant = stored.tenant.chars().take(255).collect();
        stored
    } }

    suite answers_are_in_the_order_of_ids { answers_by_id: true }
    suite close_closes_nothing { closes: false }
}

fn endless(record: &Record) -> Record {
    let limits = Limits { max_runtime_ms: u64::MAX / 2_000, ..record.limits };
    Record { limits, ..record.clone() }
}

/// A takeover with one field of the next record spoilt.
fn taken(
    record: Option<&Record>,
    journal: &[Step],
    request: &TakeOver,
    now: Micros,
    spoil: impl FnOnce(&mut Record, &Record),
) -> (Option<Record>, TakenOver) {
    let (mut write, mut answer) = protocol::take_over(record, journal, request, now);
    if let (Some(next), Some(old)) = (&mut write, record) {
        spoil(next, old);
        if let TakenOver::Granted { granted, .. } = &mut answer {
            (granted.token, granted.crashes) = (next.token, next.crashes);
        }
    }
    (write, answer)
}
