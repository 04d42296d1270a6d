//! One invoice per order, found or created, by eight workers at once.
//!
//!     cargo run -p idempotent-examples --bin invoice
//!
//! The usual form looks first and inserts then:
//!
//!     if let Some(invoice) = find(order).await? { return invoice }   // 1. not there yet
//!     insert(order).await?                                           // 2. twice, or an error
//!
//! Two workers look at once, and both insert. So the table has a **unique constraint**: it is the last instance, whoever
//! comes along. The attribute does not replace it. It keeps a second delivery of the same event away; but another
//! handler, a script, or an event that comes after `retain` has another key or none, and wants an invoice for the same
//! order.
//!
//! With the constraint, one inserts first and finds afterwards; Rails calls that `create_or_find_by!`. The insert fails,
//! and the failure is caught. **In PostgreSQL that is too late**: an error aborts the whole transaction, and each
//! statement after it gets "current transaction is aborted" (25P02), the one that was to find the invoice too. Rails
//! puts a savepoint around the insert; here that would be `tx.begin()`. `ON CONFLICT .. DO NOTHING` needs none: a
//! conflict is no error, it just returns no row.
//!
//! The body's transaction is the completion's: the invoice is there if and only if the operation is completed.
//!
//! For PostgreSQL write `&mut PgConnection`, a `postgres://` URL and `BIGINT` columns; the statements stay. There a
//! conflict or a rollback uses up a number of the sequence: whoever must have numbers without gaps counts in a row of
//! their own, which each body locks.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::collections::BTreeSet;

use idempotent_runtime::{Error, Runtime, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use tokio::task::JoinSet;

const WORKERS: usize = 8;
const ORDERS: usize = 20;

/// The constraint is `UNIQUE`: without it, all that follows is a guess.
const TABLE: &str = "CREATE TABLE invoice (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id TEXT NOT NULL UNIQUE,
    cents INTEGER NOT NULL
) STRICT";

/// What is to be invoiced.
#[derive(Clone, Debug, Serialize)]
struct Order {
    id: String,
    cents: i64,
}

/// What the handlers answer, on every call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Invoice {
    number: i64,
    created: bool,
}

#[derive(Debug, thiserror::Error)]
enum InvoiceError {
    #[error("the invoice {number} of this order is about {cents} cents")]
    OtherAmount { number: i64, cents: i64 },
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Idempotent(#[from] Error),
}

/// On the event "shipped". Where another worker has the order just now, this one waits for its answer.
#[idempotent(key = "invoice-shipped:{order.id}", wait = "30s")]
async fn invoice_shipped(
    order: Order,
    #[transaction] tx: &mut SqliteConnection,
) -> Result<Invoice, InvoiceError> {
    create_or_find(&order, tx).await
}

/// At the end of the month, for what was forgotten: another operation, and perhaps the same invoice.
#[idempotent(key = "invoice-month:{order.id}", wait = "30s")]
async fn invoice_month(
    order: Order,
    #[transaction] tx: &mut SqliteConnection,
) -> Result<Invoice, InvoiceError> {
    create_or_find(&order, tx).await
}

async fn create_or_find(order: &Order, tx: &mut SqliteConnection) -> Result<Invoice, InvoiceError> {
    let insert = "INSERT INTO invoice (order_id, cents) VALUES ($1, $2)
                  ON CONFLICT (order_id) DO NOTHING RETURNING number";
    let inserting = sqlx::query_scalar(insert).bind(&order.id).bind(order.cents);
    if let Some(number) = inserting.fetch_optional(&mut *tx).await? {
        return Ok(Invoice { number, created: true });
    }
    let select = "SELECT number, cents FROM invoice WHERE order_id = $1";
    let (number, cents) = sqlx::query_as(select).bind(&order.id).fetch_one(tx).await?;
    // Found is not yet the same.
    if cents != order.cents {
        return Err(InvoiceError::OtherAmount { number, cents });
    }
    Ok(Invoice { number, created: false })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("invoices.db");
    let url = format!("sqlite://{}", file.display());
    let mut database =
        SqliteConnectOptions::new().filename(&file).create_if_missing(true).connect().await?;
    sqlx::query(TABLE).execute(&mut database).await?;

    // A runtime for each worker, as if each were a process: they share nothing but the file.
    let mut runtimes = Vec::new();
    for _ in 0..WORKERS {
        runtimes.push(Runtime::connect("invoicing", &url).await?);
    }
    let mut workers = JoinSet::new();
    for (worker, runtime) in runtimes.into_iter().enumerate() {
        workers.spawn(async move { runtime.scope(work(worker)).await });
    }
    let mut answers = Vec::new();
    while let Some(worked) = workers.join_next().await {
        answers.extend(worked??);
    }

    let rows = "SELECT order_id, number FROM invoice ORDER BY order_id";
    let rows: Vec<(String, i64)> = sqlx::query_as(rows).fetch_all(&mut database).await?;
    let told: BTreeSet<_> =
        answers.iter().map(|(_, order, invoice)| (order.clone(), invoice.number)).collect();
    // Once for each handler and order: a duplicate gets the answer of the first call, `created` included.
    let created: BTreeSet<_> = answers.iter().filter(|(.., invoice)| invoice.created).collect();
    let by = |handler| created.iter().filter(|(creator, ..)| *creator == handler).count();
    println!(
        "{ORDERS} orders, {WORKERS} workers, {} calls: {} invoices, {} created on \"shipped\" and {} at the month's end",
        answers.len(),
        rows.len(),
        by(Handler::Shipped),
        by(Handler::Month)
    );
    anyhow::ensure!(rows.len() == ORDERS && created.len() == ORDERS, "not each order once");
    anyhow::ensure!(told.into_iter().eq(rows), "somebody was told of another invoice");
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Handler {
    Shipped,
    Month,
}

/// Invoices every order, each for one of two reasons: one half of the workers for this one, the other half for that.
async fn work(worker: usize) -> Result<Vec<(Handler, String, Invoice)>, InvoiceError> {
    let mut answers = Vec::new();
    for number in 0..ORDERS {
        let order = Order { id: format!("order-{number:02}"), cents: 4_200 };
        let id = order.id.clone();
        answers.push(if (worker + number).is_multiple_of(2) {
            (Handler::Shipped, id, invoice_shipped(order).await?)
        } else {
            (Handler::Month, id, invoice_month(order).await?)
        });
    }
    Ok(answers)
}
