//! The ready sinks against small servers on loopback, one fact a test.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

mod conformance;
mod http;
mod server;
mod smtp;
mod wrong;

use std::time::Duration;

use idempotent_runtime::outbox::{self, Relay, Route, TopicCount};
use idempotent_runtime::{Error, Runtime, idempotent};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Sends `body` to the topic `out`.
#[idempotent(key = "out:{body}", runtime = runtime)]
async fn out(body: String, #[context] runtime: &Runtime) -> Result<(), Error> {
    outbox::message("out", &body).header("X-Kind", "test").send()
}

/// A runtime with one message in its outbox.
pub(crate) async fn with_message(body: &str) -> Runtime {
    let runtime = Runtime::builder("sinks").url("memory:").reaper(false).connect().await.unwrap();
    out(body.to_owned(), &runtime).await.unwrap();
    runtime
}

/// A relay that tries again at once.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(crate) fn start(runtime: &Runtime, route: impl Into<Route>) -> Self {
        let moment = Duration::from_millis(1);
        let route = route.into().backoff(moment, moment);
        let relay = Relay::new(runtime).poll_every(Duration::from_millis(20)).sink("out", route);
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            let _ = stopped.await;
        };
        Self { stop, task: tokio::spawn(relay.run_until(stopped)) }
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

/// Waits until the outbox holds nothing but what is dead or in review.
pub(crate) async fn settled(runtime: &Runtime) -> (u64, u64) {
    loop {
        let counts = runtime.outbox().counts().await.unwrap();
        let open = |count: &TopicCount| count.pending + count.sending > 0;
        if !counts.iter().any(open) {
            return counts.first().map_or((0, 0), |count| (count.dead, count.review));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
