//! Takeovers, backoff, crashes, age.

use std::time::{Duration, SystemTime};

use idempotent_runtime::__private::{Handler, call};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::TokioClock;
use idempotent_runtime::{Clock, Error};

use crate::support::{
    Answer, AppError, PLAIN, Runs, operation, ours, run, runtime, runtime_on, store,
};

static BACKOFF: Handler = Handler::new("backoff", "engine", "{key}").backoff_ms(1_000, 4_000);

#[tokio::test(start_paused = true)]
async fn a_backoff_makes_the_next_call_wait_and_grows() {
    let runtime = runtime().await;
    for (at_least, at_most) in [(500, 1_000), (1_000, 2_000), (2_000, 4_000), (2_000, 4_000)] {
        let failing = run(&runtime, &BACKOFF, "k", &(), async { Err::<u8, _>(AppError::Unlucky) });
        assert!(matches!(failing.await, Err(AppError::Unlucky)));
        let early = run::<u8, _, _>(&runtime, &BACKOFF, "k", &(), async { panic!("ran") });
        let Error::NotDue { retry_after } = ours(early.await) else { panic!("due") };
        let bounds = Duration::from_millis(at_least)..=Duration::from_millis(at_most);
        assert!(bounds.contains(&retry_after), "{retry_after:?} not in {bounds:?}");
        tokio::time::sleep(retry_after).await;
    }
    run(&runtime, &BACKOFF, "k", &(), async { Ok(1_u8) }).await.unwrap();
}

/// Claims `key` as a process that then dies.
async fn die_with(store: &crate::support::Faulty, key: &str) {
    let runtime = runtime_on(store).await;
    // A completion that never arrives leaves the execution running; its process then goes away.
    store.fail("complete", crate::support::Fault::Refused, 1);
    let answer = run(&runtime, &PLAIN, key, &(), async { Ok(0_u32) }).await;
    assert!(matches!(ours(answer), Error::Unrecorded { .. }));
    store.heal();
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_execution_is_taken_over_and_not_before() {
    let store = store();
    die_with(&store, "k").await;
    let (runtime, runs) = (runtime_on(&store).await, Runs::default());
    let early = run::<u32, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await;
    let Error::InFlight { retry_after } = ours(early) else { panic!("not in flight") };
    assert!(retry_after <= Duration::from_secs(30), "{retry_after:?}");
    tokio::time::sleep(retry_after + Duration::from_millis(1)).await;
    let noted = runs.clone();
    let late = run(&runtime, &PLAIN, "k", &(), async move { Ok(noted.note()) }).await;
    assert_eq!(late.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn more_crashes_than_allowed_end_in_review() {
    let store = store();
    for _ in 0..=8 {
        die_with(&store, "k").await;
        tokio::time::sleep(Duration::from_secs(31)).await;
    }
    let runtime = runtime_on(&store).await;
    for _ in 0..2 {
        let answer = run::<u32, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await;
        let Error::NeedsReview { reason } = ours(answer) else { panic!("not in review") };
        assert!(reason.contains("max_crashes"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn returned_errors_are_no_crashes() {
    let runtime = runtime().await;
    for _ in 0..20 {
        let failing = run(&runtime, &PLAIN, "k", &(), async { Err::<u8, _>(AppError::Unlucky) });
        assert!(matches!(failing.await, Err(AppError::Unlucky)));
    }
    run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_old_operation_is_refused_where_it_may_have_been_purged() {
    let (clock, runtime, runs) = (TokioClock::new(), runtime().await, Runs::default());
    let issued = |days: u64| {
        let now =
            SystemTime::UNIX_EPOCH + Duration::from_micros(clock.now_us().try_into().unwrap());
        now - Duration::from_hours(24 * days)
    };
    for (key, days, fresh) in [("old", 31, false), ("young", 29, true)] {
        let mut operation = operation(&runtime, &PLAIN, key, &());
        operation.issued_at(&issued(days));
        let noted = runs.clone();
        let answer =
            call::<Answer<u32>>(operation, None).finish(async move { Ok(noted.note()) }).await;
        match answer {
            Ok(_) => assert!(fresh),
            Err(AppError::Idempotent(Error::TooOld)) => assert!(!fresh),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_old_operation_that_is_still_there_is_answered() {
    let (clock, runtime) = (TokioClock::new(), runtime().await);
    run(&runtime, &PLAIN, "k", &(), async { Ok(1_u32) }).await.unwrap();
    let mut operation = operation(&runtime, &PLAIN, "k", &());
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(clock.now_us().try_into().unwrap());
    operation.issued_at(&(now - Duration::from_hours(24 * 31)));
    let answer = call::<Answer<u32>>(operation, None).finish(async { panic!("ran") }).await;
    assert_eq!(answer.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_row_carries_the_handlers_limits() {
    static OWN: Handler = Handler::new("own", "engine", "{key}")
        .lease_ms(1_000)
        .max_runtime_ms(60_000)
        .max_crashes(3)
        .retain_ms(86_400_000)
        .version(7, (5, 7));
    let store = store();
    let runtime = runtime_on(&store).await;
    let held = store.clone();
    let body = async move {
        let reaped = held.reap(None, None, 10).await.unwrap();
        assert!(reaped.lapsed.is_empty());
        Err::<u8, _>(AppError::Unlucky)
    };
    run(&runtime, &OWN, "k", &(), body).await.unwrap_err();
    let id = crate::support::id_of("own", "k");
    let row = store.read(&[id]).await.unwrap().remove(0).unwrap();
    let limits = row.record.limits;
    let stored = (limits.lease_ms, limits.max_runtime_ms, limits.crashes_max, limits.retain_ms);
    assert_eq!(stored, (1_000, 60_000, 3, 86_400_000));
    assert_eq!((row.record.version, row.record.attempts, row.record.crashes), (7, 1, 0));
    assert_eq!(row.identity.key.as_deref(), Some("k"));
}
