//! Heartbeats, lost leases, `max_runtime`, panics.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use idempotent_runtime::__private::Handler;
use idempotent_runtime::protocol::{Release, ReleaseTo, State};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::TokioClock;
use idempotent_runtime::{Clock, Error, Runtime};

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::support::{
    AppError, Fault, PLAIN, Runs, id_of, ours, run, run_abandon, runtime, runtime_on, store,
};

static LONG: Handler =
    Handler::new("long", "engine", "{key}").lease_ms(1_000).max_runtime_ms(1_800_000);

#[tokio::test(start_paused = true)]
async fn a_long_body_under_a_short_lease_is_renewed_and_not_reaped() {
    let store = store();
    let (runtime, other) = (runtime_on(&store).await, runtime_on(&store).await);
    let body = async {
        tokio::time::sleep(Duration::from_mins(20)).await;
        Ok(1_u8)
    };
    let long = tokio::spawn(async move { run(&runtime, &LONG, "k", &(), body).await });
    for _ in 0..19 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let swept = other.sweep().await.unwrap();
        assert_eq!((swept.retryable, swept.review), (0, 0));
        let second = run::<u8, _, _>(&other, &LONG, "k", &(), async { panic!("ran") }).await;
        assert!(matches!(ours(second), Error::InFlight { .. }));
    }
    assert_eq!(long.await.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_past_max_runtime_is_cancelled_and_counted() {
    static SHORT: Handler = Handler::new("short", "engine", "{key}")
        .lease_ms(1_000)
        .max_runtime_ms(10_000)
        .max_crashes(1);
    let store = store();
    let runtime = runtime_on(&store).await;
    let started = tokio::time::Instant::now();
    for _ in 0..2 {
        let endless = run::<u8, _, _>(&runtime, &SHORT, "k", &(), std::future::pending()).await;
        let error = ours(endless);
        let limit = Duration::from_secs(10);
        assert!(
            matches!(error, Error::MaxRuntime { max_runtime } if max_runtime == limit),
            "{error}"
        );
    }
    // One margin, a third of the lease, before each attempt's end.
    let ran = started.elapsed();
    assert!(ran > Duration::from_secs(19) && ran < Duration::from_secs(20), "{ran:?}");
    let third = run::<u8, _, _>(&runtime, &SHORT, "k", &(), async { panic!("ran") }).await;
    assert!(matches!(ours(third), Error::NeedsReview { .. }));
    let row = store.read(&[id_of("short", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.attempts, row.record.crashes, row.record.state), (2, 2, State::Review));
}

/// At most 1,024 in one call.
#[tokio::test(start_paused = true)]
async fn leases_that_are_due_at_once_are_renewed_together() {
    for (attempts, calls) in [(100_u32, 1), (1_500, 2)] {
        let store = store();
        let runtime = runtime_on(&store).await;
        let mut bodies = tokio::task::JoinSet::new();
        for n in 0..attempts {
            let runtime = runtime.clone();
            bodies.spawn(async move {
                let body = async {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    Ok(1_u8)
                };
                run(&runtime, &LONG, &format!("k{n}"), &(), body).await
            });
        }
        // They began in one instant, and are due once, a third of their lease later.
        assert!(bodies.join_all().await.iter().all(Result::is_ok));
        assert_eq!(store.renewals(), calls, "{attempts} attempts");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_cancels_the_body_before_it_ends() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("renew", Fault::Away, u32::MAX);
    let started = tokio::time::Instant::now();
    let answer = run::<u8, _, _>(&runtime, &LONG, "k", &(), std::future::pending()).await;
    assert!(matches!(ours(answer), Error::LeaseLost));
    // Lease 1 s, margin a third of it.
    let ran = started.elapsed();
    assert!(ran >= Duration::from_millis(660) && ran < Duration::from_millis(700), "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_in_time_keeps_the_body_running() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("renew", Fault::Away, 2);
    store.fail("renew", Fault::AckLost, 1);
    let body = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(1_u8)
    };
    assert_eq!(run(&runtime, &LONG, "k", &(), body).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_leaves_the_execution_to_its_successor() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let id = id_of("long", "k");
    let stolen = std::future::pending::<Result<u8, AppError>>();
    let lost = tokio::spawn(async move { run(&runtime, &LONG, "k", &(), stolen).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    store.fail("renew", Fault::Away, u32::MAX);
    assert!(matches!(ours(lost.await.unwrap()), Error::LeaseLost));
    store.heal();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let row = store.read(&[id]).await.unwrap().remove(0).unwrap();
    assert_eq!(row.record.state, State::Running);
    let other = runtime_on(&store).await;
    assert_eq!(run(&other, &LONG, "k", &(), async { Ok(2_u8) }).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_zombie_that_was_overtaken_is_fenced_and_the_successors_result_stays() {
    let store = store();
    let (zombie, successor) = (runtime_on(&store).await, runtime_on(&store).await);
    let (wake, woken) = oneshot::channel();
    let body = async move { Ok(woken.await.unwrap()) };
    let mut call = Box::pin(run_abandon::<u8, _>(&zombie, "k", body));
    // The body has started. From here on the process is paused: nothing polls it and nothing renews.
    assert!(timeout(Duration::from_millis(1), &mut call).await.is_err());
    store.fail("renew", Fault::Away, u32::MAX);
    tokio::time::sleep(Duration::from_secs(31)).await;
    store.heal();
    assert_eq!(run_abandon(&successor, "k", async { Ok(2_u8) }).await.unwrap(), 2);
    wake.send(1).unwrap();
    assert!(matches!(ours(call.await), Error::LeaseLost));
    assert_eq!(run_abandon::<u8, _>(&zombie, "k", async { panic!("ran") }).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_zombie_that_fails_does_not_release_its_successors_execution() {
    let store = store();
    let (zombie, successor) = (runtime_on(&store).await, runtime_on(&store).await);
    let (wake, woken) = oneshot::channel::<()>();
    let body = async move {
        woken.await.unwrap();
        Err::<u8, _>(AppError::Unlucky)
    };
    let mut call = Box::pin(run_abandon(&zombie, "k", body));
    assert!(timeout(Duration::from_millis(1), &mut call).await.is_err());
    store.fail("renew", Fault::Away, u32::MAX);
    tokio::time::sleep(Duration::from_secs(31)).await;
    store.heal();
    let mut next = Box::pin(run_abandon::<u8, _>(&successor, "k", std::future::pending()));
    assert!(timeout(Duration::from_millis(1), &mut next).await.is_err());
    wake.send(()).unwrap();
    assert!(matches!(call.await, Err(AppError::Unlucky)));
    let row = store.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.state, row.record.attempts), (State::Running, 2));
}

#[tokio::test(start_paused = true)]
async fn a_panic_reaches_the_caller_counts_as_a_crash_and_does_not_block_the_key() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let shared = runtime.clone();
    let call = async move {
        run::<u8, _, _>(&shared, &PLAIN, "k", &(), async { std::panic::panic_any(4711_u32) }).await
    };
    let panic = tokio::spawn(call).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<u32>(), Some(&4711));
    let row = store.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.state, row.record.crashes), (State::Retryable, 1));
    assert_eq!(row.record.reason.as_deref(), Some("the body panicked"));
    run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panics_past_the_limit_end_in_review() {
    let runtime = runtime().await;
    for _ in 0..=8 {
        let shared = runtime.clone();
        let call = async move {
            run::<u8, _, _>(&shared, &PLAIN, "k", &(), async { panic!("boom") }).await
        };
        tokio::spawn(call).await.unwrap_err();
    }
    let answer = run::<u8, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await;
    assert!(matches!(ours(answer), Error::NeedsReview { .. }));
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_body_release_at_once() {
    let (runtime, runs) = (runtime().await, Runs::default());
    run(&runtime, &PLAIN, "k", &(), async { Err::<u32, _>(AppError::Unlucky) }).await.unwrap_err();
    let noted = runs.clone();
    assert_eq!(run(&runtime, &PLAIN, "k", &(), async move { Ok(noted.note()) }).await.unwrap(), 1);
}

/// A clock whose time never falls on a whole microsecond, as that of a system rarely does.
#[derive(Debug)]
struct Nanoseconds(TokioClock);

impl Clock for Nanoseconds {
    fn now_us(&self) -> i64 {
        self.0.now_us()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed() + Duration::from_nanos(999)
    }

    fn sleep_until(&self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.sleep_until(deadline)
    }
}

#[tokio::test(start_paused = true)]
async fn max_runtime_is_told_from_a_lost_lease_to_the_nanosecond() {
    static SHORT: Handler =
        Handler::new("short", "engine", "{key}").lease_ms(1_000).max_runtime_ms(3_000);
    let store = store();
    let runtime = Runtime::builder("engine")
        .store(store.clone())
        .clock(Nanoseconds(TokioClock::new()))
        .heartbeat_task()
        .reaper(false)
        .connect()
        .await
        .unwrap();
    let answer = run::<u8, _, _>(&runtime, &SHORT, "k", &(), std::future::pending()).await;
    let error = ours(answer);
    assert!(matches!(error, Error::MaxRuntime { .. }), "{error}");
    let row = store.read(&[id_of("short", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.state, row.record.crashes), (State::Retryable, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lease_is_not_renewed_again_and_again_while_its_body_blocks() {
    static BLOCKING: Handler = Handler::new("blocking", "engine", "{key}").lease_ms(3_000);
    let store = store();
    let runtime = runtime_on(&store).await;
    let (started, has_started) = oneshot::channel();
    let (wake, woken) = std::sync::mpsc::channel();
    let body = async move {
        started.send(()).unwrap();
        woken.recv().unwrap();
        Ok(1_u8)
    };
    let zombie = tokio::spawn(async move { run(&runtime, &BLOCKING, "k", &(), body).await });
    has_started.await.unwrap();
    let record = store.read(&[id_of("blocking", "k")]).await.unwrap().remove(0).unwrap().record;
    let (id, owner, token) = (record.id, record.owner, record.token);
    let to = ReleaseTo::Retry { delay_ms: 0 };
    let reason = "another took it".to_owned();
    store.release(&[Release { id, owner, token, to, reason }]).await.unwrap();
    // One renewal is refused, a second or so from now; then there is nothing left to renew.
    let asked = store.renewals();
    while store.renewals() == asked {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    wake.send(()).unwrap();
    assert!(matches!(ours(zombie.await.unwrap()), Error::LeaseLost));
    let again = store.renewals() - asked;
    assert!(again <= 2, "asked {again} times");
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_lease_ended_before_it_began_does_not_begin() {
    static BRIEF: Handler = Handler::new("brief", "engine", "{key}").lease_ms(150);
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    // Two lost answers, and the lease has lapsed when the claim is recognised.
    store.fail("claim", Fault::AckLost, 2);
    store.fail("renew", Fault::Away, u32::MAX);
    let noted = runs.clone();
    let late = run(&runtime, &BRIEF, "k", &(), async move { Ok(noted.note()) }).await;
    assert!(matches!(ours(late), Error::LeaseLost));
    assert_eq!(runs.count(), 0);
    // Nothing ran, so nothing is counted, and nobody has to wait.
    let row = store.read(&[id_of("brief", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.state, row.record.crashes), (State::Retryable, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_body_whose_drop_panics_counts_as_a_crash() {
    static SHORT: Handler =
        Handler::new("short", "engine", "{key}").lease_ms(1_000).max_runtime_ms(3_000);
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let store = store();
    let runtime = runtime_on(&store).await;
    let call = async move {
        let body = async {
            let _bomb = Bomb;
            std::future::pending().await
        };
        run::<u8, _, _>(&runtime, &SHORT, "k", &(), body).await
    };
    let panic = tokio::spawn(call).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"dropped"));
    let row = store.read(&[id_of("short", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.state, row.record.crashes), (State::Retryable, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_room_for_the_heartbeat_keeps_the_body_running() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("heartbeat_handle", Fault::Busy, u32::MAX);
    let body = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(1_u8)
    };
    assert_eq!(run(&runtime, &LONG, "k", &(), body).await.unwrap(), 1);
}
