//! Stores that fail, and answers that are lost.

use std::time::Duration;

use idempotent_runtime::protocol::State;
use idempotent_runtime::store::Store;
use idempotent_runtime::{Answer, Disposition, Error, observe};

use crate::support::{AppError, Fault, PLAIN, Runs, id_of, ours, run, runtime_on, store};

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_of_a_claim_is_no_conflict_with_oneself() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("claim", Fault::AckLost, 2);
    let noted = runs.clone();
    let call = observe(run(&runtime, &PLAIN, "k", &(), async move { Ok(noted.note()) })).await;
    assert_eq!((call.output.unwrap(), call.answer), (1, Some(Answer::Executed)));
    let row = store.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.attempts, row.record.crashes), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_of_a_takeover_is_one_attempt() {
    let store = store();
    let runtime = runtime_on(&store).await;
    run(&runtime, &PLAIN, "k", &(), async { Err::<u8, _>(AppError::Unlucky) }).await.unwrap_err();
    store.fail("take_over", Fault::AckLost, 2);
    assert_eq!(run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await.unwrap(), 1);
    let row = store.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.attempts, row.record.state), (2, State::Completed));
}

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_of_a_completion_is_a_completion() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("complete", Fault::AckLost, 3);
    for _ in 0..2 {
        let noted = runs.clone();
        let call = run(&runtime, &PLAIN, "k", &(), async move { Ok(noted.note()) }).await;
        assert_eq!(call.unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_does_not_run_the_handler() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("claim", Fault::Away, u32::MAX);
    let error = ours(run::<u8, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await);
    assert!(matches!(error, Error::Store { .. }), "{error}");
    assert!(error.is_retryable());
    store.heal();
    run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_is_asked_again() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("claim", Fault::Away, 2);
    store.fail("complete", Fault::Away, 50);
    assert_eq!(run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_stored_is_said_to_be_unrecorded() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("renew", Fault::Away, u32::MAX);
    store.fail("complete", Fault::Away, u32::MAX);
    let started = tokio::time::Instant::now();
    let error = ours(run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await);
    assert!(matches!(error, Error::Unrecorded { .. }), "{error}");
    assert!(matches!(error.disposition(), Disposition::RetryAfter(_)));
    // As long as the lease may hold, and no longer.
    let asked = started.elapsed();
    assert!(asked >= Duration::from_secs(30) && asked < Duration::from_secs(31), "{asked:?}");
    store.heal();
    tokio::time::sleep(Duration::from_secs(1)).await;
    run(&runtime, &PLAIN, "k", &(), async { Ok(2_u8) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_an_outcome_for_good_is_not_asked_for_long() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("complete", Fault::Refused, 1);
    let started = tokio::time::Instant::now();
    let error = ours(run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await);
    assert!(matches!(error, Error::Unrecorded { .. }), "{error}");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_does_not_change_what_the_caller_gets() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("release", Fault::Away, u32::MAX);
    let answer = run(&runtime, &PLAIN, "k", &(), async { Err::<u8, _>(AppError::Unlucky) }).await;
    assert!(matches!(answer, Err(AppError::Unlucky)));
    store.heal();
    let early = run::<u8, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await;
    assert!(matches!(ours(early), Error::InFlight { .. }));
    tokio::time::sleep(Duration::from_secs(31)).await;
    run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_while_a_caller_leaves_blocks_the_key_for_one_lease_at_most() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("release", Fault::Away, u32::MAX);
    let endless = crate::support::run_abandon::<u8, _>(&runtime, "k", std::future::pending());
    tokio::time::timeout(Duration::from_secs(1), endless).await.unwrap_err();
    store.heal();
    tokio::time::sleep(Duration::from_secs(31)).await;
    run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_at_the_outcome_leaves_it_unrecorded() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("complete", Fault::Panics, 1);
    let noted = runs.clone();
    let error = ours(run(&runtime, &PLAIN, "k", &(), async move { Ok(noted.note()) }).await);
    assert!(matches!(error, Error::Unrecorded { .. }), "{error}");
    assert_eq!(run(&runtime, &PLAIN, "k", &(), async { Ok(2) }).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_key_learn_together_that_the_store_is_away() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("claim", Fault::Away, u32::MAX);
    let started = tokio::time::Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let runtime = runtime.clone();
        callers.spawn(async move {
            run::<u8, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await
        });
    }
    for answer in callers.join_all().await {
        assert!(matches!(ours(answer), Error::Store { .. }));
    }
    // As long as one of them asks, and not one after the other.
    let asked = started.elapsed();
    assert!(asked < Duration::from_secs(1), "{asked:?}");
}
