//! Replays from the process's memory.

use std::time::Duration;

use idempotent_runtime::testing::TokioClock;
use idempotent_runtime::{Error, Runtime};

use crate::support::{Fault, Faulty, PLAIN, Runs, ours, run, run_terminal, runtime_on, store};

const LIVES: Duration = Duration::from_hours(1);

async fn caching(store: &Faulty) -> Runtime {
    let builder = Runtime::builder("engine").store(store.clone()).clock(TokioClock::new());
    let builder = builder.heartbeat_task().reaper(false).cache(1 << 20, LIVES);
    builder.connect().await.unwrap()
}

async fn count(runtime: &Runtime, payload: u32, runs: &Runs) -> crate::support::Answer<u32> {
    let runs = runs.clone();
    run(runtime, &PLAIN, "k", &payload, async move { Ok(runs.note()) }).await
}

/// The store answers no claim any more.
fn away(store: &Faulty) {
    store.fail("claim", Fault::Refused, u32::MAX);
}

#[tokio::test(start_paused = true)]
async fn a_hot_replay_asks_no_store() {
    let (store, runs) = (store(), Runs::default());
    let runtime = caching(&store).await;
    for _ in 0..2 {
        assert_eq!(count(&runtime, 7, &runs).await.unwrap(), 1);
    }
    away(&store);
    assert_eq!(count(&runtime, 7, &runs).await.unwrap(), 1);
    let without = runtime_on(&store).await;
    assert!(matches!(ours(count(&without, 7, &runs).await), Error::Store { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_replayed_from_memory() {
    use crate::support::AppError;
    let store = store();
    let runtime = caching(&store).await;
    let declined = || run_terminal::<u8, _>(&runtime, "k", async { Err(AppError::Declined) });
    for _ in 0..2 {
        assert!(matches!(declined().await, Err(AppError::Declined)));
    }
    away(&store);
    assert!(matches!(declined().await, Err(AppError::Declined)));
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_refused_from_memory() {
    let (store, runs) = (store(), Runs::default());
    let runtime = caching(&store).await;
    for _ in 0..2 {
        count(&runtime, 7, &runs).await.unwrap();
    }
    away(&store);
    let refused = ours(count(&runtime, 8, &runs).await);
    assert!(matches!(refused, Error::PayloadMismatch { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn what_is_in_memory_is_asked_for_again_when_its_time_is_over() {
    let (store, runs) = (store(), Runs::default());
    let runtime = caching(&store).await;
    for _ in 0..2 {
        count(&runtime, 7, &runs).await.unwrap();
    }
    away(&store);
    tokio::time::sleep(LIVES - Duration::from_millis(1)).await;
    assert_eq!(count(&runtime, 7, &runs).await.unwrap(), 1);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(matches!(ours(count(&runtime, 7, &runs).await), Error::Store { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_reopening_is_noticed_at_once_even_if_its_answer_is_lost() {
    for lost in [false, true] {
        let (store, runs) = (store(), Runs::default());
        let runtime = caching(&store).await;
        for _ in 0..2 {
            count(&runtime, 7, &runs).await.unwrap();
        }
        tokio::time::sleep(Duration::from_mins(16)).await;
        let status = runtime.execution("plain", "k").await.unwrap().unwrap();
        if lost {
            store.fail("settle", Fault::AckLost, 1);
        }
        let reopened = runtime.review().reopen(&status, "ada: the mail was lost").await;
        assert_eq!(reopened.is_err(), lost);
        assert_eq!(count(&runtime, 7, &runs).await.unwrap(), 2);
        assert_eq!(count(&runtime, 7, &runs).await.unwrap(), 2);
        away(&store);
        assert_eq!(count(&runtime, 7, &runs).await.unwrap(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_shuts_down_answers_nothing_from_memory() {
    let (store, runs) = (store(), Runs::default());
    let runtime = caching(&store).await;
    for _ in 0..2 {
        count(&runtime, 7, &runs).await.unwrap();
    }
    runtime.shutdown(Duration::from_secs(1)).await;
    assert!(matches!(ours(count(&runtime, 7, &runs).await), Error::ShuttingDown));
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_keeps_nothing_is_refused() {
    for (bytes_max, lives) in [(0, LIVES), (1, Duration::ZERO)] {
        let builder = Runtime::builder("engine").url("memory:").cache(bytes_max, lives);
        let error = builder.connect().await.unwrap_err();
        assert!(matches!(error, Error::Config { setting: "cache", .. }), "{error}");
    }
}
