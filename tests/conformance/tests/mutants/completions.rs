//! Broken rules of a completion elsewhere.

use idempotent_runtime::protocol::{self, Completion, Record, State, StoredResult};

use super::{Rules, broken};

fn as_running(record: Option<&Record>) -> Option<Record> {
    record.map(|record| Record { state: State::Running, ..record.clone() })
}

mutants! {
    suite elsewhere_ignores_the_owner { elsewhere: |record, request, now| {
        let owner = record.map_or(request.owner, |record| record.owner);
        protocol::complete(record, &Completion { owner, ..request.clone() }, now).0
    } }
    suite elsewhere_ignores_the_token { elsewhere: |record, request, now| {
        let token = record.map_or(request.token, |record| record.token);
        protocol::complete(record, &Completion { token, ..request.clone() }, now).0
    } }
    suite elsewhere_ignores_the_state { elsewhere: |record, request, now| {
        protocol::complete(as_running(record).as_ref(), request, now).0
    } }
    suite elsewhere_completes_what_is_retryable { elsewhere: |record, request, now| {
        let running = as_running(record.filter(|it| it.state == State::Retryable));
        protocol::complete(running.as_ref().or(record), request, now).0
    } }
    suite elsewhere_knows_its_own { elsewhere: |record, request, now| {
        let mine = record.filter(|it| it.state.is_finished() && it.owner == request.owner);
        protocol::complete(record, request, now).0.or(mine.cloned())
    } }
    suite elsewhere_refuses_a_lapsed_lease { elsewhere: |record, request, now| {
        protocol::complete(record.filter(|it| it.lease_until >= now), request, now).0
    } }
    suite elsewhere_is_not_dated { elsewhere: |record, request, now| {
        let written = protocol::complete(record, request, now).0;
        written.zip(record).map(|(next, old)| Record { done_at: Some(old.created_at.minus_ms(1)), ..next })
    } }
    suite elsewhere_stores_every_outcome_as_completed { elsewhere: |record, request, now| {
        protocol::complete(record, &Completion { failed: false, ..request.clone() }, now).0
    } }
    suite elsewhere_forgets_why_there_is_no_result { elsewhere: |record, request, now| {
        let result = match &request.result {
            StoredResult::Absent { .. } => StoredResult::Absent { reason: String::new() },
            json @ StoredResult::Json(_) => json.clone(),
        };
        protocol::complete(record, &Completion { result, ..request.clone() }, now).0
    } }
    suite elsewhere_stores_text_only { elsewhere: |record, request, now| {
        let result = match &request.result {
            StoredResult::Json(bytes) => {
                StoredResult::Json(String::from_utf8_lossy(bytes).into_owned().into_bytes())
            }
            absent @ StoredResult::Absent { .. } => absent.clone(),
        };
        protocol::complete(record, &Completion { result, ..request.clone() }, now).0
    } }
    suite elsewhere_sends_nothing { sent_elsewhere: |_| &[] }
    suite elsewhere_sends_what_a_failure_does_not { sent_elsewhere: |request| &request.messages }
    suite elsewhere_sends_one_message { sent_elsewhere: |request| {
        request.sent().get(..1).unwrap_or_default()
    } }
    suite elsewhere_keeps_nobody_out { locks_elsewhere: false }
    suite elsewhere_is_there_before_its_commit { writes_elsewhere_at_once: true }
}
