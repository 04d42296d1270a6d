//! An orderly end.

use std::time::Duration;

use idempotent_runtime::Error;
use tokio::sync::oneshot;

use crate::support::{PLAIN, ours, run, runtime_on, store};

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
