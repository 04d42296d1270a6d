//! A handler that writes through `tokio-postgres`: its rows, its message and its completion are one commit.
//!
//!     cargo run -p idempotent-examples --features tokio-postgres --bin another_driver -- postgres://localhost/scratch
//!
//! A handler that is lent a connection, `#[transaction] tx: &mut PgConnection`, needs nothing of this. But that
//! connection is sqlx's. Whoever writes through another driver has a transaction of his own, and with it a gap:
//!
//!     transaction.commit().await?;         // 1. booked
//!     Ok(entry)                            // 2. never stored: the process dies, and the next attempt books again
//!
//! So the completion goes into that transaction, as its last statement: [`complete`] and [`bind`] below are all there is
//! to copy. The statement is guarded. Where another attempt has taken over meanwhile, it affects no row, `check` says
//! so, and `?` leaves without a commit.
//!
//! The program starts itself as processes that die, roll back and freeze at each point. Each is followed by another one
//! with the same transfer; then it counts.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use idempotent_runtime::store::Parameter;
use idempotent_runtime::{Disposition, Error, Execution, Runtime, idempotent, outbox};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Transaction};

/// Nothing is unique here: that there is one entry for each transfer is the handler's doing alone.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS entry (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    transfer text NOT NULL,
    cents bigint NOT NULL
)";

/// What the queue delivers, at least once.
#[derive(Clone, Debug, Serialize)]
struct Transfer {
    id: String,
    cents: i64,
}

/// What the handler answers, on every call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Booked {
    entry: i64,
}

#[derive(Debug, thiserror::Error)]
enum BookError {
    #[error("planned: the transfer is not booked after all")]
    Planned,
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Idempotent(#[from] Error),
}

/// A lease of a second, so that the next process need not wait long; leave yours at 30 seconds.
#[idempotent(key = "transfer:{transfer.id}", lease = "1s")]
async fn book(transfer: Transfer, #[context] bank: Bank) -> Result<Booked, BookError> {
    let mut client = bank.connect().await?;
    let transaction = client.transaction().await?;
    let insert = "INSERT INTO entry (transfer, cents) VALUES ($1, $2) RETURNING number";
    let row = transaction.query_one(insert, &[&transfer.id, &transfer.cents]).await?;
    let booked = Booked { entry: row.get(0) };
    bank.passes("the entry")?;
    // Kept until the completion, which writes it.
    outbox::send("receipt", &booked)?;
    complete(&transaction, &booked).await?;
    bank.passes("the completion")?;
    transaction.commit().await?;
    bank.passes("the commit")?;
    Ok(booked)
}

/// Completes the execution of the body that calls it, as the last statement of `transaction`.
async fn complete<T>(transaction: &Transaction<'_>, result: &T) -> Result<(), BookError>
where
    T: Serialize + DeserializeOwned + 'static,
{
    let completion = Execution::current().completion(result)?;
    for statement in completion.statements() {
        let rows = transaction.execute(statement.sql(), &bind(statement.parameters())).await?;
        completion.check(rows)?;
    }
    Ok(())
}

/// The parameters of a statement as this driver takes them.
fn bind(parameters: &[Parameter]) -> Vec<&(dyn ToSql + Sync)> {
    let mut bound: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        bound.push(match parameter {
            Parameter::Integer(integer) => integer,
            Parameter::Text(text) => text,
            Parameter::Bytes(bytes) => bytes,
        });
    }
    bound
}

/// A process of the bank: books one transfer, however long another attempt has it.
async fn serve(url: &str, transfer: Transfer, ends: &str) -> anyhow::Result<()> {
    let runtime = Runtime::connect("bank", url).await?;
    let bank = Bank { url: url.to_owned(), ends: ends.to_owned() };
    let booked = loop {
        let booked = runtime.scope(book(transfer.clone(), bank.clone())).await;
        let Err(BookError::Idempotent(error @ Error::InFlight { .. })) = &booked else {
            break booked;
        };
        let Disposition::RetryAfter(after) = error.disposition() else { break booked };
        tokio::time::sleep(after).await;
    };
    println!("entry {}", booked?.entry);
    runtime.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// The bank's database, and where this process ends.
#[derive(Clone, Debug)]
struct Bank {
    url: String,
    ends: String,
}

impl Bank {
    /// A connection; yours comes from a pool.
    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        // It ends with the client.
        tokio::spawn(connection);
        Ok(client)
    }

    /// Dies here as by SIGKILL, freezes, or fails, if that is how this process ends.
    fn passes(&self, point: &str) -> Result<(), BookError> {
        let (how, at) = self.ends.split_once(" behind ").unwrap_or_default();
        match how {
            _ if at != point => Ok(()),
            "dies" => std::process::abort(),
            "rolls back" => Err(BookError::Planned),
            _ => {
                println!("frozen");
                signal("-STOP", std::process::id());
                Ok(())
            }
        }
    }
}

/// Sends a signal to a process.
fn signal(signal: &str, process: u32) {
    let sent = Command::new("kill").args([signal, &process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill {signal} {process}");
}

/// How the first process of a transfer ends, and whether that is well.
const ENDS: [(&str, bool); 8] = [
    ("well", true),
    ("dies behind the entry", false),
    ("dies behind the completion", false),
    ("dies behind the commit", false),
    ("rolls back behind the entry", false),
    ("rolls back behind the completion", false),
    // An error that comes too late: the transfer is booked, and so the caller is told.
    ("rolls back behind the commit", true),
    ("freezes behind the entry", false),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [url] => demonstrate(url).await,
        [url, id, ends] => serve(url, Transfer { id: id.clone(), cents: 4_200 }, ends).await,
        _ => anyhow::bail!("it takes the URL of a database to work in"),
    }
}

/// Lets processes end in each way, each followed by another one, and counts what is booked.
async fn demonstrate(url: &str) -> anyhow::Result<()> {
    let bank = Bank { url: url.to_owned(), ends: String::new() };
    let client = bank.connect().await?;
    client.batch_execute(TABLE).await?;
    // Each in a thread, and so all at once.
    let cases = ENDS.map(|(ends, is_well)| {
        let url = url.to_owned();
        tokio::task::spawn_blocking(move || transfer(&url, ends, is_well))
    });
    let mut told = Vec::new();
    for case in cases {
        told.push(case.await??);
    }

    let runtime = Runtime::connect("bank", url).await?;
    println!("{:<36}{:>8}{:>10}", "the first process", "entries", "told");
    for ((ends, _), told) in ENDS.into_iter().zip(told) {
        let select = "SELECT number FROM entry WHERE transfer = $1";
        let entries: Vec<i64> =
            client.query(select, &[&ends]).await?.iter().map(|row| row.get(0)).collect();
        println!("{ends:<36}{:>8}{told:>10}", entries.len());
        ensure!(entries == [told], "{ends}: {entries:?}, and the caller was told of {told}");
    }
    let receipts: u64 = runtime.outbox().counts().await?.iter().map(|topic| topic.pending).sum();
    println!("{receipts} receipts");
    ensure!(receipts == u64::try_from(ENDS.len())?, "not each transfer has one receipt");
    runtime.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// Two processes with one transfer, of which the first ends like this; the entry that the second one tells.
fn transfer(url: &str, ends: &str, is_well: bool) -> anyhow::Result<i64> {
    let start = |ends: &str, id: &str| -> anyhow::Result<Child> {
        let mut process = Command::new(std::env::current_exe()?);
        process.args([url, id, ends]).stdout(Stdio::piped());
        if ends != "well" {
            process.stderr(Stdio::null());
        }
        process.spawn().context("starting the bank's process")
    };
    let mut first = start(ends, ends)?;
    let is_frozen = ends.starts_with("freezes");
    if is_frozen {
        let said = first.stdout.take().context("its output")?;
        ensure!(BufReader::new(said).lines().next().context("it says nothing")?? == "frozen");
    } else {
        let status = first.wait()?;
        ensure!(status.success() == is_well, "{ends}: {status}");
    }
    let second = start("well", ends)?.wait_with_output()?;
    ensure!(second.status.success(), "{ends}: the second process: {}", second.status);
    if is_frozen {
        // Now it goes on, in the belief that the transfer is its own.
        signal("-CONT", first.id());
        ensure!(!first.wait()?.success(), "{ends}: it was told that it had booked");
    }
    let said = String::from_utf8(second.stdout)?;
    let entry = said.trim().strip_prefix("entry ").context("it tells no entry")?;
    Ok(entry.parse()?)
}
