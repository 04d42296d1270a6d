//! Callers who leave.

use std::time::Duration;

use idempotent_runtime::protocol::State;
use idempotent_runtime::store::Store;
use idempotent_runtime::{Error, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::support::{PLAIN, Runs, id_of, ours, run, run_abandon, runtime, runtime_on, store};

#[tokio::test(start_paused = true)]
async fn under_finish_the_body_goes_on_when_its_caller_leaves() {
    let (runtime, runs) = (runtime().await, Runs::default());
    let noted = runs.clone();
    let body = async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(noted.note())
    };
    timeout(Duration::from_secs(1), run(&runtime, &PLAIN, "k", &(), body)).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let answer = run(&runtime, &PLAIN, "k", &(), async { Ok(0) }).await;
    assert_eq!((answer.unwrap(), runs.count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn under_abandon_the_body_is_dropped_with_its_caller_and_the_next_call_runs() {
    let (runtime, runs) = (runtime().await, Runs::default());
    let endless = run_abandon::<u32, _>(&runtime, "k", std::future::pending());
    timeout(Duration::from_secs(1), endless).await.unwrap_err();
    let noted = runs.clone();
    let answer = run_abandon(&runtime, "k", async move { Ok(noted.note()) }).await;
    assert_eq!(answer.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_body_need_not_be_send() {
    let runtime = runtime().await;
    let local = std::rc::Rc::new(1_u8);
    let body = async move {
        tokio::task::yield_now().await;
        Ok(*local)
    };
    assert_eq!(run_abandon(&runtime, "k", body).await.unwrap(), 1);
}

/// Drops a call after each of its polls in turn; whatever had happened until then, no key stays blocked.
#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_at_any_await_leaves_no_claimed_and_unrun_key() {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;
    let store = store();
    let (runtime, runs) = (runtime_on(&store).await, Runs::default());
    for polls in 1..8 {
        let key = format!("k{polls}");
        {
            let noted = runs.clone();
            let body = async move { Ok(noted.note()) };
            let mut call = pin!(run(&runtime, &PLAIN, &key, &(), body));
            let mut left = polls;
            poll_fn(|cx| {
                left -= 1;
                let done = call.as_mut().poll(cx).is_ready();
                if done || left == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        // Whatever the call had spawned comes to its end before time moves on.
        tokio::time::sleep(Duration::from_millis(1)).await;
        if let Some(row) = store.read(&[id_of("plain", &key)]).await.unwrap().remove(0) {
            assert_ne!(row.record.state, State::Running, "after {polls} polls");
        }
        let noted = runs.clone();
        run(&runtime, &PLAIN, &key, &(), async move { Ok(noted.note()) }).await.unwrap();
    }
}

#[test]
fn a_body_whose_runtime_ends_is_released_and_its_caller_told() {
    let home =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = store();
    let runtime = home.block_on(runtime_on(&store));
    let guest = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (started, has_started) = oneshot::channel();
    let shared = runtime.clone();
    guest.block_on(async move {
        tokio::spawn(async move {
            let body = async move {
                started.send(()).unwrap();
                std::future::pending().await
            };
            run::<u8, _, _>(&shared, &PLAIN, "k", &(), body).await
        });
        has_started.await.unwrap();
    });
    drop(guest);
    home.block_on(async {
        runtime.shutdown(Duration::from_secs(5)).await;
        let row = store.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap();
        assert_eq!(row.record.state, State::Retryable);
    });
}

#[test]
fn a_runtime_whose_tokio_runtime_has_ended_says_so() {
    let home = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtime = home.block_on(runtime_on(&store()));
    drop(home);
    let guest = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer =
        guest.block_on(run::<u8, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }));
    let error = ours(answer);
    assert!(matches!(error, Error::RuntimeEnded), "{error}");
    assert!(error.to_string().contains("scope"), "{error}");
}

#[test]
fn a_claim_that_nobody_can_release_any_more_is_not_renewed_either() {
    let current_thread =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (home, guest) = (current_thread(), current_thread());
    // Its heartbeat has a thread of its own, which outlives the connections' runtime.
    let build = Runtime::builder("engine").store(store()).reaper(false);
    let runtime = home.block_on(build.connect()).unwrap();
    let (started, has_started) = oneshot::channel();
    let shared = runtime.clone();
    let running = guest.spawn(async move {
        let body = async move {
            started.send(()).unwrap();
            std::future::pending().await
        };
        run::<u8, _, _>(&shared, &PLAIN, "k", &(), body).await
    });
    // The claim needs its home until it is granted.
    let home_thread = std::thread::spawn(move || {
        let (stop, stopped) = oneshot::channel::<()>();
        (stop, std::thread::spawn(move || home.block_on(stopped)))
    });
    let (stop, home) = home_thread.join().unwrap();
    guest.block_on(has_started).unwrap();
    stop.send(()).unwrap();
    home.join().unwrap().unwrap();
    drop((running, guest));
    let drained = current_thread().block_on(runtime.shutdown(Duration::ZERO));
    assert_eq!(drained.cancelled, 0);
}
