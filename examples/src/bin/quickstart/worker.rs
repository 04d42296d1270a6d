//! The handler, and the loop that feeds it: the part to copy.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use idempotent_runtime::{Disposition, Runtime, idempotent, provider_key};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::billing::{BillError, Billing, Receipt};
use crate::broker::{Handed, Subscription};

/// A webhook delivery as GitHub sends it; deliveries of the same id are the same delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Delivery {
    pub(crate) delivery: Uuid,
    pub(crate) event: String,
    pub(crate) payload: serde_json::Value,
}

/// Charges for a delivery once, however often it is delivered and wherever its workers die.
///
/// Two settings suit a fleet that is killed all the time: a short lease, so that a killed worker's deliveries do not
/// wait long, and many crashes before review.
#[idempotent(key = "bill:{delivery.delivery}", lease = "1s", max_crashes = 1000)]
async fn bill(delivery: Delivery, #[context] billing: Billing) -> Result<Receipt, BillError> {
    billing.charge(&delivery, &provider_key("charge")).await
}

/// The same without the attribute: right as long as nothing is delivered twice and no worker dies.
async fn bill_plain(delivery: Delivery, billing: Billing) -> Result<Receipt, BillError> {
    billing.charge_without_key(&delivery).await
}

/// How long handlers that still run may take when a worker ends.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// What a worker process is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Config {
    pub(crate) handler: Handler,
    pub(crate) broker: SocketAddr,
    /// The billing provider's URL.
    pub(crate) billing: String,
    pub(crate) store: String,
    pub(crate) namespace: String,
}

/// Which of the two handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Handler {
    Plain,
    Annotated,
}

/// Handles deliveries until the broker closes the connection.
pub(crate) async fn run(config: &Config) -> Result<()> {
    let billing = Billing::new(&config.billing, "acct_quickstart")?;
    match config.handler {
        Handler::Plain => consume(config.broker, &billing, bill_plain).await,
        Handler::Annotated => {
            let runtime = Runtime::connect(&config.namespace, &config.store).await?;
            runtime.install()?;
            consume(config.broker, &billing, bill).await?;
            runtime.shutdown(SHUTDOWN_GRACE).await;
            Ok(())
        }
    }
}

/// Runs each delivery's handler in a task of its own, and tells the broker what to do with the delivery.
async fn consume<F, Fut>(broker: SocketAddr, billing: &Billing, handler: F) -> Result<()>
where
    F: Fn(Delivery, Billing) -> Fut,
    Fut: Future<Output = Result<Receipt, BillError>> + Send + 'static,
{
    let mut deliveries = Subscription::open(broker).await.context("reaching the broker")?;
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            handed = deliveries.next() => {
                let Some(Handed { tag, delivery }) = handed.context("reading a delivery")? else {
                    return Ok(());
                };
                let answers = deliveries.answers();
                let charged = handler(delivery, billing.clone());
                running.spawn(async move {
                    match charged.await {
                        Ok(_receipt) => answers.ack(tag).await,
                        Err(error) => {
                            let disposition = error.disposition();
                            if disposition == Disposition::DeadLetter {
                                eprintln!("a delivery is given up: {error}");
                            }
                            answers.settle(tag, disposition).await
                        }
                    }
                });
            }
            // A panic, or an answer that did not get through, ends this process: the broker delivers again.
            Some(handled) = running.join_next() => handled?.context("answering the broker")?,
        }
    }
}
