//! Callers who want the same execution at the same time.

use std::time::Duration;

use idempotent_runtime::__private::Handler;
use idempotent_runtime::{Answer, Error, Observed, observe};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::support::{AppError, PLAIN, Runs, ours, run, runtime, runtime_on, store};

static WAITING: Handler =
    Handler::new("waiting", "engine", "{key}").fingerprint(&["payload"]).wait_ms(5_000);

#[tokio::test(start_paused = true)]
async fn fifty_callers_who_wait_share_one_run_and_one_answer() {
    let (runtime, runs) = (runtime().await, Runs::default());
    let mut callers = JoinSet::new();
    for _ in 0..50 {
        let (runtime, noted) = (runtime.clone(), runs.clone());
        callers.spawn(async move {
            let body = async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(noted.note())
            };
            observe(run(&runtime, &WAITING, "k", &1, body)).await
        });
    }
    let answers = callers.join_all().await;
    let executed = answers.iter().filter(|answer| answer.answer == Some(Answer::Executed)).count();
    let joined = answers.iter().filter(|answer| answer.answer == Some(Answer::Joined)).count();
    assert_eq!((runs.count(), executed, joined), (1, 1, 49));
    assert!(answers.into_iter().all(|answer| answer.output.unwrap() == 1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_does_not_wait_is_told_when_to_come_back() {
    let runtime = runtime().await;
    let first = runtime.clone();
    let (started, has_started) = oneshot::channel();
    let body = async move {
        started.send(()).unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(1_u8)
    };
    let running = tokio::spawn(async move { run(&first, &PLAIN, "k", &1, body).await });
    has_started.await.unwrap();
    let second = run::<u8, _, _>(&runtime, &PLAIN, "k", &1, async { panic!("ran") }).await;
    let Error::InFlight { retry_after } = ours(second) else { panic!("not in flight") };
    assert_eq!(retry_after, Duration::from_secs(30));
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_no_longer_than_he_said() {
    let runtime = runtime().await;
    let first = runtime.clone();
    let slow = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(1_u8)
    };
    let running = tokio::spawn(async move { run(&first, &WAITING, "k", &1, slow).await });
    tokio::task::yield_now().await;
    let started = tokio::time::Instant::now();
    let second = run::<u8, _, _>(&runtime, &WAITING, "k", &1, async { panic!("ran") }).await;
    assert!(matches!(ours(second), Error::InFlight { .. }));
    assert_eq!(started.elapsed().as_secs(), 5);
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_refused_while_in_flight() {
    let runtime = runtime().await;
    let first = runtime.clone();
    let slow = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(1_u8)
    };
    let running = tokio::spawn(async move { run(&first, &WAITING, "k", &1, slow).await });
    tokio::task::yield_now().await;
    let second = run::<u8, _, _>(&runtime, &WAITING, "k", &2, async { panic!("ran") }).await;
    assert!(matches!(ours(second), Error::PayloadMismatch { .. }));
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_refused_while_another_process_runs() {
    let store = store();
    let (first, second) = (runtime_on(&store).await, runtime_on(&store).await);
    let slow = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(1_u8)
    };
    let running = tokio::spawn(async move { run(&first, &WAITING, "k", &1, slow).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let other = run::<u8, _, _>(&second, &WAITING, "k", &2, async { panic!("ran") }).await;
    assert!(matches!(ours(other), Error::PayloadMismatch { .. }));
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_another_process_too() {
    let store = store();
    let (first, second) = (runtime_on(&store).await, runtime_on(&store).await);
    let slow = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(1_u8)
    };
    let running = tokio::spawn(async move { run(&first, &WAITING, "k", &1, slow).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let waited =
        observe(run::<u8, _, _>(&second, &WAITING, "k", &1, async { panic!("ran") })).await;
    assert_eq!((waited.output.unwrap(), waited.answer), (1, Some(Answer::Replayed)));
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_fails_a_follower_claims_for_himself() {
    let (runtime, runs) = (runtime().await, Runs::default());
    let first = runtime.clone();
    let failing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Err::<u32, _>(AppError::Unlucky)
    };
    let leader = tokio::spawn(async move { run(&first, &WAITING, "k", &1, failing).await });
    tokio::task::yield_now().await;
    let noted = runs.clone();
    let follower = run(&runtime, &WAITING, "k", &1, async move { Ok(noted.note()) }).await;
    assert_eq!((follower.unwrap(), runs.count()), (1, 1));
    assert!(matches!(leader.await.unwrap(), Err(AppError::Unlucky)));
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_panics_a_follower_claims_for_himself() {
    let runtime = runtime().await;
    let first = runtime.clone();
    let failing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        panic!("boom")
    };
    let leader =
        tokio::spawn(async move { run::<u8, _, _>(&first, &WAITING, "k", &1, failing).await });
    tokio::task::yield_now().await;
    let follower = run(&runtime, &WAITING, "k", &1, async { Ok(2_u8) }).await;
    assert_eq!(follower.unwrap(), 2);
    assert!(leader.await.unwrap_err().is_panic());
}

#[tokio::test(start_paused = true)]
async fn a_leader_with_a_wrong_payload_does_not_mislead_his_followers() {
    let runtime = runtime().await;
    run(&runtime, &WAITING, "k", &1, async { Ok(1_u8) }).await.unwrap();
    let call = async |payload: u8| {
        observe(run::<u8, _, _>(&runtime, &WAITING, "k", &payload, async { panic!("ran") })).await
    };
    let (wrong, right, other): (Observed<_>, Observed<_>, Observed<_>) =
        tokio::join!(call(2), call(1), call(3));
    assert!(matches!(ours(wrong.output), Error::PayloadMismatch { .. }));
    assert_eq!(right.output.unwrap(), 1);
    assert!(matches!(ours(other.output), Error::PayloadMismatch { .. }));
}

#[tokio::test(start_paused = true)]
async fn callers_of_a_finished_execution_are_all_answered_without_waiting() {
    let runtime = runtime().await;
    run(&runtime, &PLAIN, "k", &1, async { Ok(1_u8) }).await.unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..50 {
        let runtime = runtime.clone();
        callers.spawn(async move {
            run::<u8, _, _>(&runtime, &PLAIN, "k", &1, async { panic!("ran") }).await
        });
    }
    assert!(callers.join_all().await.into_iter().all(|answer| answer.unwrap() == 1));
}

#[tokio::test(start_paused = true)]
async fn a_follower_gets_what_the_leader_stored_even_if_it_cannot_be_stored() {
    let runtime = runtime().await;
    let first = runtime.clone();
    let infinite = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(f64::INFINITY)
    };
    let leader = tokio::spawn(async move { run(&first, &WAITING, "k", &1, infinite).await });
    tokio::task::yield_now().await;
    let follower = run::<f64, _, _>(&runtime, &WAITING, "k", &1, async { panic!("ran") }).await;
    assert!(matches!(ours(follower), Error::ResultUnavailable { .. }));
    assert!(leader.await.unwrap().unwrap().is_infinite());
}
