//! Our side: relays with a sink that does nothing, each on a runtime of its own, as in a process of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idempotent_runtime::outbox::{self, Delivery, Relay, Route};
use idempotent_runtime::{Error, OperationKey, Runtime, idempotent};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Outbox, Shape};
use crate::work::Payment;

const TOPIC: &str = "receipt";
/// Messages of one execution.
const SENT_AT_ONCE: u64 = 500;

/// Sends the payments from `first` on.
#[idempotent(key = "send:{operation}", runtime = runtime)]
async fn send(
    operation: OperationKey,
    first: u64,
    count: u64,
    #[context] runtime: &Runtime,
) -> Result<(), Error> {
    for number in first..first + count {
        outbox::send(TOPIC, &Payment::of(number))?;
    }
    Ok(())
}

pub(super) struct Relays {
    runtimes: Vec<Runtime>,
    batch: u32,
}

impl Relays {
    pub(super) async fn connect(url: &str, shape: Shape) -> Result<Self, Error> {
        let mut runtimes = Vec::new();
        for _ in 0..shape.workers {
            runtimes.push(Runtime::connect("bench", url).await?);
        }
        Ok(Self { runtimes, batch: shape.batch })
    }

    pub(super) async fn close(&self) {
        for runtime in &self.runtimes {
            runtime.shutdown(Duration::from_secs(1)).await;
        }
    }
}

impl Outbox for Relays {
    async fn send(&self, first: u64, messages: u64) {
        for first in
            (first..first + messages).step_by(usize::try_from(SENT_AT_ONCE).expect("it is small"))
        {
            let sent = send(OperationKey::new(), first, SENT_AT_ONCE, &self.runtimes[0]).await;
            sent.expect("the handler answers");
        }
    }

    async fn deliver(&self, messages: u64) {
        let delivered = Arc::new(AtomicU64::new(0));
        let stop = watch::Sender::new(false);
        let mut relays = JoinSet::new();
        for runtime in &self.runtimes {
            let (delivered, all) = (Arc::clone(&delivered), stop.clone());
            let sink = move |_: Delivery| {
                if delivered.fetch_add(1, Ordering::Relaxed) + 1 == messages {
                    all.send_replace(true);
                }
                async { Ok(()) }
            };
            let relay = Relay::new(runtime).sink(TOPIC, Route::new(sink).concurrency(self.batch));
            let mut stopped = stop.subscribe();
            let stopped = async move {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            relays.spawn(relay.run_until(stopped));
        }
        for ended in relays.join_all().await {
            ended.expect("a relay runs");
        }
        assert_eq!(delivered.load(Ordering::Relaxed), messages, "each is delivered once");
        let left = self.runtimes[0].outbox().counts().await.expect("the store answers");
        assert!(left.is_empty(), "{left:?}");
    }
}
