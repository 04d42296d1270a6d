//! Callers who want the same execution at the same time.

use std::pin::Pin;
use std::time::Duration;

use idempotent_runtime::__private::{Handler, call};
use idempotent_runtime::{Answer, Error, Observed, Runtime, observe};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::support::{
    self, AppError, PLAIN, Runs, operation, ours, run, runtime, runtime_on, store,
};

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
    let started = Instant::now();
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

/// Renewed for two seconds, whatever its body does.
static BRIEF: Handler = Handler::new("brief", "engine", "{key}")
    .fingerprint(&["payload"])
    .lease_ms(1_000)
    .max_runtime_ms(2_000);

/// The same, and a duplicate waits.
static PATIENT: Handler = Handler::new("brief", "engine", "{key}")
    .fingerprint(&["payload"])
    .lease_ms(1_000)
    .max_runtime_ms(2_000)
    .wait_ms(60_000);

/// A call whose body has begun and is polled by nobody from here on. It returns 1 if it is woken.
async fn stopped(
    runtime: &Runtime,
) -> (oneshot::Sender<()>, Pin<Box<dyn Future<Output = support::Answer<u8>>>>) {
    let (wake, woken) = oneshot::channel();
    let body = async move {
        woken.await.unwrap();
        Ok(1_u8)
    };
    let call = call::<support::Answer<u8>>(operation(runtime, &BRIEF, "k", &1), None);
    let mut call = Box::pin(call.abandon(body));
    assert!(timeout(Duration::from_millis(1), &mut call).await.is_err());
    (wake, call)
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_polls_holds_its_key_in_its_own_process_no_longer_than_in_others() {
    let runtime = runtime().await;
    let (wake, call) = stopped(&runtime).await;
    for _ in 0..3 {
        let early = run::<u8, _, _>(&runtime, &BRIEF, "k", &1, async { panic!("ran") }).await;
        let Error::InFlight { retry_after } = ours(early) else { panic!("not in flight") };
        assert!(retry_after > Duration::ZERO, "a consumer would come back at once");
        tokio::time::sleep(retry_after + Duration::from_millis(1)).await;
    }
    assert_eq!(run(&runtime, &BRIEF, "k", &1, async { Ok(2_u8) }).await.unwrap(), 2);
    wake.send(()).unwrap();
    assert!(matches!(ours(call.await), Error::LeaseLost));
    let last = run::<u8, _, _>(&runtime, &BRIEF, "k", &1, async { panic!("ran") }).await;
    assert_eq!(last.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_waits_for_a_body_that_nobody_polls_runs_when_its_lease_has_lapsed() {
    let runtime = runtime().await;
    let (_wake, _call) = stopped(&runtime).await;
    let began = Instant::now();
    let waited = observe(run(&runtime, &PATIENT, "k", &1, async { Ok(2_u8) })).await;
    assert_eq!((waited.output.unwrap(), waited.answer), (2, Some(Answer::Executed)));
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(4), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_leader_does_who_was_left_behind_does_not_touch_his_successors_followers() {
    let runtime = runtime().await;
    let (wake, call) = stopped(&runtime).await;
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let (finish, finished) = oneshot::channel::<()>();
    let body = async move {
        finished.await.unwrap();
        Ok(2_u8)
    };
    let second = runtime.clone();
    let second = tokio::spawn(async move { run(&second, &PATIENT, "k", &1, body).await });
    let third = runtime.clone();
    let third = tokio::spawn(async move {
        observe(run::<u8, _, _>(&third, &PATIENT, "k", &1, async { panic!("ran") })).await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    wake.send(()).unwrap();
    assert!(matches!(ours(call.await), Error::LeaseLost));
    let fourth = observe(run::<u8, _, _>(&runtime, &PATIENT, "k", &1, async { panic!("ran") }));
    let mut fourth = Box::pin(fourth);
    assert!(timeout(Duration::from_millis(1), &mut fourth).await.is_err());
    finish.send(()).unwrap();
    assert_eq!(second.await.unwrap().unwrap(), 2);
    for joined in [third.await.unwrap(), fourth.await] {
        assert_eq!((joined.output.unwrap(), joined.answer), (2, Some(Answer::Joined)));
    }
}

#[tokio::test]
async fn a_body_that_blocks_its_thread_is_taken_over_in_its_own_process() {
    static BLOCKING: Handler = Handler::new("blocking", "engine", "{key}")
        .lease_ms(1_500)
        .max_runtime_ms(1_500)
        .wait_ms(60_000);
    let runtime = runtime().await;
    let (started, has_started) = oneshot::channel();
    let (wake, woken) = std::sync::mpsc::channel::<()>();
    let body = async move {
        started.send(()).unwrap();
        woken.recv().unwrap();
        Ok(1_u8)
    };
    let first = runtime.clone();
    // It blocks a tokio runtime of its own, or it might block the timer that this test waits for.
    let blocked = std::thread::spawn(move || {
        let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tasks.block_on(run(&first, &BLOCKING, "k", &1, body))
    });
    has_started.await.unwrap();
    assert_eq!(run(&runtime, &BLOCKING, "k", &1, async { Ok(2_u8) }).await.unwrap(), 2);
    wake.send(()).unwrap();
    let blocked = tokio::task::spawn_blocking(|| blocked.join().unwrap());
    assert!(matches!(ours(blocked.await.unwrap()), Error::LeaseLost));
}
