//! Steps that run at most once, and errors that say that they did not happen.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::protocol::{State, StepState};
use idempotent_runtime::store::Store;
use idempotent_runtime::{Error, Found, Runtime, step};

use crate::support::{
    Answer, AppError, Fault, PLAIN, Runs, id_of, ours, run, run_terminal, runtime, runtime_on,
    store,
};

type Keys = Arc<Mutex<Vec<String>>>;

/// A wire that fails with this error the first time; `Unlucky` says that nothing was sent.
async fn wire(keys: Keys, first: AppError) -> Answer<u32> {
    let wired = step("wire")
        .at_most_once()
        .did_not_happen_when(|error| matches!(error, AppError::Unlucky))
        .run(async |effect| {
            let mut keys = keys.lock().unwrap();
            keys.push(effect.provider_key().to_string());
            if keys.len() == 1 { Err(first) } else { Ok(7) }
        });
    wired.await
}

async fn call(runtime: &Runtime, keys: &Keys, first: AppError) -> Answer<u32> {
    run(runtime, &PLAIN, "k", &(), wire(Arc::clone(keys), first)).await
}

#[tokio::test(start_paused = true)]
async fn what_did_not_happen_is_tried_anew_under_a_new_key() {
    let store = store();
    let (runtime, keys) = (runtime_on(&store).await, Keys::default());
    let first = call(&runtime, &keys, AppError::Unlucky).await;
    assert!(matches!(first, Err(AppError::Unlucky)), "{first:?}");
    let held = store.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((held.record.state, held.record.open_steps), (State::Retryable, 0));
    let steps = runtime.execution("plain", "k").await.unwrap().unwrap().steps;
    assert_eq!(steps[0].state, StepState::Cleared);
    assert_eq!(call(&runtime, &keys, AppError::Unlucky).await.unwrap(), 7);
    let keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "the provider may remember its refusal");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_happened_is_for_a_person() {
    let (runtime, keys) = (runtime().await, Keys::default());
    let first = call(&runtime, &keys, AppError::Declined).await;
    assert!(matches!(first, Err(AppError::Declined)), "{first:?}");
    let again = ours(call(&runtime, &keys, AppError::Declined).await);
    assert!(matches!(again, Error::NeedsReview { .. }), "{again}");
    assert_eq!(keys.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_go_on_behind_what_did_not_happen() {
    let (runtime, keys) = (runtime().await, Keys::default());
    let body = {
        let keys = Arc::clone(&keys);
        async move { Ok(wire(keys, AppError::Unlucky).await.unwrap_or(0)) }
    };
    assert_eq!(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_of_what_did_not_happen_is_stored() {
    let runtime = runtime().await;
    let body = async || {
        let wired = step("wire")
            .at_most_once()
            .did_not_happen_when(|error| matches!(error, AppError::Declined))
            .run(async |_| Err::<u32, _>(AppError::Declined));
        wired.await
    };
    for _ in 0..2 {
        let answer = run_terminal::<u32, _>(&runtime, "k", body()).await;
        assert!(matches!(answer, Err(AppError::Declined)), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_that_it_did_not_happen_is_recognised() {
    let store = store();
    let (runtime, keys) = (runtime_on(&store).await, Keys::default());
    store.fail("record_steps", Fault::AckLost, 2);
    let first = call(&runtime, &keys, AppError::Unlucky).await;
    assert!(matches!(first, Err(AppError::Unlucky)), "{first:?}");
    assert_eq!(call(&runtime, &keys, AppError::Unlucky).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn where_it_cannot_be_noted_that_it_did_not_happen_it_may_have() {
    let store = store();
    let (runtime, keys) = (runtime_on(&store).await, Keys::default());
    store.fail("record_steps", Fault::Refused, 1);
    let first = ours(call(&runtime, &keys, AppError::Unlucky).await);
    assert!(matches!(first, Error::Unrecorded { .. }), "{first}");
    let again = ours(call(&runtime, &keys, AppError::Unlucky).await);
    assert!(matches!(again, Error::NeedsReview { .. }), "{again}");
    assert_eq!(keys.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_timed_out_may_have_happened() {
    let (runtime, runs) = (runtime().await, Runs::default());
    let seen = runs.clone();
    let body = async move {
        let wired = step("wire")
            .at_most_once()
            .timeout(Duration::from_secs(1))
            .did_not_happen_when(|_: &AppError| true)
            .reconcile(async |_| Ok(Found::Unknown))
            .run(async |_| {
                seen.note();
                std::future::pending::<Answer<u32>>().await
            });
        wired.await
    };
    let error = ours(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await);
    assert!(matches!(error, Error::StepTimeout { .. }), "{error}");
    let steps = runtime.execution("plain", "k").await.unwrap().unwrap().steps;
    assert_eq!((steps[0].state, runs.count()), (StepState::Started, 1));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_without_end_does_not_end_a_step_that_was_started() {
    let wire = async {
        // Time has passed since the clock began, and the sum is more than a duration can be.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let wired = step("wire").at_most_once().timeout(Duration::MAX);
        wired.run(async |_| Ok::<_, AppError>(7)).await
    };
    assert_eq!(run::<u32, _, _>(&runtime().await, &PLAIN, "k", &(), wire).await.unwrap(), 7);
}
