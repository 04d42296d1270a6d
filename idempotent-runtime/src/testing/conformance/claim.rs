//! Claims: an absent execution is granted, one that is there is read, and nothing else happens.

use super::bench::*;
use crate::protocol::{
    Claim, Claimed, Decision, Granted, Micros, ReleaseTo, Seen, State, Token, decide,
};

/// What a claim by a stranger sees of the execution of `attempt`, which it must not change.
async fn seen_by_a_stranger(bench: &Bench, attempt: Attempt) -> Seen {
    let mut stranger = claim(1);
    stranger.owner = owner(99);
    stranger.version = 77;
    stranger.limits.lease_ms = 1;
    stranger.fingerprint = None;
    assert_eq!(stranger.id, attempt.id);
    match bench.unchanged(attempt.id, bench.claim(&stranger)).await {
        Claimed::Found(seen) => {
            assert_eq!(seen.record, bench.record(attempt.id).await);
            *seen
        }
        other => panic!("an execution that is there is found, not {other:?}"),
    }
}

pub(super) async fn claim_of_an_absent_execution_is_granted(bench: &Bench) {
    match bench.claim(&claim(1)).await {
        Claimed::Granted(Granted { attempts: 1, crashes: 0, generation: 0, token }) => {
            assert_eq!(bench.record(id(1)).await.token, token);
        }
        other => panic!("{other:?}"),
    }
}

pub(super) async fn claim_stores_what_it_was_given(bench: &Bench) {
    let given = claim(1);
    bench.grant(&given).await;
    let stored = bench.execution(given.id).await;
    assert_eq!(stored.identity, *given.identity);
    assert_eq!(stored.record.id, given.id);
    assert_eq!(stored.record.owner, given.owner);
    assert_eq!(stored.record.version, given.version);
    assert_eq!(stored.record.limits, given.limits);
    assert_eq!(stored.record.fingerprint, given.fingerprint);
}

pub(super) async fn claim_begins_the_first_attempt(bench: &Bench) {
    bench.running(1).await;
    let record = bench.record(id(1)).await;
    assert_eq!(record.state, State::Running);
    assert_eq!((record.attempts, record.crashes), (1, 0));
    assert_eq!((record.not_before, record.done_at), (None, None));
    assert_eq!((record.result, record.reason), (None, None));
}

/// A store may expect a replay behind so many.
pub(super) async fn claim_behind_many_replays_is_answered_like_any(bench: &Bench) {
    let running = [bench.running(1).await, bench.running(2).await];
    for round in 0..20 {
        for attempt in running {
            let again =
                Claim { owner: owner(99), ..claim(if attempt.id == id(1) { 1 } else { 2 }) };
            match bench.claim(&again).await {
                Claimed::Found(seen) => assert_eq!(
                    (seen.record.id, seen.record.owner, seen.record.token),
                    (attempt.id, attempt.owner, attempt.token),
                    "in round {round}"
                ),
                other => panic!("an execution that is there is found, not {other:?}"),
            }
        }
    }
    bench.running(3).await;
    let mut old = claim(4);
    old.issued_at = Some(Micros(0));
    for n in [1, 2, 1, 2, 1, 2, 1, 2, 1, 2] {
        bench.claim(&Claim { owner: owner(99), ..claim(n) }).await;
    }
    assert_eq!(bench.claim(&old).await, Claimed::TooOld);
}

pub(super) async fn claim_is_dated_by_the_store(bench: &Bench) {
    let from = bench.now().await;
    bench.running(1).await;
    let until = bench.now().await;
    let record = bench.record(id(1)).await;
    assert_instant(record.created_at, 0, from, until);
    assert_instant(record.attempt_started_at, 0, from, until);
    assert_instant(record.lease_until, LEASE_S, from, until);
    let alive_ms = MAX_RUNTIME_S * 1_000 + limits().margin_ms();
    assert_eq!(record.alive_until, record.attempt_started_at.plus_ms(alive_ms));
}

pub(super) async fn claim_leases_no_longer_than_max_runtime(bench: &Bench) {
    let mut short = claim(1);
    short.limits.max_runtime_ms = 60_000;
    let from = bench.now().await;
    bench.grant(&short).await;
    let until = bench.now().await;
    assert_instant(bench.record(id(1)).await.lease_until, 60, from, until);
}

pub(super) async fn first_token_is_the_time_of_the_store_in_microseconds(bench: &Bench) {
    let from = bench.now().await;
    let Token(token) = bench.running(1).await.token;
    let until = bench.now().await;
    assert!(from.0 <= token && token <= until.0, "{token} is not in {from:?} ..= {until:?}");
}

pub(super) async fn claim_sent_twice_finds_its_own(bench: &Bench) {
    let attempt = bench.running(1).await;
    match bench.unchanged(attempt.id, bench.claim(&claim(1))).await {
        Claimed::Found(seen) => {
            assert_eq!(decide(&seen, attempt.owner), Decision::Own { token: attempt.token });
        }
        other => panic!("{other:?}"),
    }
}

pub(super) async fn claim_of_a_running_execution_finds_it_in_flight(bench: &Bench) {
    let attempt = bench.running(1).await;
    let seen = seen_by_a_stranger(bench, attempt).await;
    let Decision::InFlight { retry_after_ms } = decide(&seen, owner(99)) else {
        panic!("{seen:?}");
    };
    assert!(retry_after_ms > 0 && retry_after_ms <= LEASE_S * 1_000, "{retry_after_ms}");
}

pub(super) async fn claim_of_a_lapsed_execution_finds_it_lapsed(bench: &Bench) {
    let attempt = bench.lapsed(1).await;
    let seen = seen_by_a_stranger(bench, attempt).await;
    assert_eq!(seen.record.state, State::Running);
    assert_eq!(decide(&seen, owner(99)), Decision::TakeOver);
}

pub(super) async fn claim_of_a_retryable_execution_finds_it_claimable(bench: &Bench) {
    let attempt = bench.retryable(1).await;
    let seen = seen_by_a_stranger(bench, attempt).await;
    assert_eq!(decide(&seen, owner(99)), Decision::TakeOver);
}

pub(super) async fn claim_within_the_backoff_finds_it_not_due(bench: &Bench) {
    let attempt = bench.released(1, ReleaseTo::Retry { delay_ms: 300_000 }).await;
    let seen = seen_by_a_stranger(bench, attempt).await;
    let Decision::NotDue { retry_after_ms } = decide(&seen, owner(99)) else {
        panic!("{seen:?}");
    };
    assert!(retry_after_ms > 0 && retry_after_ms <= 300_000, "{retry_after_ms}");
}

pub(super) async fn claim_of_a_completed_execution_finds_its_result(bench: &Bench) {
    let attempt = bench.completed(1).await;
    let seen = seen_by_a_stranger(bench, attempt).await;
    assert_eq!(decide(&seen, owner(99)), Decision::Replay { failed: false });
    assert_eq!((seen.record.result, seen.record.version), (Some(json("\"paid\"")), 3));
}

pub(super) async fn claim_of_a_failed_execution_finds_its_error(bench: &Bench) {
    let attempt = bench.failed(1).await;
    let seen = seen_by_a_stranger(bench, attempt).await;
    assert_eq!(decide(&seen, owner(99)), Decision::Replay { failed: true });
    assert_eq!((seen.record.result, seen.record.version), (Some(json("\"declined\"")), 3));
}

pub(super) async fn claim_of_an_execution_in_review_finds_its_reason(bench: &Bench) {
    let attempt = bench.in_review(1).await;
    let seen = seen_by_a_stranger(bench, attempt).await;
    let reason = "the bank was closed".to_owned();
    assert_eq!(decide(&seen, owner(99)), Decision::NeedsReview { reason });
}

pub(super) async fn claim_reports_the_time_of_the_store(bench: &Bench) {
    let attempt = bench.running(1).await;
    let from = bench.now().await;
    let seen = seen_by_a_stranger(bench, attempt).await;
    assert_instant(seen.now, 0, from, bench.now().await);
}

pub(super) async fn claim_of_an_operation_older_than_retain_is_too_old(bench: &Bench) {
    let mut old = claim(1);
    old.issued_at = Some(bench.now().await.minus_ms((RETAIN_S + 60) * 1_000));
    assert_eq!(bench.claim(&old).await, Claimed::TooOld);
    assert_eq!(bench.read(id(1)).await, None);
}

pub(super) async fn claim_of_an_operation_younger_than_retain_is_granted(bench: &Bench) {
    let mut young = claim(1);
    young.issued_at = Some(bench.now().await.minus_ms((RETAIN_S - 60) * 1_000));
    bench.grant(&young).await;
}

pub(super) async fn claim_of_an_operation_issued_in_the_future_is_granted(bench: &Bench) {
    let mut ahead = claim(1);
    ahead.issued_at = Some(bench.now().await.plus_ms(RETAIN_S * 1_000));
    bench.grant(&ahead).await;
}

pub(super) async fn claim_of_an_old_operation_that_is_there_finds_it(bench: &Bench) {
    let attempt = bench.completed(1).await;
    let mut old = claim(1);
    old.owner = owner(2);
    old.issued_at = Some(bench.now().await.minus_ms(2 * RETAIN_S * 1_000));
    let answer = bench.unchanged(attempt.id, bench.claim(&old)).await;
    assert!(matches!(answer, Claimed::Found(_)), "{answer:?}");
}

pub(super) async fn claims_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    bench.completed(2).await;
    bench.running(4).await;
    let mut too_old = claim(3);
    too_old.issued_at = Some(bench.now().await.minus_ms(2 * RETAIN_S * 1_000));
    let batch = [claim(5), claim(4), too_old, claim(2), claim(1)];
    let answers = bench.store().claim(&batch).await.expect("claim");
    match &answers[..] {
        [
            Claimed::Granted(fifth),
            Claimed::Found(fourth),
            Claimed::TooOld,
            Claimed::Found(second),
            Claimed::Granted(first),
        ] => {
            assert_eq!(fifth.token, bench.record(id(5)).await.token);
            assert_eq!(fourth.record.id, id(4));
            assert_eq!(second.record.id, id(2));
            assert_eq!(first.token, bench.record(id(1)).await.token);
        }
        other => panic!("{other:?}"),
    }
}

pub(super) async fn claims_of_one_execution_in_a_batch_are_granted_once(bench: &Bench) {
    let mut rival = claim(1);
    rival.owner = owner(2);
    let answers = bench.store().claim(&[claim(1), rival]).await.expect("claim");
    let record = bench.record(id(1)).await;
    match &answers[..] {
        [Claimed::Granted(granted), Claimed::Found(seen)] => {
            assert_eq!((granted.token, record.owner), (record.token, owner(1)));
            assert_eq!(seen.record, record);
        }
        [Claimed::Found(seen), Claimed::Granted(granted)] => {
            assert_eq!((granted.token, record.owner), (record.token, owner(2)));
            assert_eq!(seen.record, record);
        }
        other => panic!("{other:?}"),
    }
}

pub(super) async fn claims_of_a_thousand_executions_in_a_batch_are_granted(bench: &Bench) {
    let batch: Vec<_> = (0..1_000).rev().map(claim).collect();
    let answers = bench.store().claim(&batch).await.expect("claim");
    assert_eq!(answers.len(), batch.len());
    let ids: Vec<_> = batch.iter().map(|claim| claim.id).collect();
    let stored = bench.store().read(&ids).await.expect("read");
    for ((claim, answer), stored) in batch.iter().zip(answers).zip(stored) {
        let Claimed::Granted(granted) = answer else { panic!("{answer:?}") };
        let record = stored.expect("it is there").record;
        assert_eq!((record.owner, record.token), (claim.owner, granted.token));
    }
}

pub(super) async fn empty_batches_have_no_answers(bench: &Bench) {
    let store = bench.store();
    assert_eq!(store.claim(&[]).await.expect("claim"), []);
    assert_eq!(store.take_over(&[]).await.expect("take_over"), []);
    assert_eq!(store.renew(&[]).await.expect("renew"), []);
    assert_eq!(store.complete(&[]).await.expect("complete"), []);
    assert_eq!(store.release(&[]).await.expect("release"), []);
    assert_eq!(store.settle(&[]).await.expect("settle"), []);
    assert_eq!(store.start_steps(&[]).await.expect("start_steps"), []);
    assert_eq!(store.record_steps(&[]).await.expect("record_steps"), []);
    assert!(store.journals(&[]).await.expect("journals").is_empty());
    assert_eq!(store.read(&[]).await.expect("read"), []);
}
