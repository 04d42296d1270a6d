//! What holds on every store.

use std::time::Duration;

use idempotent_runtime::outbox::{self, Delivery, Relay, Route, SinkError, TopicCount};
use idempotent_runtime::{Error, Found, Runtime, idempotent};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::place::Place;
use crate::sinks::{Gated, Receiver, Silent};

const TOPIC: &str = "receipt";
/// Short enough to be waited for.
const LEASE: Duration = Duration::from_millis(900);
/// Long enough to be renewed in time on a busy machine.
const LONG_LEASE: Duration = Duration::from_secs(4);

/// Sends the numbers from `first` on, each with an ordering key of its own hundred.
#[idempotent(key = "batch:{first}", runtime = runtime)]
async fn batch(first: u32, count: u32, #[context] runtime: &Runtime) -> Result<(), Error> {
    for number in first..first + count {
        outbox::send(TOPIC, &number)?;
    }
    Ok(())
}

#[idempotent(key = "ordered:{number}", runtime = runtime)]
async fn ordered(number: u32, key: String, #[context] runtime: &Runtime) -> Result<(), Error> {
    outbox::message(TOPIC, &number).ordering_key(key).send()
}

#[idempotent(key = "to:{topic}:{number}", runtime = runtime)]
async fn to(topic: String, number: u32, #[context] runtime: &Runtime) -> Result<(), Error> {
    outbox::send(&topic, &number)
}

async fn send(runtime: &Runtime, number: u32) {
    to(TOPIC.to_owned(), number, runtime).await.unwrap();
}

fn relay(runtime: &Runtime) -> Relay {
    Relay::new(runtime).poll_every(Duration::from_millis(20))
}

/// A relay that runs until it is told to stop, or aborted.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    fn start(relay: Relay) -> Self {
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        Self { stop: Some(stop), task: tokio::spawn(relay.run_until(stopped)) }
    }

    async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }

    /// As a process that dies.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

async fn nothing_is_left(runtime: &Runtime) {
    assert_eq!(runtime.outbox().counts().await.unwrap(), []);
}

/// Waits until the outbox counts what is expected.
async fn until_counted(runtime: &Runtime, expected: &[TopicCount]) {
    loop {
        let counts = runtime.outbox().counts().await.unwrap();
        if counts == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn counts(pending: u64, sending: u64, dead: u64, review: u64) -> Vec<TopicCount> {
    vec![TopicCount { topic: TOPIC.to_owned(), pending, sending, dead, review }]
}

async fn arrive_once(place: Place, relays: u32) {
    const MESSAGES: u32 = 2_000;
    const BATCH: u32 = 20;
    let runtime = place.runtime().await;
    let receiver = Receiver::new();
    let mut running = Vec::new();
    for _ in 0..relays {
        // Each in a process of its own.
        let own = place.runtime().await;
        running.push(Running::start(relay(&own).sink(TOPIC, receiver.clone())));
    }
    let mut senders = JoinSet::new();
    for sender in 0..4 {
        let runtime = runtime.clone();
        senders.spawn(async move {
            let batches = (0..MESSAGES / BATCH).filter(|batch| batch % 4 == sender);
            for number in batches {
                batch(number * BATCH, BATCH, &runtime).await.unwrap();
                // A duplicate sends nothing.
                batch(number * BATCH, BATCH, &runtime).await.unwrap();
            }
        });
    }
    senders.join_all().await;
    receiver.until(usize::try_from(MESSAGES).unwrap()).await;
    for relay in running {
        relay.stop().await;
    }
    nothing_is_left(&runtime).await;
    let mut bodies = receiver.bodies();
    bodies.sort_unstable();
    assert_eq!(bodies, (0..MESSAGES).collect::<Vec<_>>());
    assert!(receiver.times().values().all(|times| *times == 1));
}

pub(crate) async fn two_thousand_messages_arrive_once_each_with_one_relay(place: Place) {
    arrive_once(place, 1).await;
}

pub(crate) async fn two_thousand_messages_arrive_once_each_with_two_relays(place: Place) {
    arrive_once(place, 2).await;
}

pub(crate) async fn two_thousand_messages_arrive_once_each_with_three_relays(place: Place) {
    arrive_once(place, 3).await;
}

pub(crate) async fn two_thousand_messages_arrive_once_each_with_four_relays(place: Place) {
    arrive_once(place, 4).await;
}

pub(crate) async fn messages_of_a_key_arrive_in_the_order_of_their_completions(place: Place) {
    const KEYS: u32 = 4;
    const EACH: u32 = 25;
    let runtime = place.runtime().await;
    let receiver = Receiver::new();
    let mut running = Vec::new();
    for _ in 0..3 {
        let own = place.runtime().await;
        running.push(Running::start(relay(&own).sink(TOPIC, receiver.clone())));
    }
    let mut senders = JoinSet::new();
    for key in 0..KEYS {
        let runtime = runtime.clone();
        senders.spawn(async move {
            for number in 0..EACH {
                ordered(key * 100 + number, format!("customer {key}"), &runtime).await.unwrap();
            }
        });
    }
    senders.join_all().await;
    receiver.until(usize::try_from(KEYS * EACH).unwrap()).await;
    for relay in running {
        relay.stop().await;
    }
    for key in 0..KEYS {
        let of_key = receiver.bodies().into_iter().filter(|body| body / 100 == key);
        let expected: Vec<u32> = (0..EACH).map(|number| key * 100 + number).collect();
        assert_eq!(of_key.collect::<Vec<_>>(), expected);
    }
}

pub(crate) async fn messages_go_out_only_with_a_completion(place: Place) {
    #[idempotent(key = "unlucky:{number}", runtime = runtime, backoff = "1ms..1ms")]
    async fn unlucky(
        number: u32,
        #[context] fails: bool,
        #[context] runtime: &Runtime,
    ) -> Result<(), Error> {
        outbox::send(TOPIC, &number)?;
        if fails {
            return Err(Error::NeedsReview { reason: "not yet".to_owned() });
        }
        Ok(())
    }
    let runtime = place.runtime().await;
    unlucky(1, true, &runtime).await.unwrap_err();
    nothing_is_left(&runtime).await;
    crate::place::until_answered(async || unlucky(1, false, &runtime).await).await.unwrap();
    until_counted(&runtime, &counts(1, 0, 0, 0)).await;
}

pub(crate) async fn a_slow_sink_holds_up_no_other_topic(place: Place) {
    let runtime = place.runtime().await;
    let (open, gate) = watch::channel(false);
    let slow = Gated { begun: Receiver::new(), done: Receiver::new(), gate };
    let (begun, done, fast) = (slow.begun.clone(), slow.done.clone(), Receiver::new());
    let relay =
        relay(&runtime).sink("slow", Route::new(slow).concurrency(2)).sink(TOPIC, fast.clone());
    for number in 0..5 {
        to("slow".to_owned(), number, &runtime).await.unwrap();
    }
    let running = Running::start(relay);
    begun.until(2).await;
    for number in 0..50 {
        send(&runtime, number).await;
    }
    fast.until(50).await;
    // No more than the slow sink may have at a time, and none of it is done.
    assert_eq!((begun.bodies().len(), done.bodies().len()), (2, 0));
    open.send_replace(true);
    done.until(5).await;
    running.stop().await;
    nothing_is_left(&runtime).await;
}

pub(crate) async fn a_delivery_longer_than_its_lease_keeps_it(place: Place) {
    let runtime = place.runtime().await;
    let (open, gate) = watch::channel(false);
    let slow = Gated { begun: Receiver::new(), done: Receiver::new(), gate };
    let (begun, done) = (slow.begun.clone(), slow.done.clone());
    let first = Running::start(relay(&runtime).sink(TOPIC, Route::new(slow).lease(LONG_LEASE)));
    send(&runtime, 1).await;
    begun.until(1).await;
    let other = place.runtime().await;
    let stranger = Receiver::new();
    let second =
        Running::start(relay(&other).sink(TOPIC, Route::new(stranger.clone()).lease(LONG_LEASE)));
    tokio::time::sleep(LONG_LEASE * 3 / 2).await;
    open.send_replace(true);
    done.until(1).await;
    first.stop().await;
    second.stop().await;
    assert_eq!((begun.bodies(), stranger.bodies()), (vec![1], vec![]));
    nothing_is_left(&runtime).await;
}

pub(crate) async fn what_a_dropped_relay_had_in_hand_is_delivered_under_the_same_id(place: Place) {
    let runtime = place.runtime().await;
    let receiver = Receiver::new();
    let silent = Route::new(Silent(receiver.clone())).lease(LEASE);
    let first = Running::start(relay(&runtime).sink(TOPIC, silent));
    send(&runtime, 1).await;
    receiver.until(1).await;
    first.kill().await;
    let second = Running::start(relay(&runtime).sink(TOPIC, receiver.clone()));
    receiver.until(2).await;
    second.stop().await;
    assert_eq!(receiver.times().into_values().collect::<Vec<_>>(), [2]);
    nothing_is_left(&runtime).await;
}

pub(crate) async fn what_was_delivered_at_most_once_by_a_dropped_relay_goes_to_review(
    place: Place,
) {
    let runtime = place.runtime().await;
    let receiver = Receiver::new();
    let silent = Route::new(Silent(receiver.clone())).at_most_once().lease(LEASE);
    let first = Running::start(relay(&runtime).sink(TOPIC, silent));
    send(&runtime, 1).await;
    receiver.until(1).await;
    first.kill().await;
    let again = Route::new(receiver.clone()).at_most_once();
    let second = Running::start(relay(&runtime).sink(TOPIC, again));
    until_counted(&runtime, &counts(0, 0, 0, 1)).await;
    assert_eq!(receiver.bodies(), [1]);
    // A person knows better.
    let outbox = runtime.outbox();
    let held = outbox.in_review(None, 10).await.unwrap().remove(0);
    outbox.retry(&held, "ada: it did not arrive").await.unwrap();
    assert!(matches!(outbox.retry(&held, "bob: me too").await, Err(Error::Stale)));
    receiver.until(2).await;
    second.stop().await;
    nothing_is_left(&runtime).await;
}

pub(crate) async fn what_was_delivered_by_a_dropped_relay_is_asked_about(place: Place) {
    let runtime = place.runtime().await;
    let receiver = Receiver::new();
    // Message 1 arrives, message 2 does not, and neither is told.
    let unsure = |receiver: Receiver| {
        move |delivery: Delivery| {
            let receiver = receiver.clone();
            async move {
                if delivery.json::<u32>()? == 1 {
                    receiver.take(&delivery);
                }
                std::future::pending::<Result<(), SinkError>>().await
            }
        }
    };
    let begun = watch::Sender::new(0);
    let counting = {
        let (begun, unsure) = (begun.clone(), unsure(receiver.clone()));
        move |delivery: Delivery| {
            begun.send_modify(|count| *count += 1);
            unsure(delivery)
        }
    };
    let silent = Route::new(counting).at_most_once().lease(LEASE);
    let first = Running::start(relay(&runtime).sink(TOPIC, silent));
    send(&runtime, 1).await;
    send(&runtime, 2).await;
    begun.subscribe().wait_for(|count| *count == 2).await.unwrap();
    first.kill().await;
    let known = receiver.clone();
    let asking = Route::new(receiver.clone()).reconcile(move |delivery: Delivery| {
        let happened = known.times().contains_key(delivery.id());
        async move { Ok(if happened { Found::Happened(()) } else { Found::DidNotHappen }) }
    });
    let second = Running::start(relay(&runtime).sink(TOPIC, asking));
    until_counted(&runtime, &[]).await;
    second.stop().await;
    assert_eq!(receiver.bodies(), [1, 2]);
}

pub(crate) async fn a_relay_that_stops_finishes_what_it_began(place: Place) {
    let runtime = place.runtime().await;
    let (open, gate) = watch::channel(false);
    let slow = Gated { begun: Receiver::new(), done: Receiver::new(), gate };
    let (begun, done) = (slow.begun.clone(), slow.done.clone());
    let mut running = Running::start(relay(&runtime).sink(TOPIC, Route::new(slow).concurrency(1)));
    send(&runtime, 1).await;
    send(&runtime, 2).await;
    begun.until(1).await;
    running.stop.take().unwrap().send(()).unwrap();
    // Given the time to begin another one, it does not.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!running.task.is_finished());
    open.send_replace(true);
    running.task.await.unwrap().unwrap();
    assert_eq!((begun.bodies(), done.bodies()), (vec![1], vec![1]));
    assert_eq!(runtime.outbox().counts().await.unwrap(), counts(1, 0, 0, 0));
}

pub(crate) async fn a_relay_that_stops_gives_back_what_takes_too_long(place: Place) {
    let runtime = place.runtime().await;
    let receiver = Receiver::new();
    let relay = relay(&runtime)
        .grace(Duration::from_millis(50))
        .sink(TOPIC, Silent(receiver.clone()))
        .sink("once", Route::new(Silent(receiver.clone())).at_most_once());
    let running = Running::start(relay);
    send(&runtime, 1).await;
    to("once".to_owned(), 2, &runtime).await.unwrap();
    receiver.until(2).await;
    running.stop().await;
    // Long before its lease would lapse.
    let once = TopicCount { topic: "once".to_owned(), review: 1, ..TopicCount::default() };
    let mut expected = vec![once];
    expected.extend(counts(1, 0, 0, 0));
    assert_eq!(runtime.outbox().counts().await.unwrap(), expected);
}

pub(crate) async fn a_dead_message_is_listed_retried_and_counted(place: Place) {
    let runtime = place.runtime().await;
    let (open, gate) = watch::channel(false);
    let receiver = Receiver::new();
    let tries = watch::Sender::new(0_u32);
    let sink = {
        let (receiver, tries) = (receiver.clone(), tries.clone());
        move |delivery: Delivery| {
            tries.send_modify(|count| *count += 1);
            let open = *gate.borrow();
            if open {
                receiver.take(&delivery);
            }
            async move { if open { Ok(()) } else { Err(SinkError::retry("503: closed")) } }
        }
    };
    let moment = Duration::from_millis(1);
    let route = Route::new(sink).max_attempts(3).backoff(moment, moment);
    let running = Running::start(relay(&runtime).sink(TOPIC, route));
    send(&runtime, 7).await;
    until_counted(&runtime, &counts(0, 0, 1, 0)).await;
    assert_eq!(*tries.borrow(), 3);
    let outbox = runtime.outbox();
    let held = outbox.dead(None, 10).await.unwrap().remove(0);
    assert_eq!((held.topic.as_str(), held.attempts, held.body.as_slice()), (TOPIC, 3, &b"7"[..]));
    assert_eq!(held.last_error, "503: closed");
    assert!(matches!(outbox.retry(&held, " ").await, Err(Error::Config { setting: "note", .. })));
    open.send_replace(true);
    outbox.retry(&held, "ada: it is open").await.unwrap();
    receiver.until(1).await;
    running.stop().await;
    assert_eq!(receiver.arrived(), [(held.id.to_string(), 7)]);
    nothing_is_left(&runtime).await;
}

pub(crate) async fn an_execution_with_an_undelivered_message_is_not_purged(place: Place) {
    #[idempotent(key = "short:{number}", runtime = runtime, retain = "1s")]
    async fn short(number: u32, #[context] runtime: &Runtime) -> Result<(), Error> {
        outbox::send(TOPIC, &number)
    }
    let runtime = place.runtime().await;
    short(1, &runtime).await.unwrap();
    // Past its retention.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(runtime.sweep().await.unwrap().purged, 0);
    let receiver = Receiver::new();
    let running = Running::start(relay(&runtime).sink(TOPIC, receiver.clone()));
    until_counted(&runtime, &[]).await;
    running.stop().await;
    assert_eq!(runtime.sweep().await.unwrap().purged, 1);
    // The operation is new, and so is its message, under the id that it always has.
    short(1, &runtime).await.unwrap();
    let running = Running::start(relay(&runtime).sink(TOPIC, receiver.clone()));
    receiver.until(2).await;
    running.stop().await;
    assert_eq!(receiver.times().into_values().collect::<Vec<_>>(), [2]);
    assert_eq!(runtime.outbox().purge(Duration::ZERO).await.unwrap(), 1);
}

#[cfg(feature = "postgres")]
pub(crate) async fn a_relay_is_woken_before_it_looks(place: Place) {
    let runtime = place.runtime().await;
    let receiver = Receiver::new();
    let relay = Relay::new(&runtime).poll_every(Duration::from_hours(1));
    let running = Running::start(relay.sink(TOPIC, receiver.clone()));
    for number in 0..20 {
        send(&runtime, number).await;
        receiver.until(usize::try_from(number + 1).unwrap()).await;
    }
    running.stop().await;
}
