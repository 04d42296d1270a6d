//! Fifty thousand messages and one to four relays: nothing is lost and nothing is delivered twice.
#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use idempotent_runtime::outbox::{self, Delivery, MessageId, Relay, Route};
use idempotent_runtime::{Error, Runtime, idempotent};
use tokio::sync::watch;
use tokio::task::JoinSet;

const TOPIC: &str = "receipt";
const MESSAGES: u32 = 50_000;
/// Messages of one execution, the most that there may be.
const SENT_AT_ONCE: u32 = 1_000;
const CONCURRENCY: u32 = 100;

/// Sends the numbers from `first` on.
#[idempotent(key = "batch:{first}", runtime = runtime)]
async fn batch(first: u32, #[context] runtime: &Runtime) -> Result<(), Error> {
    for number in first..first + SENT_AT_ONCE {
        outbox::send(TOPIC, &number)?;
    }
    Ok(())
}

async fn send(from: u32, to: u32, runtime: &Runtime) {
    for first in (from..to).step_by(usize::try_from(SENT_AT_ONCE).unwrap()) {
        batch(first, runtime).await.unwrap();
    }
}

/// What one relay delivered: ids and bodies.
type Delivered = Arc<Mutex<Vec<(MessageId, u32)>>>;

/// Sends half of the messages, then the other half while relays deliver; `connect` opens a runtime as in a process of
/// its own.
async fn arrive_once(relays: usize, connect: impl AsyncFn() -> Runtime) {
    let sender = connect().await;
    send(0, MESSAGES / 2, &sender).await;
    let (count, begun) = (watch::Sender::new(0), watch::Sender::new(0_usize));
    let mut delivered: Vec<Delivered> = Vec::new();
    let mut running = JoinSet::new();
    for _ in 0..relays {
        let (runtime, mine) = (connect().await, Delivered::default());
        delivered.push(Arc::clone(&mine));
        let (counting, beginning) = (count.clone(), begun.clone());
        let sink = move |delivery: Delivery| {
            let body = delivery.json();
            let noted = body.map(|body| {
                let mut mine = mine.lock().unwrap();
                mine.push((delivery.message_id(), body));
                if mine.len() == 1 {
                    beginning.send_modify(|begun| *begun += 1);
                }
            });
            counting.send_modify(|count| *count += 1);
            // Until each relay has its part: none delivers everything while another one starts.
            let mut begun = beginning.subscribe();
            async move {
                begun.wait_for(|begun| *begun == relays).await.unwrap();
                noted
            }
        };
        let mut all = count.subscribe();
        let stop = async move {
            all.wait_for(|count| *count >= MESSAGES).await.unwrap();
        };
        let relay = Relay::new(&runtime).sink(TOPIC, Route::new(sink).concurrency(CONCURRENCY));
        running.spawn(async move { relay.run_until(stop).await });
    }
    send(MESSAGES / 2, MESSAGES, &sender).await;
    for ended in running.join_all().await {
        ended.unwrap();
    }
    assert_eq!(sender.outbox().counts().await.unwrap(), [], "nothing is left");
    let mut times: HashMap<MessageId, u32> = HashMap::new();
    let mut bodies = Vec::new();
    for relay in delivered {
        let relay = relay.lock().unwrap();
        assert!(!relay.is_empty(), "each relay has its part");
        for (id, body) in relay.iter() {
            *times.entry(*id).or_default() += 1;
            bodies.push(*body);
        }
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    bodies.sort_unstable();
    assert!(bodies.iter().copied().eq(0..MESSAGES), "{} bodies", bodies.len());
    assert_eq!(times.len(), bodies.len(), "an id for each");
}

macro_rules! with_so_many_relays {
    ($place:ident: $($name:ident = $relays:literal)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let place = $place();
            arrive_once($relays, async || {
                let url = place.url().to_owned();
                Runtime::builder("backlog").url(url).reaper(false).connect().await.unwrap()
            })
            .await;
        })*
    };
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use idempotent_conformance::sqlite::SqliteFactory;

    use super::*;

    fn file() -> SqliteFactory {
        SqliteFactory::fresh()
    }

    with_so_many_relays! {
        file:
        fifty_thousand_messages_arrive_once_each_with_one_relay = 1
        fifty_thousand_messages_arrive_once_each_with_two_relays = 2
        fifty_thousand_messages_arrive_once_each_with_three_relays = 3
        fifty_thousand_messages_arrive_once_each_with_four_relays = 4
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use idempotent_conformance::{Database, PostgresServer};

    use super::*;

    fn database() -> Database {
        PostgresServer::shared().fresh_database().unwrap()
    }

    with_so_many_relays! {
        database:
        fifty_thousand_messages_arrive_once_each_with_one_relay = 1
        fifty_thousand_messages_arrive_once_each_with_two_relays = 2
        fifty_thousand_messages_arrive_once_each_with_three_relays = 3
        fifty_thousand_messages_arrive_once_each_with_four_relays = 4
    }
}
