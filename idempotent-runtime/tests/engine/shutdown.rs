//! An orderly end.

use std::time::Duration;

use idempotent_runtime::protocol::State;
use idempotent_runtime::store::Store;
use idempotent_runtime::{Error, Runtime};
use tokio::sync::oneshot;

use crate::support::{PLAIN, Runs, id_of, ours, run, run_abandon, runtime_on, store};

#[tokio::test(start_paused = true)]
async fn a_running_body_is_left_to_finish_within_the_grace() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let (shared, (started, has_started)) = (runtime.clone(), oneshot::channel());
    let body = async move {
        started.send(()).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(1_u8)
    };
    let running = tokio::spawn(async move { run(&shared, &PLAIN, "k", &(), body).await });
    has_started.await.unwrap();
    let begun = tokio::time::Instant::now();
    let drained = runtime.shutdown(Duration::from_secs(10)).await;
    assert_eq!((drained.cancelled, begun.elapsed().as_secs()), (0, 5));
    assert_eq!(running.await.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_past_the_grace_is_cancelled_and_its_execution_claimable_at_once() {
    let store = store();
    let (runtime, other) = (runtime_on(&store).await, runtime_on(&store).await);
    let (shared, (started, has_started)) = (runtime.clone(), oneshot::channel());
    let body = async move {
        started.send(()).unwrap();
        std::future::pending().await
    };
    let running =
        tokio::spawn(async move { run::<u8, _, _>(&shared, &PLAIN, "k", &(), body).await });
    has_started.await.unwrap();
    let drained = runtime.shutdown(Duration::from_secs(10)).await;
    assert_eq!(drained.cancelled, 1);
    assert!(matches!(ours(running.await.unwrap()), Error::ShuttingDown));
    assert_eq!(run(&other, &PLAIN, "k", &(), async { Ok(2_u8) }).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_during_and_after_a_shutdown_are_refused_and_retryable() {
    let store = store();
    let runtime = runtime_on(&store).await;
    runtime.shutdown(Duration::ZERO).await;
    let error = ours(run::<u8, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await);
    assert!(matches!(error, Error::ShuttingDown), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_on_its_way_is_waited_for() {
    let store = store();
    let runtime = runtime_on(&store).await;
    // Two failed tries keep the claim on its way for 200 ms.
    store.fail("claim", crate::support::Fault::Away, 2);
    let shared = runtime.clone();
    let claiming =
        tokio::spawn(async move { run(&shared, &PLAIN, "k", &(), async { Ok(1_u8) }).await });
    tokio::task::yield_now().await;
    let drained = runtime.shutdown(Duration::from_secs(10)).await;
    assert_eq!(drained.cancelled, 0);
    assert_eq!(claiming.await.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_twice_is_harmless() {
    let runtime = runtime_on(&store()).await;
    runtime.shutdown(Duration::ZERO).await;
    assert_eq!(runtime.shutdown(Duration::ZERO).await.cancelled, 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_granted_after_the_grace_does_not_run() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("claim", crate::support::Fault::Away, 2);
    let (shared, noted) = (runtime.clone(), runs.clone());
    let body = async move { Ok(noted.note()) };
    let claiming = tokio::spawn(async move { run(&shared, &PLAIN, "k", &(), body).await });
    tokio::task::yield_now().await;
    runtime.shutdown(Duration::ZERO).await;
    assert!(matches!(ours(claiming.await.unwrap()), Error::ShuttingDown));
    assert_eq!(runs.count(), 0);
    let row = store.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.state, row.record.crashes), (State::Retryable, 0));
}

#[tokio::test(start_paused = true)]
async fn a_grace_without_end_waits_for_the_last_body() {
    let runtime = runtime_on(&store()).await;
    let (shared, (started, has_started)) = (runtime.clone(), oneshot::channel());
    let body = async move {
        started.send(()).unwrap();
        tokio::time::sleep(Duration::from_mins(1)).await;
        Ok(1_u8)
    };
    let running = tokio::spawn(async move { run(&shared, &PLAIN, "k", &(), body).await });
    has_started.await.unwrap();
    assert_eq!(runtime.shutdown(Duration::MAX).await.cancelled, 0);
    assert_eq!(running.await.unwrap().unwrap(), 1);
    let system = Runtime::connect("engine", "memory:").await.unwrap();
    assert_eq!(system.shutdown(Duration::MAX).await.cancelled, 0);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_is_being_stored_is_no_body_that_was_cancelled() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("complete", crate::support::Fault::Away, 2);
    let shared = runtime.clone();
    let storing =
        tokio::spawn(async move { run(&shared, &PLAIN, "k", &(), async { Ok(1_u8) }).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(runtime.shutdown(Duration::ZERO).await.cancelled, 0);
    assert_eq!(storing.await.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_no_more_after_a_shutdown() {
    let store = store();
    let (runtime, other) = (runtime_on(&store).await, runtime_on(&store).await);
    let mut call = Box::pin(run_abandon::<u8, _>(&runtime, "k", std::future::pending()));
    // Claimed, and never polled again, as by a task that blocks its thread.
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut call).await.is_err());
    assert_eq!(runtime.shutdown(Duration::ZERO).await.cancelled, 1);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(run_abandon(&other, "k", async { Ok(2_u8) }).await.unwrap(), 2);
}
