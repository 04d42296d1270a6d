//! A transfer through a SOAP service that books whatever it is sent: once, wherever the relay dies.
//!
//!     cargo run -p idempotent-examples --bin soap_transfer
//!
//! The usual form debits the account and calls the bank:
//!
//!     UPDATE account SET cents = cents - 4200 ..;   // 1. debited
//!     bank.transfer(iban, 4200).await?;             // 2. no answer: was it booked?
//!
//! A process that dies between 1 and 2 has debited and not sent. With 2 first it has sent and not debited. And an answer
//! that does not come says nothing: sent again, the transfer is booked twice, since the service knows no idempotency key.
//!
//! Below, the debit and the **intent** to transfer are one commit: an outbox message, in the handler's transaction. A
//! relay, in a process of its own, delivers it **at most once**: it writes that it will call before it calls. Where it
//! dies before it has written what came of it, the next relay does not guess. It **asks the bank**, by the reference
//! that the transfer was sent with, and that is the message's id: booked, and it is done; not booked, and it is sent.
//!
//! Two things are needed of the bank. It finds a transfer by our reference. And its "not booked" is final when it is
//! asked: that is when the dead relay's lease is over, so make the lease longer than the bank takes to book what it was
//! sent. A bank that cannot answer leaves it to a person, who looks at the statement.
//!
//! The program starts itself as the relay's process and kills that at each point (SIGKILL); the next one finishes.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod service;
mod show;
mod soap;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use idempotent_runtime::outbox::{self, Delivery, Relay, Route, SinkError};
use idempotent_runtime::{Error, Found, Runtime, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use show::{AFTER, BEFORE, DURING, Death, ORDERS, TRIES_AGAIN};
use soap::Content;

/// What a customer asks for, and the message to the bank.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    id: String,
    account: String,
    iban: String,
    cents: i64,
}

#[derive(Debug, thiserror::Error)]
enum TransferError {
    #[error("the account has less than that")]
    TooLittle,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Idempotent(#[from] Error),
}

/// Debits the account, and has the transfer sent: both, or neither. Answers with what is left.
#[idempotent(key = "transfer:{order.id}")]
async fn transfer(
    order: Order,
    #[transaction] tx: &mut SqliteConnection,
) -> Result<i64, TransferError> {
    let debit =
        "UPDATE account SET cents = cents - $1 WHERE id = $2 AND cents >= $1 RETURNING cents";
    let debiting = sqlx::query_scalar(debit).bind(order.cents).bind(&order.account);
    let left = debiting.fetch_optional(&mut *tx).await?.ok_or(TransferError::TooLittle)?;
    outbox::send("bank-transfer", &order)?;
    Ok(left)
}

/// The bank's SOAP service, as its client sees it.
#[derive(Clone, Debug)]
struct Bank {
    http: reqwest::Client,
    url: String,
}

impl Bank {
    /// Sends a transfer.
    async fn send(&self, delivery: &Delivery) -> Result<(), SinkError> {
        let Order { iban, cents, .. } = delivery.json()?;
        let reference = reference(delivery.id());
        let answer = self.call(Content::Transfer { reference, iban, cents }).await?;
        if let Content::TransferResponse { .. } = answer {
            return Ok(());
        }
        // By the bank's manual it has refused the request, and booked nothing.
        if let Content::Fault { faultcode, faultstring } = &answer
            && faultcode == "soap:Client"
        {
            return Err(SinkError::dead(faultstring.clone()));
        }
        // Whatever else it says, it may have been booked.
        Err(SinkError::retry(format!("the bank answered {answer:?}")))
    }

    /// Asks what became of a transfer that may have been sent.
    async fn find(&self, delivery: &Delivery) -> Result<Found<()>, SinkError> {
        let reference = reference(delivery.id());
        let answer = self.call(Content::FindTransfer { reference }).await?;
        let Content::FindTransferResponse { status } = answer else { return Ok(Found::Unknown) };
        Ok(match status.as_str() {
            "BOOKED" => Found::Happened(()),
            "UNKNOWN" => Found::DidNotHappen,
            _ => Found::Unknown,
        })
    }

    async fn call(&self, content: Content) -> Result<Content, SinkError> {
        let xml = soap::write(content).map_err(SinkError::dead)?;
        let request = self.http.post(&self.url).timeout(Duration::from_secs(10));
        let request =
            request.header("Content-Type", "text/xml; charset=utf-8").header("SOAPAction", "\"\"");
        let sent = request.body(xml).send().await;
        // Without a connection nothing was sent. After that nobody knows.
        let answer = sent.map_err(|error| match error.is_connect() {
            true => SinkError::not_delivered(error),
            false => SinkError::retry(error),
        })?;
        // A fault has the status 500, so the status says nothing that the body does not say.
        soap::read(&answer.bytes().await.map_err(SinkError::retry)?).map_err(SinkError::retry)
    }
}

/// The message's id, which is the same on every delivery, as the bank takes it: 32 characters, where ISO 20022 allows 35.
fn reference(id: &str) -> String {
    id.replace('-', "")
}

/// The relay's process: delivers what is to be delivered.
async fn relay(runtime: &Runtime, bank: Bank, way: &str, death: Death) -> anyhow::Result<()> {
    death.passes("before the claim");
    let sink = {
        let (bank, death) = (bank.clone(), death.clone());
        move |delivery: Delivery| {
            let (bank, death) = (bank.clone(), death.clone());
            async move {
                let second = delivery.json::<Order>()?.id == ORDERS[1];
                let death = if second { death } else { Death::never() };
                death.passes(BEFORE);
                death.says(DURING);
                bank.send(&delivery).await?;
                death.passes(AFTER);
                Ok(())
            }
        }
    };
    let route = match way {
        TRIES_AGAIN => Route::new(sink),
        _ => Route::new(sink).reconcile(move |delivery: Delivery| {
            let bank = bank.clone();
            async move { bank.find(&delivery).await }
        }),
    };
    // Short, for who looks on: leave yours at 30 seconds, 20 attempts, and the waits between them as they are.
    let moment = Duration::from_millis(100);
    let route = route.lease(Duration::from_secs(3)).max_attempts(3).backoff(moment, moment);
    Relay::new(runtime)
        .poll_every(Duration::from_millis(50))
        // One transfer at a time, so that one is on its way when the process is killed.
        .sink("bank-transfer", route.concurrency(1))
        .run_until(nothing_is_left(runtime))
        .await?;
    death.passes("after the record");
    Ok(())
}

/// Completes once nothing is to be delivered but what waits for a person.
async fn nothing_is_left(runtime: &Runtime) {
    let outbox = runtime.outbox();
    while !outbox.counts().await.is_ok_and(|it| it.iter().all(|it| it.pending + it.sending == 0)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A process that lives longer than this hangs.
const LIFE_MAX: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, point, database, url] = arguments.as_slice() else {
        ensure!(arguments.is_empty(), "it takes no arguments");
        return show::run().await;
    };
    let runtime = Runtime::connect(NAMESPACE, &sqlite(Path::new(database))).await?;
    let bank = Bank { http: reqwest::Client::new(), url: url.clone() };
    let relaying = relay(&runtime, bank, way, Death::at(point));
    tokio::time::timeout(LIFE_MAX, relaying).await.context("it hangs")??;
    runtime.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

const NAMESPACE: &str = "bank-transfers";

fn sqlite(database: &Path) -> String {
    format!("sqlite://{}", database.display())
}
