//! Reaper and purge.

use std::time::Duration;

use idempotent_runtime::protocol::{Claim, ExecutionId, Identity, Limits, Owner, State};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::TokioClock;
use idempotent_runtime::{__private::Handler, Runtime};

use crate::support::{AppError, Fault, Faulty, PLAIN, id_of, run, runtime_on, store};

/// Leaves `key` running, as a process that dies does.
async fn abandon(store: &Faulty, handler: &'static Handler, key: &str) {
    let runtime = runtime_on(store).await;
    store.fail("complete", Fault::Refused, 1);
    run(&runtime, handler, key, &(), async { Ok(0_u8) }).await.unwrap_err();
    store.heal();
}

async fn state(store: &Faulty, handler: &str, key: &str) -> Option<State> {
    store.read(&[id_of(handler, key)]).await.unwrap().remove(0).map(|row| row.record.state)
}

#[tokio::test(start_paused = true)]
async fn a_sweep_takes_each_handlers_policy_from_its_rows() {
    static FRAGILE: Handler =
        Handler::new("fragile", "engine", "{key}").max_crashes(1).lease_ms(60_000);
    let store = store();
    abandon(&store, &PLAIN, "a").await;
    abandon(&store, &FRAGILE, "b").await;
    let sweeper = runtime_on(&store).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    let first = sweeper.sweep().await.unwrap();
    assert_eq!((first.retryable, first.review), (1, 0));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let second = sweeper.sweep().await.unwrap();
    assert_eq!((second.retryable, second.review), (1, 0));
    abandon(&store, &FRAGILE, "b").await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    let third = sweeper.sweep().await.unwrap();
    assert_eq!((third.retryable, third.review), (0, 1));
    assert_eq!(state(&store, "fragile", "b").await, Some(State::Review));
}

#[tokio::test(start_paused = true)]
async fn the_background_reaper_reaps_and_purges_by_itself() {
    static SHORT: Handler = Handler::new("short", "engine", "{key}").retain_ms(60_000);
    let store = store();
    abandon(&store, &PLAIN, "lapsed").await;
    let runtime = Runtime::builder("engine")
        .store(store.clone())
        .clock(TokioClock::new())
        .heartbeat_task()
        .connect()
        .await
        .unwrap();
    run(&runtime, &SHORT, "done", &(), async { Ok(1_u8) }).await.unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(state(&store, "plain", "lapsed").await, Some(State::Retryable));
    assert_eq!(state(&store, "short", "done").await, None);
}

#[tokio::test(start_paused = true)]
async fn the_reaper_survives_a_store_that_is_away() {
    let store = store();
    let runtime = Runtime::builder("engine")
        .store(store.clone())
        .clock(TokioClock::new())
        .heartbeat_task()
        .connect()
        .await
        .unwrap();
    abandon(&store, &PLAIN, "k").await;
    store.fail("reap", Fault::Away, 5);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(state(&store, "plain", "k").await, Some(State::Retryable));
    drop(runtime);
}

#[tokio::test(start_paused = true)]
async fn the_reaper_ends_with_its_runtime() {
    let store = store();
    let build = Runtime::builder("engine").store(store.clone()).clock(TokioClock::new());
    drop(build.heartbeat_task().connect().await.unwrap());
    abandon(&store, &PLAIN, "k").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(state(&store, "plain", "k").await, Some(State::Running));
}

#[tokio::test(start_paused = true)]
async fn a_finished_execution_answers_for_its_retention_and_is_then_new() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let days = |days: u64| Duration::from_hours(24 * days);
    run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await.unwrap();
    tokio::time::sleep(days(29)).await;
    assert_eq!(runtime.sweep().await.unwrap().purged, 0);
    assert_eq!(run(&runtime, &PLAIN, "k", &(), async { Ok(2_u8) }).await.unwrap(), 1);
    tokio::time::sleep(days(2)).await;
    assert_eq!(runtime.sweep().await.unwrap().purged, 1);
    assert_eq!(run(&runtime, &PLAIN, "k", &(), async { Ok(3_u8) }).await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_retryable_execution_that_nobody_comes_back_for_is_purged() {
    let store = store();
    let runtime = runtime_on(&store).await;
    run(&runtime, &PLAIN, "k", &(), async { Err::<u8, _>(AppError::Unlucky) }).await.unwrap_err();
    tokio::time::sleep(Duration::from_hours(24 * 31)).await;
    assert_eq!(runtime.sweep().await.unwrap().purged, 1);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_goes_through_more_rows_than_one_statement_examines() {
    let store = store();
    let runtime = runtime_on(&store).await;
    for key in 0..2_500 {
        run(&runtime, &PLAIN, &key.to_string(), &(), async { Ok(1_u8) }).await.unwrap();
    }
    tokio::time::sleep(Duration::from_hours(24 * 31)).await;
    assert_eq!(runtime.sweep().await.unwrap().purged, 2_500);
}

#[tokio::test(start_paused = true)]
async fn the_background_purge_keeps_up_with_more_than_one_batch_between_two_looks() {
    static SHORT: Handler = Handler::new("short", "engine", "{key}").retain_ms(60_000);
    let store = store();
    let runtime = runtime_on(&store).await;
    for key in 0..5_000 {
        run(&runtime, &SHORT, &key.to_string(), &(), async { Ok(1_u8) }).await.unwrap();
    }
    tokio::time::sleep(Duration::from_mins(2)).await;
    let reaping = Runtime::builder("engine").store(store.clone()).clock(TokioClock::new());
    let reaping = reaping.heartbeat_task().connect().await.unwrap();
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(store.inner.executions().unwrap().len(), 0);
    drop(reaping);
}

#[tokio::test(start_paused = true)]
async fn the_background_reaper_gets_to_the_newest_of_many_executions() {
    let store = store();
    let limits =
        Limits { lease_ms: 30_000, max_runtime_ms: 900_000, crashes_max: 8, retain_ms: 3_600_000 };
    let lapsing = |n: u128| Claim {
        id: ExecutionId(n.to_be_bytes()),
        identity: Identity {
            namespace: "engine".to_owned(),
            tenant: String::new(),
            handler: "plain".to_owned(),
            key: None,
        }
        .into(),
        owner: Owner([1; 16]),
        version: 1,
        limits,
        fingerprint: None,
        issued_at: None,
    };
    // More than are examined between two sleeps.
    let claims: Vec<Claim> = (1..=20_000).map(lapsing).collect();
    store.claim(&claims).await.unwrap();
    let reaping = Runtime::builder("engine").store(store.clone()).clock(TokioClock::new());
    let reaping = reaping.heartbeat_task().connect().await.unwrap();
    tokio::time::sleep(Duration::from_secs(30 + 2 * 20 + 1)).await;
    let newest = store.read(&[ExecutionId(20_000_u128.to_be_bytes())]).await.unwrap().remove(0);
    assert_eq!(newest.unwrap().record.state, State::Retryable);
    drop(reaping);
}
