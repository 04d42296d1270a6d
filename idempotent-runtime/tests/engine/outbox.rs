//! Sending and relaying: what is lost on the way, and when what is tried again.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use idempotent_runtime::__private::Handler;
use idempotent_runtime::outbox::{self, Delivery, Relay, Route, SinkError};
use idempotent_runtime::protocol::MessageState;
use idempotent_runtime::{Error, Execution, Runtime, step};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{
    AppError, Fault, Faulty, PLAIN, Runs, ours, run, run_abandon, run_terminal, runtime,
    runtime_on, store,
};

const LEASE: Duration = Duration::from_secs(30);

/// Sends `body` to `out` from a handler of its own.
async fn send(runtime: &Runtime, body: &'static str) {
    let sent = async move {
        outbox::send("out", body)?;
        Ok(())
    };
    run(runtime, &PLAIN, body, &(), sent).await.unwrap();
}

/// What arrived, and when.
#[derive(Clone, Debug, Default)]
struct Arrived(Arc<Mutex<Vec<(String, Duration)>>>);

impl Arrived {
    /// A sink that answers as `answer` says of the number of the delivery.
    fn sink<A>(&self, answer: A) -> Route
    where
        A: Fn(u32) -> Result<(), SinkError> + Send + Sync + 'static,
    {
        let (arrived, began) = (Arc::clone(&self.0), Instant::now());
        Route::new(move |delivery: Delivery| {
            let at = Instant::now() - began;
            arrived.lock().unwrap().push((delivery.id().to_owned(), at));
            let answer = answer(delivery.attempt());
            async move { answer }
        })
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn times(&self) -> Vec<Duration> {
        self.0.lock().unwrap().iter().map(|(_, at)| *at).collect()
    }

    fn ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.0.lock().unwrap().iter().map(|(id, _)| id.clone()).collect();
        ids.dedup();
        ids
    }
}

fn relay(runtime: &Runtime, route: impl Into<Route>) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(Relay::new(runtime).sink("out", route).run())
}

/// Waits until no message is pending or sending.
async fn settled(store: &Faulty) -> Vec<MessageState> {
    loop {
        let states: Vec<_> =
            store.inner.all_messages().unwrap().iter().map(|message| message.state).collect();
        if !states.iter().any(|it| matches!(it, MessageState::Pending | MessageState::Sending)) {
            return states;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a message to \"out\" was sent outside the body")]
async fn a_message_outside_a_handler_panics() {
    let _ = outbox::send("out", &1);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_sent_is_not_taken_for_a_terminal_error() {
    let (store, terminal) = (store(), async {
        let refused = outbox::send("", &1).unwrap_err();
        assert!(matches!(refused, Error::MessageRefused { .. }));
        Err::<(), _>(AppError::Declined)
    });
    let runtime = runtime_on(&store).await;
    run_terminal(&runtime, "a", terminal).await.unwrap_err();
    // Released, and not stored as its outcome.
    run_terminal(&runtime, "a", async { Ok(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_sends_at_most_a_thousand_messages() {
    let sent = async {
        for number in 0..1_000 {
            outbox::send("out", &number)?;
        }
        outbox::send("out", &1_000)?;
        Ok(())
    };
    let refused = ours(run(&runtime().await, &PLAIN, "a", &(), sent).await);
    assert!(matches!(refused, Error::MessageRefused { .. }), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_of_errors_panics_and_terminal_errors_are_discarded() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let unlucky = async {
        outbox::send("out", &1)?;
        Err::<(), _>(AppError::Unlucky)
    };
    run(&runtime, &PLAIN, "a", &(), unlucky).await.unwrap_err();
    let declined = async {
        outbox::send("out", &1)?;
        Err::<(), _>(AppError::Declined)
    };
    run_terminal(&runtime, "b", declined).await.unwrap_err();
    assert_eq!(store.inner.all_messages().unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_spawned_task_sends_in_the_executions_name_until_it_ends() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let (late, told) = tokio::sync::oneshot::channel();
    let sent = async {
        let execution = Execution::current();
        let early = execution.clone().scope(async { outbox::send("out", &1) });
        tokio::spawn(early).await.unwrap()?;
        tokio::spawn(execution.scope(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            late.send(outbox::send("out", &2)).unwrap();
        }));
        Ok(())
    };
    run(&runtime, &PLAIN, "a", &(), sent).await.unwrap();
    assert!(matches!(told.await.unwrap(), Err(Error::MessageRefused { .. })));
    assert_eq!(store.inner.all_messages().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_sends_no_message_since_a_replay_would_not() {
    let store = store();
    let runtime = runtime_on(&store).await;
    for attempt in 1..=2 {
        let body = async move {
            let inside = async |_| Ok::<_, AppError>(outbox::send("out", &1)?);
            step("pay").run(inside).await?;
            if attempt == 1 { Err(AppError::Unlucky) } else { Ok(()) }
        };
        let refused = ours(run::<(), _, _>(&runtime, &PLAIN, "a", &(), body).await);
        assert!(matches!(&refused, Error::MessageRefused { .. }), "{refused:?}");
        assert!(refused.to_string().contains("behind the step"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_inside_a_step_sends_its_own_messages() {
    static INNER: Handler = Handler::new("inner", "engine", "{key}");
    let store = store();
    let runtime = runtime_on(&store).await;
    let nested = runtime.clone();
    let body = async move {
        let inner = async |_| {
            let sent = async { Ok(outbox::send("out", &1)?) };
            run::<(), _, _>(&nested, &INNER, "a", &(), sent).await?;
            run_abandon::<(), _>(&nested, "b", async { Ok(outbox::send("out", &2)?) }).await
        };
        step("inner").run(inner).await
    };
    run::<(), _, _>(&runtime, &PLAIN, "a", &(), body).await.unwrap();
    assert_eq!(store.inner.all_messages().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_answer_is_lost_sends_once() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("complete", Fault::AckLost, 2);
    send(&runtime, "a").await;
    assert_eq!(store.inner.all_messages().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_is_lost_is_asked_for_again() {
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    store.fail("claim_messages", Fault::AckLost, 3);
    let arrived = Arrived::default();
    // At most once, so that a lapse would be a review.
    let relay = relay(&runtime, arrived.sink(|_| Ok(())).at_most_once());
    assert_eq!(settled(&store).await, [MessageState::Delivered]);
    relay.abort();
    assert_eq!(arrived.count(), 1);
    assert!(arrived.times()[0] < LEASE / 2, "it did not wait for its own lease to lapse");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_late_is_not_delivered_beyond_its_lease() {
    let store = store();
    let (first, second) = (runtime_on(&store).await, runtime_on(&store).await);
    send(&first, "a").await;
    let (began, overlaps) = (Runs::default(), Arc::new(Mutex::new((0, 0))));
    let reconciling = || {
        let (began, overlaps) = (began.clone(), Arc::clone(&overlaps));
        Route::new(move |_: Delivery| {
            let (began, overlaps) = (began.clone(), Arc::clone(&overlaps));
            async move {
                began.note();
                {
                    let mut it = overlaps.lock().unwrap();
                    it.0 += 1;
                    it.1 = it.1.max(it.0);
                }
                tokio::time::sleep(Duration::from_secs(8)).await;
                overlaps.lock().unwrap().0 -= 1;
                Ok(())
            }
        })
        .reconcile(|_| async { Ok(idempotent_runtime::Found::DidNotHappen) })
    };
    // The claim's answer is lost, and the store stays away until shortly before the lease ends.
    store.fail("claim_messages", Fault::AckLost, 1);
    store.fail("claim_messages", Fault::Away, u32::MAX);
    let one = relay(&first, reconciling());
    tokio::time::sleep(LEASE - Duration::from_secs(1)).await;
    store.heal();
    let two = relay(&second, reconciling());
    assert_eq!(settled(&store).await, [MessageState::Delivered]);
    one.abort();
    two.abort();
    assert_eq!((began.count(), overlaps.lock().unwrap().1), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_whose_answer_is_lost_is_written_once() {
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    store.fail("end_deliveries", Fault::AckLost, 3);
    let arrived = Arrived::default();
    let relay = relay(&runtime, arrived.sink(|_| Ok(())));
    assert_eq!(settled(&store).await, [MessageState::Delivered]);
    tokio::time::sleep(LEASE * 2).await;
    relay.abort();
    assert_eq!(arrived.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_that_comes_too_late_means_another_delivery_of_the_same_id() {
    let store = store();
    let (first, second) = (runtime_on(&store).await, runtime_on(&store).await);
    send(&first, "a").await;
    let arrived = Arrived::default();
    let sink = arrived.sink(|_| Ok(()));
    let one = relay(&first, sink.clone());
    store.fail("end_deliveries", Fault::Away, u32::MAX);
    while arrived.count() == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    one.abort();
    one.await.unwrap_err(); // Gone before the store is back.
    store.heal();
    let _two = relay(&second, sink);
    assert_eq!(settled(&store).await, [MessageState::Delivered]);
    assert_eq!((arrived.count(), arrived.ids().len()), (2, 1));
    assert!(arrived.times()[1] > LEASE);
}

#[tokio::test(start_paused = true)]
async fn a_relay_killed_at_any_point_loses_nothing_and_delivers_at_most_once_where_asked() {
    // The store's call that is the last before the kill, and how often a message may have begun by then.
    let points = [
        ("claim_messages", Fault::Away, 0),
        ("claim_messages", Fault::AckLost, 0),
        ("end_deliveries", Fault::Away, 1),
        ("end_deliveries", Fault::AckLost, 1),
    ];
    for (call, fault, begun) in points {
        for once in [false, true] {
            let store = store();
            let runtime = runtime_on(&store).await;
            send(&runtime, "a").await;
            let arrived = Arrived::default();
            let sink = arrived.sink(|_| Ok(()));
            let sink = if once { sink.at_most_once() } else { sink };
            store.fail(call, fault, u32::MAX);
            let killed = relay(&runtime, sink.clone());
            tokio::time::sleep(Duration::from_secs(5)).await;
            killed.abort();
            assert!(killed.await.unwrap_err().is_cancelled());
            assert_eq!(arrived.count(), begun, "{call} {fault:?}");
            store.heal();
            let next = relay(&runtime, sink);
            let state = settled(&store).await;
            next.abort();
            let acknowledged = call == "end_deliveries" && fault == Fault::AckLost;
            let claimed = fault == Fault::AckLost || begun == 1;
            let expected = match once {
                true if claimed && !acknowledged => MessageState::Review,
                _ => MessageState::Delivered,
            };
            assert_eq!(state, [expected], "{call} {fault:?} {once}");
            let most = if once || acknowledged { 1 } else { begun + 1 };
            assert!(arrived.count() <= most && arrived.ids().len() <= 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tries_back_off_and_the_last_one_is_dead() {
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    let arrived = Arrived::default();
    let sink = arrived.sink(|_| Err(SinkError::retry("503")));
    let sink = sink.max_attempts(5).backoff(Duration::from_secs(10), Duration::from_secs(40));
    let relay = relay(&runtime, sink);
    assert_eq!(settled(&store).await, [MessageState::Dead]);
    relay.abort();
    let times = arrived.times();
    let waits: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(waits.len(), 4);
    // Between a half and the whole of 10, 20, 40 and 40 seconds, and a look.
    for (wait, whole) in waits.into_iter().zip([10, 20, 40, 40]) {
        assert!((whole / 2..=whole + 2).contains(&wait), "{wait} s of {whole} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_says_itself_when_to_try_again() {
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    let arrived = Arrived::default();
    let busy = || SinkError::not_delivered("429").after(Duration::from_mins(10));
    let relay = relay(
        &runtime,
        arrived.sink(move |attempt| if attempt == 1 { Err(busy()) } else { Ok(()) }),
    );
    assert_eq!(settled(&store).await, [MessageState::Delivered]);
    relay.abort();
    let waited = arrived.times()[1] - arrived.times()[0];
    assert!((600..=602).contains(&waited.as_secs()), "{waited:?}");
}

/// One that is away for long, and asks for a second each time, or for none.
#[tokio::test(start_paused = true)]
async fn a_sink_that_wants_to_be_tried_soon_does_not_use_up_the_tries() {
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    let arrived = Arrived::default();
    let soon = |attempt: u32| SinkError::retry("503").after(Duration::from_secs(attempt.into()));
    let sink = arrived.sink(move |attempt| Err(soon(attempt % 2)));
    let sink = sink.max_attempts(4).backoff(Duration::from_secs(10), Duration::from_secs(40));
    let relay = relay(&runtime, sink);
    assert_eq!(settled(&store).await, [MessageState::Dead]);
    relay.abort();
    let times = arrived.times();
    let mut waits = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs());
    assert!([5, 10, 20].into_iter().all(|least| waits.next() >= Some(least)), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_refuses_for_good_is_not_tried_again() {
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    let arrived = Arrived::default();
    let relay = relay(&runtime, arrived.sink(|_| Err(SinkError::dead("gone"))));
    assert_eq!(settled(&store).await, [MessageState::Dead]);
    relay.abort();
    assert_eq!(arrived.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_is_tried_again_unless_at_most_once() {
    for (once, expected) in [(false, MessageState::Delivered), (true, MessageState::Review)] {
        let store = store();
        let runtime = runtime_on(&store).await;
        send(&runtime, "a").await;
        let sink = Route::new(move |delivery: Delivery| async move {
            assert!(delivery.attempt() > 1, "the first one panics");
            Ok(())
        });
        let relay = relay(&runtime, if once { sink.at_most_once() } else { sink });
        assert_eq!(settled(&store).await, [expected]);
        relay.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_sinks_error_that_panics_when_it_is_read_does_not_end_the_relay() {
    fn planned() -> &'static str {
        panic!("planned")
    }
    #[derive(Debug, thiserror::Error)]
    #[error("{}", planned())]
    struct Unreadable;
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    let sink = |delivery: Delivery| async move {
        if delivery.attempt() == 1 { Err(SinkError::retry(Unreadable)) } else { Ok(()) }
    };
    let relay = relay(&runtime, sink);
    assert_eq!(settled(&store).await, [MessageState::Delivered]);
    assert!(!relay.is_finished());
    relay.abort();
}

#[tokio::test(start_paused = true)]
async fn at_most_once_tries_again_only_what_certainly_reached_nobody() {
    for (sure, expected) in [(true, MessageState::Delivered), (false, MessageState::Review)] {
        let store = store();
        let runtime = runtime_on(&store).await;
        send(&runtime, "a").await;
        let arrived = Arrived::default();
        let error = move || match sure {
            true => SinkError::not_delivered("no connection"),
            false => SinkError::retry("cut off"),
        };
        let sink = arrived.sink(move |attempt| if attempt == 1 { Err(error()) } else { Ok(()) });
        let relay = relay(&runtime, sink.at_most_once());
        assert_eq!(settled(&store).await, [expected]);
        relay.abort();
        assert_eq!(arrived.count(), if sure { 2 } else { 1 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_is_asked_again_and_then_a_person_is() {
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    let (arrived, asked) = (Arrived::default(), Runs::default());
    let questions = asked.clone();
    let sink = arrived.sink(|_| Err(SinkError::retry("cut off"))).max_attempts(4);
    let sink = sink.reconcile(move |_: Delivery| {
        questions.note();
        async { Err(SinkError::retry("nobody answers")) }
    });
    let relay = relay(&runtime, sink);
    assert_eq!(settled(&store).await, [MessageState::Review]);
    relay.abort();
    assert_eq!((arrived.count(), asked.count()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_message_waits() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let sent = async {
        outbox::message("out", &1).delay(Duration::from_hours(2)).send()?;
        Ok(())
    };
    run(&runtime, &PLAIN, "a", &(), sent).await.unwrap();
    let arrived = Arrived::default();
    let relay = relay(&runtime, arrived.sink(|_| Ok(())));
    assert_eq!(settled(&store).await, [MessageState::Delivered]);
    relay.abort();
    let waited = arrived.times()[0].as_secs();
    assert!((7_200..=7_202).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_relay_after_what_it_is_delivering() {
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    let slow = |_: Delivery| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(())
    };
    let relay = relay(&runtime, slow);
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.shutdown(Duration::from_secs(60)).await;
    relay.await.unwrap().unwrap();
    assert_eq!(settled(&store).await, [MessageState::Delivered]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_delivered_while_the_relay_gave_up_is_not_delivered_again() {
    /// Says so when it is dropped.
    struct Dropped(mpsc::Sender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "ends").await;
    send(&runtime, "never ends").await;
    let (given_up, gives_up) = mpsc::channel();
    let gives_up = Arc::new(Mutex::new(gives_up));
    let began = Arc::new(Semaphore::new(0));
    let begun = Arc::clone(&began);
    let sink = move |delivery: Delivery| {
        let (begun, gives_up) = (Arc::clone(&begun), Arc::clone(&gives_up));
        let never_ends = delivery.json::<String>().unwrap() == "never ends";
        let dropped = never_ends.then(|| Dropped(given_up.clone()));
        async move {
            begun.add_permits(1);
            if dropped.is_some() {
                return std::future::pending().await;
            }
            // The relay has collected what ended, and drops what did not: then this one ends, without a pause in which
            // it could be dropped.
            gives_up.lock().unwrap().recv().unwrap();
            Ok(())
        }
    };
    let stop = async move {
        let _both = began.acquire_many(2).await.unwrap();
    };
    let relay = Relay::new(&runtime).sink("out", Route::new(sink)).grace(Duration::ZERO);
    relay.run_until(stop).await.unwrap();

    let mut left: Vec<_> = store
        .inner
        .all_messages()
        .unwrap()
        .into_iter()
        .map(|message| (message.body, message.state))
        .collect();
    left.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let ends = (br#""ends""#.to_vec(), MessageState::Delivered);
    assert_eq!(left, [ends, (br#""never ends""#.to_vec(), MessageState::Pending)]);
}

#[tokio::test(start_paused = true)]
async fn a_relay_stops_also_where_the_answer_to_a_claim_never_comes() {
    let store = store();
    let runtime = runtime_on(&store).await;
    store.fail("claim_messages", Fault::Away, u32::MAX);
    let stop = tokio::time::sleep(Duration::from_secs(5));
    let relay = Relay::new(&runtime).sink("out", Arrived::default().sink(|_| Ok(())));
    let stopped = tokio::time::timeout(Duration::from_mins(1), relay.run_until(stop)).await;
    stopped.expect("it stopped").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_the_relays_next_look() {
    let runtime = runtime().await;
    let relay = Relay::new(&runtime).sink("out", Arrived::default().sink(|_| Ok(())));
    let relay = tokio::spawn(relay.poll_every(Duration::from_hours(1)).run());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    runtime.shutdown(Duration::from_mins(1)).await;
    relay.await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_waited_for() {
    let store = store();
    let runtime = runtime_on(&store).await;
    send(&runtime, "a").await;
    store.fail("claim_messages", Fault::Away, 20);
    store.fail("wakeups", Fault::Away, 3);
    let arrived = Arrived::default();
    let relay = relay(&runtime, arrived.sink(|_| Ok(())));
    assert_eq!(settled(&store).await, [MessageState::Delivered]);
    relay.abort();
    assert_eq!(arrived.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_set_up_wrongly_says_so() {
    let runtime = runtime().await;
    let sink = || Route::new(|_: Delivery| async { Ok(()) });
    let wrong = [
        Relay::new(&runtime),
        Relay::new(&runtime).sink("a b", sink()),
        Relay::new(&runtime).sink("a", sink()).sink("a", sink()),
        Relay::new(&runtime).sink("a", sink().concurrency(0)),
        Relay::new(&runtime).sink("a", sink().max_attempts(0)),
        Relay::new(&runtime).sink("a", sink().lease(Duration::ZERO)),
        Relay::new(&runtime)
            .sink("a", sink().backoff(Duration::from_secs(2), Duration::from_secs(1))),
        Relay::new(&runtime).sink("a", sink()).poll_every(Duration::ZERO),
    ];
    for relay in wrong {
        let text = format!("{relay:?}");
        let refused = relay.run().await;
        assert!(matches!(refused, Err(Error::Config { .. })), "{text}: {refused:?}");
    }
}
