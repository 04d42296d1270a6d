//! The rules of the journal.

use idempotent_runtime::protocol::{
    self, Micros, Record, Release, ReleaseTo, SettleTo, Settled, Settlement, State, Step,
    StepClass, StepFound, StepName, StepRecord, StepRecorded, StepStart, StepStarted, StepState,
    StepWrite, TakeOver, TakenOver, Written,
};

use super::reference::Rules;
use super::{Mix, broken, differs};

mutants! {
    both start_ignores_the_owner { start_step: |record, step, request, now| {
        let owner = record.map_or(request.owner, |record| record.owner);
        protocol::start_step(record, step, &StepStart { owner, ..request.clone() }, now)
    } }
    both start_ignores_the_token { start_step: |record, step, request, now| {
        let token = record.map_or(request.token, |record| record.token);
        protocol::start_step(record, step, &StepStart { token, ..request.clone() }, now)
    } }
    both start_ignores_the_state { start_step: |record, step, request, now| {
        let state = record.map(|record| record.state);
        let (write, answer) = protocol::start_step(running(record).as_ref(), step, request, now);
        (in_state(write, state), answer)
    } }
    both start_replaces_what_is_recorded { start_step: |record, step, request, now| {
        let open = step.filter(|step| !step.is_recorded());
        protocol::start_step(record, open, request, now)
    } }
    suite start_goes_back_to_any_generation { start_step: |record, step, request, now| {
        let open = step.filter(|step| step.is_recorded() || step.generation <= request.generation);
        protocol::start_step(record, open, request, now)
    } }
    both start_goes_on_in_an_earlier_generation { start_step: |record, step, request, now| {
        let as_asked = step.filter(|step| step.is_open()).map(|step| Step {
            generation: request.generation,
            ..step.clone()
        });
        protocol::start_step(record, as_asked.as_ref().or(step), request, now)
    } }
    suite start_of_what_was_cleared_knows_no_generation { start_step: |record, step, request, now| {
        let cleared = |step: &&Step| step.state == StepState::Cleared;
        let as_asked = step.filter(cleared).map(|step| Step {
            generation: request.generation,
            ..step.clone()
        });
        protocol::start_step(record, as_asked.as_ref().or(step), request, now)
    } }
    suite start_keeps_what_was_cleared { start_step: |record, step, request, now| {
        match step {
            Some(step) if step.state == StepState::Cleared => {
                (None, StepStarted::Started { started_at: step.started_at, now })
            }
            _ => protocol::start_step(record, step, request, now),
        }
    } }
    both start_does_not_know_its_own { start_step: |record, step, request, now| {
        match protocol::start_step(record, step, request, now) {
            (None, StepStarted::Started { .. }) => {
                (None, step.cloned().map_or(StepStarted::Fenced, found))
            }
            answered => answered,
        }
    } }
    both start_by_a_successor_finds_the_entry { start_step: |record, step, request, now| {
        match step {
            Some(step) if step.is_open() && step.owner != request.owner => {
                (None, found(step.clone()))
            }
            _ => protocol::start_step(record, step, request, now),
        }
    } }
    both start_takes_what_it_did_not_see { start_step: |record, step, request, now| {
        let seen = step.map(|step| step.owner);
        protocol::start_step(record, step, &StepStart { seen, ..request.clone() }, now)
    } }
    both start_takes_whatever_it_saw { start_step: |record, step, request, now| {
        let seen = request.seen.and(step.map(|step| step.owner));
        protocol::start_step(record, step, &StepStart { seen, ..request.clone() }, now)
    } }
    both start_forgets_when_it_was_first_started { start_step: |record, step, request, now| {
        started(record, step, request, now, |next| next.started_at = now)
    } }
    suite start_answers_with_another_time_than_it_stores { start_step:
        |record, step, request, now| {
            match protocol::start_step(record, step, request, now) {
                (write, StepStarted::Started { .. }) => {
                    (write, StepStarted::Started { started_at: now, now })
                }
                answered => answered,
            }
        }
    }
    both start_expects_the_attempt_to_be_dead { start_step: |record, step, request, now| {
        started(record, step, request, now, |next| next.alive_until = now)
    } }
    both start_keeps_the_owner_that_was_first { start_step: |record, step, request, now| {
        let owner = step.map_or(request.owner, |step| step.owner);
        started(record, step, request, now, |next| next.owner = owner)
    } }
    both start_counts_nothing { start_step: |record, step, request, now| {
        let (write, answer) = protocol::start_step(record, step, request, now);
        (uncounted(write, record), answer)
    } }
    both start_counts_what_a_successor_goes_on_with { start_step: |record, step, request, now| {
        let (mut write, answer) = protocol::start_step(record, step, request, now);
        if let Some(write) = &mut write {
            write.record.open_steps += u32::from(step.is_some_and(Step::is_open));
        }
        (write, answer)
    } }
    both start_counts_a_step_that_asks_as_blind { start_step: |record, step, request, now| {
        let blind = StepStart { reconciles: false, ..request.clone() };
        let (mut write, answer) = protocol::start_step(record, step, &blind, now);
        if let Some(write) = &mut write {
            write.step.reconciles = request.reconciles;
        }
        (write, answer)
    } }
    both start_counts_every_step_as_blind { start_step: |record, step, request, now| {
        let blind =
            StepStart { class: StepClass::AtMostOnce, reconciles: false, ..request.clone() };
        let (mut write, answer) = protocol::start_step(record, step, &blind, now);
        if let Some(write) = &mut write {
            (write.step.class, write.step.reconciles) = (request.class, request.reconciles);
        }
        (write, answer)
    } }

    both record_ignores_the_owner { record_step: |record, step, request, now| {
        let owner = record.map_or(request.owner, |record| record.owner);
        protocol::record_step(record, step, &StepRecord { owner, ..request.clone() }, now)
    } }
    both record_ignores_the_token { record_step: |record, step, request, now| {
        let token = record.map_or(request.token, |record| record.token);
        protocol::record_step(record, step, &StepRecord { token, ..request.clone() }, now)
    } }
    both record_ignores_the_state { record_step: |record, step, request, now| {
        let state = record.map(|record| record.state);
        let (write, answer) = protocol::record_step(running(record).as_ref(), step, request, now);
        (in_state(write, state), answer)
    } }
    both record_replaces_what_is_recorded { record_step: |record, step, request, now| {
        protocol::record_step(record, step.filter(|step| !step.is_recorded()), request, now)
    } }
    suite record_in_a_later_generation_replaces { record_step: |record, step, request, now| {
        let kept = |step: &&Step| !step.is_recorded() || step.generation >= request.generation;
        protocol::record_step(record, step.filter(kept), request, now)
    } }
    both record_does_not_know_its_own { record_step: |record, step, request, now| {
        match protocol::record_step(record, step, request, now) {
            (None, StepRecorded::Done { .. }) => (None, StepRecorded::Fenced),
            answered => answered,
        }
    } }
    both record_of_what_is_recorded_has_no_guard { record_step: |record, step, request, now| {
        match step {
            Some(step) if step.is_recorded() && record.is_some() => {
                (None, StepRecorded::Done { done_at: step.done_at.unwrap_or(now) })
            }
            _ => protocol::record_step(record, step, request, now),
        }
    } }
    both record_needs_a_start { record_step: |record, step, request, now| {
        match step {
            None => (None, StepRecorded::Fenced),
            Some(_) => protocol::record_step(record, step, request, now),
        }
    } }
    both record_leaves_the_step_open { record_step: |record, step, request, now| {
        let (write, answer) = protocol::record_step(record, step, request, now);
        (uncounted(write, record), answer)
    } }
    both record_counts_what_was_never_started { record_step: |record, step, request, now| {
        let (mut write, answer) = protocol::record_step(record, step, request, now);
        if let Some(write) = write.as_mut().filter(|_| step.is_none()) {
            write.record.open_steps = write.record.open_steps.saturating_sub(1);
        }
        (write, answer)
    } }
    both record_forgets_when_it_was_started { record_step: |record, step, request, now| {
        let (mut write, answer) = protocol::record_step(record, step, request, now);
        if let Some(write) = &mut write {
            write.step.started_at = now;
        }
        (write, answer)
    } }
    suite record_counts_from_now_on { record_step: |record, step, request, now| {
        let earliest = Micros(0);
        protocol::record_step(record, step, &StepRecord { earliest, ..request.clone() }, now)
    } }
    suite record_counts_from_its_earliest_on_alone { record_step: |record, step, request, now| {
        let (mut write, answer) = protocol::record_step(record, step, request, now);
        if let Some(done_at) = write.as_mut().and_then(|write| write.step.done_at.as_mut()) {
            *done_at = request.earliest;
        }
        (write, answer)
    } }
    suite record_truncates_at_64_kib { record_step: |record, step, request, now| {
        let mut cut = request.clone();
        if let StepFound::Happened(value) = &mut cut.found {
            value.truncate(65_535);
        }
        protocol::record_step(record, step, &cut, now)
    } }
    suite record_stores_text_only { record_step: |record, step, request, now| {
        let found = match &request.found {
            StepFound::Happened(value) => {
                StepFound::Happened(String::from_utf8_lossy(value).into_owned().into_bytes())
            }
            StepFound::DidNotHappen => StepFound::DidNotHappen,
        };
        protocol::record_step(record, step, &StepRecord { found, ..request.clone() }, now)
    } }
    both record_answers_with_another_time_than_it_stores { record_step:
        |record, step, request, now| {
            match protocol::record_step(record, step, request, now) {
                (None, StepRecorded::Done { .. }) => (None, StepRecorded::Done { done_at: now }),
                answered => answered,
            }
        }
    }
    suite clear_takes_what_another_started { record_step: |record, step, request, now| {
        let own = step.filter(|_| request.found == StepFound::DidNotHappen).map(|step| Step {
            owner: request.owner,
            ..step.clone()
        });
        protocol::record_step(record, own.as_ref().or(step), request, now)
    } }
    suite clear_takes_any_generation { record_step: |record, step, request, now| {
        let open = step.filter(|step| step.is_open() && request.found == StepFound::DidNotHappen);
        let generation = open.map_or(request.generation, |step| step.generation);
        protocol::record_step(record, step, &StepRecord { generation, ..request.clone() }, now)
    } }
    both clear_takes_what_is_recorded { record_step: |record, step, request, now| {
        let recorded = step.filter(|step| step.is_recorded()).map(|step| Step {
            state: StepState::Started,
            ..step.clone()
        });
        match request.found {
            StepFound::DidNotHappen => {
                protocol::record_step(record, recorded.as_ref().or(step), request, now)
            }
            StepFound::Happened(_) => protocol::record_step(record, step, request, now),
        }
    } }
    both clear_keeps_the_generation { record_step: |record, step, request, now| {
        let (mut write, answer) = protocol::record_step(record, step, request, now);
        if let (Some(write), StepFound::DidNotHappen) = (&mut write, &request.found) {
            write.step.generation = request.generation;
        }
        (write, answer)
    } }
    both clear_leaves_the_step_open { record_step: |record, step, request, now| {
        let (write, answer) = protocol::record_step(record, step, request, now);
        match request.found {
            StepFound::DidNotHappen => (uncounted(write, record), answer),
            StepFound::Happened(_) => (write, answer),
        }
    } }

    both take_over_brings_no_journal { take_over: |record, _, request, now| {
        protocol::take_over(record, &[], request, now)
    } }
    both take_over_brings_what_is_recorded_only { take_over: |record, journal, request, now| {
        let recorded: Vec<_> =
            journal.iter().filter(|step| step.is_recorded()).cloned().collect();
        protocol::take_over(record, &recorded, request, now)
    } }
    suite take_over_that_is_sent_again_brings_no_journal { take_over:
        |record, journal, request, now| {
            let own = record.is_some_and(|record| record.owner == request.owner);
            protocol::take_over(record, if own { &[] } else { journal }, request, now)
        }
    }
    both take_over_repeats_what_must_not_be_repeated { take_over:
        |record, journal, request, now| {
            let blind_steps = record.map_or(0, |record| record.blind_steps);
            let (write, answer) =
                protocol::take_over(seeing(record).as_ref(), journal, request, now);
            (write.map(|next| Record { blind_steps, ..next }), answer)
        }
    }
    both take_over_reviews_every_open_step { take_over: |record, journal, request, now| {
        let blind = record.map(|record| Record {
            blind_steps: record.open_steps,
            ..record.clone()
        });
        match protocol::take_over(blind.as_ref(), journal, request, now) {
            (Some(next), TakenOver::Reviewed) => {
                let blind_steps = record.map_or(0, |record| record.blind_steps);
                (Some(Record { blind_steps, ..next }), TakenOver::Reviewed)
            }
            _ => protocol::take_over(record, journal, request, now),
        }
    } }
    suite take_over_reviews_on_another_token { take_over: |record, journal, request, now| {
        match record {
            Some(record) if record.blind_steps > 0 => {
                let request = TakeOver { seen: record.token, ..request.clone() };
                protocol::take_over(Some(record), journal, &request, now)
            }
            _ => protocol::take_over(record, journal, request, now),
        }
    } }

    both release_repeats_what_must_not_be_repeated { release: |record, request, now| {
        let blind_steps = record.map_or(0, |record| record.blind_steps);
        let (write, answer) = protocol::release(seeing(record).as_ref(), request, now);
        (write.map(|next| Record { blind_steps, ..next }), answer)
    } }
    both release_to_review_leaves_what_is_retryable { release: |record, request, now| {
        match record {
            Some(record)
                if record.state == State::Retryable && record.owner == request.owner
                    && record.token == request.token =>
            {
                (None, Written::Done)
            }
            _ => protocol::release(record, request, now),
        }
    } }
    both release_to_review_takes_what_is_anothers { release: |record, request, now| {
        match record {
            Some(record)
                if record.state == State::Retryable && request.to == ReleaseTo::Review =>
            {
                let (owner, token) = (record.owner, record.token);
                let request = Release { owner, token, ..request.clone() };
                protocol::release(Some(record), &request, now)
            }
            _ => protocol::release(record, request, now),
        }
    } }
    both reap_repeats_what_must_not_be_repeated { reap: |record, now| {
        let next = protocol::reap(&Record { blind_steps: 0, ..record.clone() }, now);
        next.map(|next| Record { blind_steps: record.blind_steps, ..next })
    } }
    both reap_reviews_every_open_step { reap: |record, now| {
        let next =
            protocol::reap(&Record { blind_steps: record.open_steps, ..record.clone() }, now);
        next.map(|next| Record { blind_steps: record.blind_steps, ..next })
    } }

    both reopen_raises_no_generation { settle: |record, request, now| {
        let (write, answer) = protocol::settle(record, request, now);
        let kept = |old: &Record, next| Record { generation: old.generation, ..next };
        (write.zip(record).map(|(next, old)| kept(old, next)), answer)
    } }
    both retry_raises_the_generation { settle: |record, request, now| {
        let (write, answer) = protocol::settle(record, request, now);
        let raised = u32::from(request.to == SettleTo::Retry);
        (write.map(|next| Record { generation: next.generation + raised, ..next }), answer)
    } }
    both reopen_keeps_the_result { settle: |record, request, now| {
        let (write, answer) = protocol::settle(record, request, now);
        match record {
            Some(record) if request.to == SettleTo::Reopen => {
                let result = record.result.clone();
                (write.map(|next| Record { result, ..next }), answer)
            }
            _ => (write, answer),
        }
    } }
    both reopen_takes_what_is_in_review { settle: |record, request, now| {
        let in_review = record.is_some_and(|record| record.state == State::Review);
        let reopens = request.to == SettleTo::Reopen && in_review;
        let to = if reopens { SettleTo::Retry } else { request.to.clone() };
        protocol::settle(record, &Settlement { to, ..request.clone() }, now)
    } }

    both settle_step_ignores_the_token { settle_step: |record, step, request, found, now| {
        let seen = record.map_or(request.seen, |record| record.token);
        protocol::settle_step(record, step, &Settlement { seen, ..request.clone() }, found, now)
    } }
    both settle_step_keeps_the_token { settle_step: |record, step, request, found, now| {
        settled(record, step, request, found, now, |next, old| next.record.token = old.token)
    } }
    both settle_step_comes_too_early { settle_step: |record, step, request, found, now| {
        let dead = record.map(|record| Record { alive_until: now, ..record.clone() });
        let (mut write, answer) =
            protocol::settle_step(dead.as_ref(), step, request, found, now);
        if let (Some(write), Some(old)) = (&mut write, record) {
            write.record.alive_until = old.alive_until;
        }
        (write, answer)
    } }
    both settle_step_invents_the_step { settle_step: |record, step, request, found, now| {
        match protocol::settle_step(record, step, request, found, now) {
            (None, Settled::NoSuchStep) => (None, Settled::Done),
            answered => answered,
        }
    } }
    both settle_step_retries_beside_an_open_step { settle_step:
        |record, step, request, found, now| {
            settled(record, step, request, found, now, |next, _| {
                next.record.state = State::Retryable;
            })
        }
    }
    both settle_step_leaves_it_in_review { settle_step: |record, step, request, found, now| {
        settled(record, step, request, found, now, |next, _| next.record.state = State::Review)
    } }
    both settle_step_keeps_the_crashes { settle_step: |record, step, request, found, now| {
        settled(record, step, request, found, now, |next, old| next.record.crashes = old.crashes)
    } }
    both settle_step_keeps_the_generation { settle_step: |record, step, request, found, now| {
        let generation = step.map_or(0, |step| step.generation);
        settled(record, step, request, found, now, |next, _| next.step.generation = generation)
    } }
    both settle_step_leaves_it_open { settle_step: |record, step, request, found, now| {
        settled(record, step, request, found, now, |next, old| {
            (next.record.open_steps, next.record.blind_steps) = (old.open_steps, old.blind_steps);
        })
    } }

    both purge_leaves_the_steps { purges_steps: false }
    both purge_deletes_open_steps { abandoned: |_, _| None, expired: |record, now| {
        protocol::expired(&Record { open_steps: 0, ..record.clone() }, now)
    } }
    both purge_reviews_nothing { abandoned: |_, _| None }
    both purge_reviews_too_early { abandoned: |record, now| {
        let later = now.plus_ms(record.limits.retain_ms);
        protocol::abandoned(record, later)
    } }
    both purge_reviews_what_has_no_open_step { abandoned: |record, now| {
        let next = protocol::abandoned(&Record { open_steps: 1, ..record.clone() }, now);
        next.map(|next| Record { open_steps: record.open_steps, ..next })
    } }
    both purge_keeps_the_backoff_of_what_it_reviews { abandoned: |record, now| {
        let next = protocol::abandoned(record, now);
        next.map(|next| Record { not_before: record.not_before, ..next })
    } }

    suite step_names_are_lower_case { step_name: |name| {
        StepName { step: name.step.to_lowercase(), ..name.clone() }
    } }
    suite step_parts_are_trimmed { step_name: |name| {
        StepName { part: name.part.trim_end().to_owned(), ..name.clone() }
    } }
    suite step_and_part_are_one { step_name: |name| {
        StepName { step: format!("{}{}", name.step, name.part), part: name.part.clone() }
    } }
    both step_parts_are_forgotten { step_name: |name| {
        StepName { part: String::new(), ..name.clone() }
    } }
    suite journal_ignores_case_in_its_order { journal: |mut journal| {
        journal.sort_by_key(|step| (step.name.step.to_lowercase(), step.name.part.clone()));
        journal
    } }
    both journal_is_in_the_order_of_time { journal: |mut journal| {
        journal.sort_by_key(|step| step.started_at);
        journal
    } }
}

fn found(step: Step) -> StepStarted {
    StepStarted::Found(Box::new(step))
}

fn running(record: Option<&Record>) -> Option<Record> {
    record.map(|record| Record { state: State::Running, ..record.clone() })
}

/// The record without steps that must not be repeated.
fn seeing(record: Option<&Record>) -> Option<Record> {
    record.map(|record| Record { blind_steps: 0, ..record.clone() })
}

fn in_state(mut write: Option<StepWrite>, state: Option<State>) -> Option<StepWrite> {
    if let (Some(write), Some(state)) = (&mut write, state) {
        write.record.state = state;
    }
    write
}

/// A write that counts no step.
fn uncounted(mut write: Option<StepWrite>, record: Option<&Record>) -> Option<StepWrite> {
    if let (Some(write), Some(old)) = (&mut write, record) {
        write.record = old.clone();
    }
    write
}

/// A start with one field of the entry spoilt.
fn started(
    record: Option<&Record>,
    step: Option<&Step>,
    request: &StepStart,
    now: Micros,
    spoil: impl FnOnce(&mut Step),
) -> (Option<StepWrite>, StepStarted) {
    let (mut write, answer) = protocol::start_step(record, step, request, now);
    if let Some(write) = &mut write {
        spoil(&mut write.step);
    }
    (write, answer)
}

/// A settled step with one field of what is written spoilt.
fn settled(
    record: Option<&Record>,
    step: Option<&Step>,
    request: &Settlement,
    found: &StepFound,
    now: Micros,
    spoil: impl FnOnce(&mut StepWrite, &Record),
) -> (Option<StepWrite>, Settled) {
    let (mut write, answer) = protocol::settle_step(record, step, request, found, now);
    if let (Some(write), Some(old)) = (&mut write, record) {
        spoil(write, old);
    }
    (write, answer)
}
