//! Sinks that do not come back.

use std::future::pending;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use idempotent_runtime::outbox::{self, Delivery, Relay, Route, SinkError, SinkExt};
use idempotent_runtime::protocol::MessageState;
use idempotent_runtime::step::Found;
use idempotent_runtime::{Error, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support::{Faulty, PLAIN, Runs, run, runtime_on, store};

const MINUTE: Duration = Duration::from_mins(1);

/// A runtime with a message that was sent.
async fn sent(store: &Faulty) -> Runtime {
    let runtime = runtime_on(store).await;
    run(&runtime, &PLAIN, "k", &(), async { Ok(outbox::send("out", &1)?) }).await.unwrap();
    runtime
}

fn relay(runtime: &Runtime, route: Route) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(Relay::new(runtime).sink("out", route).run())
}

/// Waits until the message stands so.
async fn stands(store: &Faulty, state: MessageState) {
    while store.inner.all_messages().unwrap()[0].state != state {
        sleep(Duration::from_millis(10)).await;
    }
}

/// A sink that never answers the first time.
fn hangs_once(tries: &Runs) -> impl outbox::Sink + use<> {
    let tries = tries.clone();
    move |_: Delivery| {
        let first = tries.note() == 1;
        async move { if first { pending().await } else { Ok::<(), SinkError>(()) } }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_never_answers_is_cut_off_and_asked_again() {
    let (store, tries, began) = (store(), Runs::default(), Instant::now());
    let runtime = sent(&store).await;
    let relay = relay(&runtime, Route::new(hangs_once(&tries)));
    stands(&store, MessageState::Delivered).await;
    relay.abort();
    let took = began.elapsed();
    assert!(took > 15 * MINUTE && took < 16 * MINUTE, "{took:?}");
    assert_eq!(tries.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_never_answers_ends_dead_and_not_held_for_ever() {
    let (store, tries) = (store(), Runs::default());
    let runtime = sent(&store).await;
    let noted = tries.clone();
    let never = Route::new(move |_: Delivery| {
        noted.note();
        pending()
    });
    let relay = relay(&runtime, never.timeout(MINUTE).max_attempts(3));
    stands(&store, MessageState::Dead).await;
    relay.abort();
    assert_eq!(tries.count(), 3);
    let error = store.inner.all_messages().unwrap()[0].last_error.clone().unwrap();
    assert!(error.contains("longer than 60s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_off_may_have_arrived_and_is_not_sent_again_at_most_once() {
    let (store, tries) = (store(), Runs::default());
    let runtime = sent(&store).await;
    let relay = relay(&runtime, hangs_once(&tries).at_most_once().timeout(MINUTE));
    stands(&store, MessageState::Review).await;
    relay.abort();
    assert_eq!(tries.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_off_is_asked_for_and_so_is_a_question_that_never_answers() {
    let (store, tries, asked) = (store(), Runs::default(), Runs::default());
    let runtime = sent(&store).await;
    let questions = asked.clone();
    let question = move |_: Delivery| {
        let first = questions.note() == 1;
        async move { if first { pending().await } else { Ok(Found::Happened(())) } }
    };
    let relay = relay(&runtime, hangs_once(&tries).reconcile(question).timeout(MINUTE));
    stands(&store, MessageState::Delivered).await;
    relay.abort();
    assert_eq!((tries.count(), asked.count()), (1, 2));
}

/// It cannot be cut off, but another relay gets the message.
#[tokio::test]
async fn a_sink_that_blocks_its_thread_loses_its_message_to_another_relay() {
    let store = store();
    let (runtime, other) = (sent(&store).await, runtime_on(&store).await);
    let (wake, woken) = mpsc::channel::<()>();
    let woken = Mutex::new(woken);
    let (lease, brief) = (Duration::from_millis(200), Duration::from_millis(300));
    let blocks = Route::new(move |_: Delivery| {
        // Until nobody can wake it any more; it may claim the message again, and block the other thread, too.
        let _ = woken.lock().unwrap().recv();
        async { Ok(()) }
    });
    // It blocks one of the two threads of a tokio runtime of its own; the other one renews, as long as somebody keeps it
    // from waiting for the first to look at the timer.
    let (stop, stopped) = mpsc::channel::<()>();
    let blocked = std::thread::spawn(move || {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let tasks = threads.worker_threads(2).enable_all().build().unwrap();
        let relay = Relay::new(&runtime).sink("out", blocks.lease(lease).timeout(brief)).run();
        let relay = tasks.spawn(relay);
        while stopped.recv_timeout(Duration::from_millis(10)).is_err() {
            drop(tasks.spawn(async {}));
        }
        relay.abort();
    });
    stands(&store, MessageState::Sending).await;
    let arrived = Runs::default();
    let noted = arrived.clone();
    let answers = Route::new(move |_: Delivery| {
        noted.note();
        async { Ok(()) }
    });
    let answering = relay(&other, answers.lease(lease));
    stands(&store, MessageState::Delivered).await;
    answering.abort();
    assert_eq!(arrived.count(), 1);
    drop(wake);
    stop.send(()).unwrap();
    tokio::task::spawn_blocking(|| blocked.join().unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_is_refused() {
    let runtime = runtime_on(&store()).await;
    let route = Route::new(|_: Delivery| async { Ok(()) }).timeout(Duration::ZERO);
    let refused = Relay::new(&runtime).sink("out", route).run().await.unwrap_err();
    assert!(matches!(refused, Error::Config { setting: "timeout", .. }), "{refused}");
}
