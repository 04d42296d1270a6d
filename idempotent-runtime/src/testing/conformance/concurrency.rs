//! Calls that race for one execution happen one after the other.

use super::bench::*;
use crate::protocol::{Claimed, ReleaseTo, Renewed, SettleTo, Settled, State, TakenOver, Written};

/// How many races of two are run: each finds other timings.
const RACES: u16 = 20;

pub(super) async fn fifty_claims_at_once_are_granted_once(bench: &Bench) {
    let answers = bench
        .at_once(50, |bench, n| async move {
            let mut claim = claim(1);
            claim.owner = owner(n);
            (claim.owner, bench.claim(&claim).await)
        })
        .await;
    let record = bench.record(id(1)).await;
    let mut granted = Vec::new();
    for (owner, answer) in answers {
        match answer {
            Claimed::Granted(grant) => granted.push((owner, grant.token)),
            Claimed::Found(seen) => assert_eq!(seen.record, record),
            Claimed::TooOld => panic!("nothing is old here"),
        }
    }
    assert_eq!(granted, [(record.owner, record.token)]);
}

pub(super) async fn claims_of_two_processes_at_once_are_granted_once(bench: &Bench) {
    let other = bench.another().await;
    for race in 0..RACES {
        let stores = [bench.clone(), other.clone()];
        let answers = bench
            .at_once(2, |_, n| {
                let mut claim = claim(race);
                claim.owner = owner(n);
                let bench = stores[usize::from(n)].clone();
                async move { bench.claim(&claim).await }
            })
            .await;
        let granted = answers.iter().filter(|answer| matches!(answer, Claimed::Granted(_)));
        assert_eq!(granted.count(), 1, "{answers:?}");
    }
}

pub(super) async fn claims_of_fifty_executions_at_once_are_all_granted(bench: &Bench) {
    let attempts = bench.at_once(50, |bench, n| async move { bench.running(n).await }).await;
    for attempt in attempts {
        assert_eq!(bench.record(attempt.id).await.token, attempt.token);
    }
}

pub(super) async fn one_claim_sent_twice_at_once_is_granted_once(bench: &Bench) {
    for race in 0..RACES {
        let answers =
            bench.at_once(2, |bench, _| async move { bench.claim(&claim(race)).await }).await;
        let record = bench.record(id(race)).await;
        match &answers[..] {
            [Claimed::Granted(granted), Claimed::Found(seen)]
            | [Claimed::Found(seen), Claimed::Granted(granted)] => {
                assert_eq!(granted.token, record.token);
                assert_eq!(seen.record, record);
            }
            other => panic!("{other:?}"),
        }
    }
}

pub(super) async fn takeovers_of_a_lapsed_execution_at_once_are_granted_once(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    takeovers_at_once_are_granted_once(bench, lapsed).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.attempts, record.crashes), (2, 1));
}

pub(super) async fn takeovers_of_a_retryable_execution_at_once_are_granted_once(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    takeovers_at_once_are_granted_once(bench, retryable).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.attempts, record.crashes), (2, 0));
}

async fn takeovers_at_once_are_granted_once(bench: &Bench, before: Attempt) {
    let answers = bench
        .at_once(20, |bench, n| async move {
            (owner(100 + n), bench.take_over(&before.taken_over_by(100 + n)).await)
        })
        .await;
    let mut granted = Vec::new();
    for (owner, answer) in answers {
        match answer {
            TakenOver::Granted { granted: grant, .. } => granted.push((owner, grant.token)),
            TakenOver::Outrun => {}
            TakenOver::Reviewed => panic!("nobody asked for a review"),
        }
    }
    let record = bench.record(before.id).await;
    assert_eq!(granted, [(record.owner, record.token)]);
}

pub(super) async fn completion_and_takeover_at_once_have_one_winner(bench: &Bench) {
    for race in 0..RACES {
        let lapsed = bench.lapsed(race).await;
        let (done, taken) = tokio::join!(
            spawn(bench, move |bench| async move { bench.complete(&lapsed.completion("1")).await }),
            spawn(
                bench,
                move |bench| async move { bench.take_over(&lapsed.taken_over_by(99)).await }
            ),
        );
        let state = bench.record(id(race)).await.state;
        match (done, taken) {
            (Written::Done, TakenOver::Outrun) => assert_eq!(state, State::Completed),
            (Written::Fenced, TakenOver::Granted { .. }) => assert_eq!(state, State::Running),
            other => panic!("{other:?}"),
        }
    }
}

pub(super) async fn completion_and_reap_at_once_have_one_winner(bench: &Bench) {
    for race in 0..RACES {
        let lapsed = bench.lapsed(race).await;
        let (done, reaped) = tokio::join!(
            spawn(bench, move |bench| async move { bench.complete(&lapsed.completion("1")).await }),
            spawn(bench, |bench| async move {
                bench.store().reap(None, None, 100).await.expect("reap").lapsed.len()
            }),
        );
        let state = bench.record(id(race)).await.state;
        match (done, reaped) {
            (Written::Done, 0) => assert_eq!(state, State::Completed),
            (Written::Fenced, 1) => assert_eq!(state, State::Retryable),
            other => panic!("{other:?}"),
        }
    }
}

pub(super) async fn completion_and_release_at_once_have_one_winner(bench: &Bench) {
    for race in 0..RACES {
        let running = bench.running(race).await;
        let (done, released) = tokio::join!(
            spawn(
                bench,
                move |bench| async move { bench.complete(&running.completion("1")).await }
            ),
            spawn(bench, move |bench| async move {
                bench.release(&running.release(ReleaseTo::Crash)).await
            }),
        );
        let record = bench.record(id(race)).await;
        match (done, released) {
            (Written::Done, Written::Fenced) => assert_eq!(record.state, State::Completed),
            (Written::Fenced, Written::Done) => assert_eq!(record.crashes, 1),
            other => panic!("{other:?}"),
        }
    }
}

pub(super) async fn renewal_at_once_with_the_completion_does_not_undo_it(bench: &Bench) {
    for race in 0..RACES {
        let running = bench.running(race).await;
        let (renewed, done) = tokio::join!(
            spawn(bench, move |bench| async move { bench.renew(running.renewal()).await }),
            spawn(
                bench,
                move |bench| async move { bench.complete(&running.completion("1")).await }
            ),
        );
        assert_eq!(done, Written::Done, "{renewed:?}");
        let record = bench.record(id(race)).await;
        assert_eq!((record.state, record.result), (State::Completed, Some(json("1"))));
        assert_eq!(bench.renew(running.renewal()).await, Renewed::Lost);
    }
}

pub(super) async fn fifty_completions_of_one_attempt_at_once_are_all_done(bench: &Bench) {
    let running = bench.running(1).await;
    let answers = bench
        .at_once(
            50,
            |bench, n| async move { bench.complete(&running.completion(&n.to_string())).await },
        )
        .await;
    assert_eq!(answers, [Written::Done; 50]);
    let Some(result) = bench.record(id(1)).await.result else { panic!("there is no result") };
    let sent: Vec<_> = (0..50).map(|n: u16| json(&n.to_string())).collect();
    assert!(sent.contains(&result), "{result:?}");
}

pub(super) async fn settlements_at_once_are_stored_once(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
    let answers = bench
        .at_once(20, |bench, n| async move {
            let to = match n % 2 {
                0 => SettleTo::Retry,
                _ => SettleTo::Completed(b"1".to_vec()),
            };
            bench.settle(&in_review.settlement(to)).await
        })
        .await;
    let stored = answers.iter().filter(|answer| **answer == Settled::Done).count();
    assert_eq!(stored, 1, "{answers:?}");
}

pub(super) async fn reapers_at_once_reap_each_execution_once(bench: &Bench) {
    for n in 1..=20 {
        bench.running(n).await;
    }
    bench.age_s(LEASE_S + 60).await;
    let answers = bench
        .at_once(4, |bench, _| async move {
            bench.store().reap(None, None, 100).await.expect("reap").lapsed
        })
        .await;
    let mut reaped: Vec<_> = answers.into_iter().flatten().map(|(id, _, _)| id).collect();
    let rest = bench.store().reap(None, None, 100).await.expect("reap").lapsed;
    reaped.extend(rest.into_iter().map(|(id, _, _)| id));
    reaped.sort_unstable();
    assert_eq!(reaped, (1..=20).map(id).collect::<Vec<_>>());
    for n in 1..=20 {
        assert_eq!(bench.record(id(n)).await.crashes, 1);
    }
}

pub(super) async fn claim_at_once_with_the_purge_is_granted_or_finds_it(bench: &Bench) {
    for race in 0..RACES {
        bench.completed(race).await;
        bench.age_s(RETAIN_S + 60).await;
        let mut again = claim(race);
        again.owner = owner(99);
        let (answer, deleted) = tokio::join!(
            spawn(bench, move |bench| async move { bench.claim(&again).await }),
            spawn(bench, |bench| async move {
                bench.store().purge(None, 100).await.expect("purge").deleted
            }),
        );
        let stored = bench.read(id(race)).await.map(|found| found.record.state);
        match answer {
            Claimed::Granted(_) => assert_eq!((stored, deleted), (Some(State::Running), 1)),
            Claimed::Found(seen) => {
                assert_eq!(seen.record.state, State::Completed);
                assert!(stored.is_none() || stored == Some(State::Completed), "{stored:?}");
            }
            Claimed::TooOld => panic!("it says not when it was issued"),
        }
    }
}

pub(super) async fn batches_over_the_same_executions_at_once_are_all_answered(bench: &Bench) {
    let mut running = Vec::new();
    for n in 0..20 {
        running.push(bench.running(n).await);
    }
    let answers = bench
        .at_once(8, |bench, n| {
            let mut batch = running.clone();
            if n % 2 == 1 {
                batch.reverse();
            }
            async move {
                if n < 4 {
                    let renewals: Vec<_> = batch.into_iter().map(Attempt::renewal).collect();
                    bench.store().renew(&renewals).await.expect("renew").len()
                } else {
                    let completions: Vec<_> =
                        batch.into_iter().map(|attempt| attempt.completion("1")).collect();
                    let answers = bench.store().complete(&completions).await.expect("complete");
                    assert!(answers.iter().all(|answer| *answer == Written::Done), "{answers:?}");
                    answers.len()
                }
            }
        })
        .await;
    assert_eq!(answers, [20; 8]);
}

/// Runs `call` in a task of its own, so that two of them really run at once.
async fn spawn<T, F>(bench: &Bench, call: impl FnOnce(Bench) -> F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    tokio::spawn(call(bench.clone())).await.expect("a call does not panic")
}
