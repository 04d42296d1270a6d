//! A charge and its receipt: neither lost nor doubled, wherever the process dies.
//!
//!     cargo run -p idempotent-examples --bin payment
//!
//! The usual form does one after the other:
//!
//!     if completed.has(order) { return }   // 1. a duplicate
//!     bank.charge(order).await?;           // 2. paid
//!     completed.put(order).await?;         // 3. from here on 1 answers
//!     mail.send(receipt).await?;           // 4. never reached: the process dies
//!
//! Between 3 and 4 lies the order that is paid for and never confirmed, since the second delivery returns at 1. With 3
//! and 4 the other way round, the receipt of an order goes out that nobody has recorded, and then another one.
//!
//! Below, the charge is a step: *started* before it, recorded after it, with the same provider key in between. The
//! receipt is a message that is written **in the same commit as the completion**, and a relay delivers it until the mail
//! server has taken it: at least once, under one id.
//!
//! The program starts itself as the shop's process and lets that die at each point; the next one gets the same order
//! once more, as from a queue, and finishes it.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use idempotent_runtime::outbox::{self, Delivery, Relay, Route, SinkError};
use idempotent_runtime::{Disposition, Error, Runtime, idempotent, step};
use serde::{Deserialize, Serialize};

/// What the shop's queue delivers, at least once.
#[derive(Clone, Debug, Serialize)]
struct Order {
    id: String,
    cents: u64,
    email: String,
}

/// What the handler answers, on every call.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Charge {
    id: String,
    cents: u64,
}

/// The message: all that the mail needs, since the relay knows nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Receipt {
    to: String,
    charge: Charge,
}

#[derive(Debug, thiserror::Error)]
enum PaymentError {
    #[error("the outside cannot be reached: {0}")]
    Outside(#[from] io::Error),
    #[error(transparent)]
    Idempotent(#[from] Error),
}

/// A lease of a second, so that the next process need not wait long; leave yours at 30 seconds.
#[idempotent(key = "payment:{order.id}", lease = "1s")]
async fn pay(order: Order, #[context] outside: Outside) -> Result<Charge, PaymentError> {
    // The bank remembers keys for a day; after that a person is asked rather than the customer charged again.
    let charge = step("charge")
        .provider_window(Duration::from_hours(23))
        .run(async |effect| {
            outside.passes("before the charge");
            let charge = outside.charge(order.cents, &effect.provider_key());
            outside.passes("after the charge, before its record");
            charge
        })
        .await?;
    outside.passes("after the record");
    // Nothing is sent here: it is kept, and committed with the completion or not at all.
    outbox::send("receipt-email", &Receipt { to: order.email.clone(), charge: charge.clone() })?;
    outside.passes("before the completion");
    Ok(charge)
}

/// The same as it is usually written, even with a key for the bank.
fn pay_usually(order: &Order, outside: &Outside) -> Result<(), PaymentError> {
    if outside.all("completed")?.contains(&order.id) {
        return Ok(());
    }
    let charge = outside.charge(order.cents, &format!("charge-{}", order.id))?;
    outside.note("completed", &order.id)?;
    outside.passes("after the completion");
    let receipt = Receipt { to: order.email.clone(), charge };
    Ok(outside.mail(&format!("receipt-{}", order.id), &receipt)?)
}

/// The shop's process: pays, and delivers what is to be delivered.
async fn serve(directory: &Path, order: Order, outside: Outside) -> anyhow::Result<()> {
    let url = format!("sqlite://{}", directory.join("shop.db").display());
    let runtime = Runtime::connect("shop", &url).await?;
    runtime.install()?;

    // As a consumer does it: what is not acknowledged comes again. The process before may still hold its lease.
    while let Err(error) = pay(order.clone(), outside.clone()).await {
        let PaymentError::Idempotent(error) = error else { return Err(error.into()) };
        let Disposition::RetryAfter(pause) = error.disposition() else { return Err(error.into()) };
        tokio::time::sleep(pause).await;
    }
    outside.passes("after the completion");

    let mails = move |delivery: Delivery| {
        let outside = outside.clone();
        async move {
            outside.passes("before the delivery");
            let receipt: Receipt = delivery.json()?;
            // Nobody knows of a mail server that broke off whether it has the mail: `retry`, under the same id.
            outside.mail(delivery.id(), &receipt).map_err(SinkError::retry)?;
            outside.passes("after the delivery, before its record");
            Ok(())
        }
    };
    // A relay of yours runs until the service stops; this one until all is delivered.
    Relay::new(&runtime)
        .poll_every(Duration::from_millis(50))
        .sink("receipt-email", Route::new(mails).lease(Duration::from_secs(1)))
        .run_until(all_delivered(&runtime))
        .await?;
    ensure!(runtime.outbox().counts().await?.is_empty(), "a message was not delivered");
    runtime.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

async fn all_delivered(runtime: &Runtime) {
    let outbox = runtime.outbox();
    while !outbox.counts().await.is_ok_and(|topics| topics.is_empty()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Where the process can die.
const POINTS: [&str; 7] = [
    "before the charge",
    "after the charge, before its record",
    "after the record",
    "before the completion",
    "after the completion",
    "before the delivery",
    "after the delivery, before its record",
];

/// A process that lives longer than this hangs.
const LIFE_MAX: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [form, directory, dies] = arguments.as_slice() else {
        ensure!(arguments.is_empty(), "it takes no arguments");
        return demonstrate();
    };
    let directory = Path::new(directory);
    let outside = Outside { log: directory.join("outside.log"), dies: dies.clone() };
    let order =
        Order { id: "order-17".to_owned(), cents: 4_200, email: "ada@shop.example".to_owned() };
    match form.as_str() {
        "outbox" => {
            let serving = tokio::time::timeout(LIFE_MAX, serve(directory, order, outside));
            serving.await.context("it hangs")?
        }
        "usual" => Ok(pay_usually(&order, &outside)?),
        _ => bail!("no such form"),
    }
}

/// Lets processes die at each point, and counts what there is outside when the next ones are done.
fn demonstrate() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let usual = ("usual", "after the completion");
    let forms = POINTS.map(|point| ("outbox", point)).into_iter().chain([usual]);
    let cases: Vec<(PathBuf, &str, &str)> = (1..)
        .zip(forms)
        .map(|(number, (form, point))| (directory.path().join(format!("{number}")), form, point))
        .collect();
    for (place, ..) in &cases {
        fs::create_dir(place)?;
    }
    for dies in [true, false] {
        // All at once: each has a file of its own.
        let mut processes: Vec<Child> = Vec::new();
        for (place, form, point) in &cases {
            let mut shop = Command::new(std::env::current_exe()?);
            shop.arg(form).arg(place).arg(if dies { point } else { "never" });
            processes.push(shop.spawn().context("starting the shop's process")?);
        }
        for (mut process, (_, form, point)) in processes.into_iter().zip(&cases) {
            let status = process.wait()?;
            ensure!(status.success() != dies, "{form}, {point}: {status}");
        }
    }

    println!("{:<40}{:>10}{:>9}{:>7}{:>13}", "died", "requests", "charges", "mails", "message ids");
    for (place, form, point) in cases {
        let outside = Outside { log: place.join("outside.log"), dies: String::new() };
        let (requests, mails) = (outside.all("charge")?, outside.all("mail")?);
        let (charges, ids) = (distinct(&requests), distinct(&mails));
        let (requests, mails) = (requests.len(), mails.len());
        let usual = if form == "usual" { "  the usual form" } else { "" };
        println!("{point:<40}{requests:>10}{charges:>9}{mails:>7}{ids:>13}{usual}");
        ensure!(outside.all("died")? == [point], "it did not die {point}");
        ensure!(charges == 1, "{charges} charges");
        ensure!(ids == usize::from(form == "outbox"), "{ids} receipts of the form `{form}`");
    }
    Ok(())
}

/// Equal ones are one: the bank charges once for a key, and a receipt is the same by its id and all that is in it.
fn distinct(ids: &[String]) -> usize {
    ids.iter().collect::<BTreeSet<_>>().len()
}

/// The bank and the mail server, who outlive the process: lines in a file.
#[derive(Clone, Debug)]
struct Outside {
    log: PathBuf,
    dies: String,
}

impl Outside {
    fn charge(&self, cents: u64, idempotency_key: &str) -> Result<Charge, PaymentError> {
        self.note("charge", idempotency_key)?;
        Ok(Charge { id: format!("ch_{idempotency_key}"), cents })
    }

    fn mail(&self, message_id: &str, receipt: &Receipt) -> io::Result<()> {
        let Receipt { to, charge } = receipt;
        self.note("mail", &format!("{message_id} to {to}: {} cents, {}", charge.cents, charge.id))
    }

    /// Dies here, if that is where this process dies: at once, without a destructor, as by SIGKILL.
    fn passes(&self, point: &str) {
        if self.dies == point {
            let _ = self.note("died", point);
            std::process::abort();
        }
    }

    fn note(&self, what: &str, id: &str) -> io::Result<()> {
        let mut log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        log.write_all(format!("{what} {id}\n").as_bytes())
    }

    fn all(&self, what: &str) -> io::Result<Vec<String>> {
        let log = match fs::read_to_string(&self.log) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            log => log?,
        };
        let ids = log.lines().filter_map(|line| line.strip_prefix(what)?.strip_prefix(' '));
        Ok(ids.map(str::to_owned).collect())
    }
}
