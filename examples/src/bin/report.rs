//! A nightly report that is sent once, whatever night it has.
//!
//!     cargo run -p idempotent-examples --bin report
//!
//! The scheduler starts the job again when it sees no answer. The usual form looks first and sends then:
//!
//!     if archive.has(date) { return }      // 1. not there yet
//!     mail.send(report).await;             // 2. sent
//!     archive.put(date).await;             // 3. never reached: the process dies, or the answer was lost
//!
//! Between 2 and 3 lies the night in which the report is sent twice. Looking harder does not help: two jobs can look
//! at once. Below, the look is the claim, the sending is a step, and the mail API is sent the step's provider key.
//!
//! The key is the **business date from the payload**, not today's: a job that is late by an hour must not become
//! another report.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::NaiveDate;
use idempotent_runtime::{Error, Runtime, idempotent, step};
use serde::{Deserialize, Serialize};

/// What the scheduler sends.
#[derive(Clone, Debug, Serialize)]
struct NightlyReport {
    /// Whose numbers they are.
    business_date: NaiveDate,
}

/// What the handler answers, on every call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sent {
    message_id: String,
    rows: usize,
}

#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("the mail API closed the connection")]
    Mail,
    #[error(transparent)]
    Idempotent(#[from] Error),
}

#[idempotent(key = "report:{report.business_date}", version = 1)]
async fn send_report(
    report: NightlyReport,
    #[context] warehouse: Warehouse,
    #[context] mail: MailApi,
) -> Result<Sent, ReportError> {
    // Recorded: a later attempt sends these numbers, not those of a table that has moved on.
    let rows = step("numbers").run(async |_effect| warehouse.numbers(report.business_date)).await?;
    // The API remembers keys for a day; after that a person is asked rather than the report sent again.
    let message_id = step("mail")
        .provider_window(Duration::from_hours(23))
        .run(async |effect| mail.send(rows.len(), &effect.provider_key()))
        .await?;
    Ok(Sent { message_id, rows: rows.len() })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let url = format!("sqlite://{}", directory.path().join("reports.db").display());
    Runtime::connect("reporting", &url).await?.install()?;

    let (warehouse, mail) = (Warehouse::default(), MailApi::default());
    let date = NaiveDate::from_ymd_opt(2026, 11, 28).ok_or_else(|| anyhow::anyhow!("a date"))?;
    let job =
        || send_report(NightlyReport { business_date: date }, warehouse.clone(), mail.clone());

    // The mail is accepted, and the answer is lost. The scheduler sees an error and starts the job again.
    let first = job().await;
    println!(
        "first run:  {}",
        first.map_or_else(|error| error.to_string(), |sent| format!("{sent:?}"))
    );
    let second = job().await?;
    println!("second run: {second:?}");
    let third = job().await?;
    println!("third run:  {third:?}, answered from the store");

    let (requests, mails, queries) = (mail.requests(), mail.mails(), warehouse.queries());
    println!("{requests} requests to the mail API, {mails} mail, {queries} query of the warehouse");
    anyhow::ensure!(second == third && (requests, mails, queries) == (2, 1, 1), "sent twice");
    Ok(())
}

/// The numbers, which change while the night goes on.
#[derive(Clone, Default)]
struct Warehouse {
    queries: Arc<Mutex<usize>>,
}

impl Warehouse {
    fn numbers(&self, date: NaiveDate) -> Result<Vec<String>, ReportError> {
        let mut queries = lock(&self.queries);
        *queries += 1;
        Ok((1..=*queries + 2).map(|row| format!("{date} row {row}")).collect())
    }

    fn queries(&self) -> usize {
        *lock(&self.queries)
    }
}

/// A mail API that honours `Idempotency-Key`. Its first answer is lost on the way.
#[derive(Clone, Default)]
struct MailApi {
    requests: Arc<Mutex<Vec<String>>>,
    mails: Arc<Mutex<BTreeMap<String, String>>>,
}

impl MailApi {
    fn send(&self, rows: usize, idempotency_key: &str) -> Result<String, ReportError> {
        let mut requests = lock(&self.requests);
        requests.push(idempotency_key.to_owned());
        let mut mails = lock(&self.mails);
        let number = mails.len() + 1;
        let id = mails.entry(idempotency_key.to_owned()).or_insert(format!("msg_{number}_{rows}"));
        if requests.len() == 1 { Err(ReportError::Mail) } else { Ok(id.clone()) }
    }

    fn requests(&self) -> usize {
        lock(&self.requests).len()
    }

    fn mails(&self) -> usize {
        lock(&self.mails).len()
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
