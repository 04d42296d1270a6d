//! A relay that has more to deliver than it can: what it must not forget meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::outbox::{self, Delivery, Relay, Route};
use idempotent_runtime::protocol::MessageState;
use tokio::time::Instant;

use crate::support::{Fault, PLAIN, run, runtime_on, store};

const LEASE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_secs(2);
/// Of one delivery; all of them together take several leases.
const DELIVERY: Duration = Duration::from_millis(100);
const MESSAGES: u32 = 1_000;

/// The busy relay claims from the newest on that it has seen; the message of the relay that died is older than that.
#[tokio::test(start_paused = true)]
async fn a_busy_relay_takes_over_what_another_left_behind() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let send = async |key: &'static str, numbers: std::ops::Range<u32>| {
        let sent = async move { numbers.into_iter().try_for_each(|n| outbox::send("out", &n)) };
        run(&runtime, &PLAIN, key, &(), async { Ok(sent.await?) }).await.unwrap();
        // So that no two executions are committed at the same instant.
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    send("first", 0..1).await;
    let stuck = Route::new(|_: Delivery| std::future::pending());
    let dying = tokio::spawn(Relay::new(&runtime).sink("out", stuck.lease(LEASE)).run());
    while store.inner.all_messages().unwrap()[0].state != MessageState::Sending {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    dying.abort();
    let lapses_at = Instant::now() + LEASE;
    send("second", 1..MESSAGES / 2).await;
    send("third", MESSAGES / 2..MESSAGES).await;

    let arrived: Arc<Mutex<HashMap<u32, Instant>>> = Arc::default();
    let seen = Arc::clone(&arrived);
    let sink = Route::new(move |delivery: Delivery| {
        let number: u32 = serde_json::from_slice(delivery.body()).unwrap();
        let twice = seen.lock().unwrap().insert(number, Instant::now());
        assert!(twice.is_none(), "{number} was delivered twice");
        async {
            tokio::time::sleep(DELIVERY).await;
            Ok(())
        }
    });
    let busy = Relay::new(&runtime).sink("out", sink.concurrency(1)).poll_every(POLL);
    let busy = tokio::spawn(busy.run());
    while arrived.lock().unwrap().len() < usize::try_from(MESSAGES).unwrap() {
        tokio::time::sleep(DELIVERY).await;
    }
    busy.abort();
    let arrived = arrived.lock().unwrap();
    let late = arrived[&0].saturating_duration_since(lapses_at);
    assert!(late <= POLL + 2 * DELIVERY, "{late:?} behind the end of its lease");
    let ended = arrived.values().max().unwrap();
    assert!(*ended > lapses_at + 2 * LEASE, "the relay was busy for long enough");
}

/// The answer to a claim is lost, and the store comes back just before the lease lapses: what was claimed is given back at once,
/// and not at the next look, when it would have lapsed.
#[tokio::test(start_paused = true)]
async fn what_was_claimed_too_long_ago_is_given_back_at_once() {
    let store = store();
    let runtime = runtime_on(&store).await;
    run(&runtime, &PLAIN, "one", &(), async { Ok(outbox::send("out", &1)?) }).await.unwrap();
    let arrived = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&arrived);
    let route = Route::new(move |_: Delivery| {
        *seen.lock().unwrap() += 1;
        async { Ok(()) }
    });
    store.fail("claim_messages", Fault::AckLost, 1);
    store.fail("claim_messages", Fault::Away, u32::MAX);
    let relay = Relay::new(&runtime).sink("out", route.at_most_once().lease(LEASE));
    let relay = tokio::spawn(relay.poll_every(4 * LEASE).run());
    tokio::time::sleep(LEASE * 91 / 100).await;
    store.heal();
    while store.inner.all_messages().unwrap()[0].state != MessageState::Delivered {
        tokio::time::sleep(DELIVERY).await;
        assert_ne!(store.inner.all_messages().unwrap()[0].state, MessageState::Review);
    }
    relay.abort();
    assert_eq!(*arrived.lock().unwrap(), 1);
}
