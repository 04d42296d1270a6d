//! How much memory executions in flight hold: `in-flight ours URL`, or `in-flight plain` for callers that run the body
//! without us. A program of its own, since it counts every allocation, which would slow down what others measure.
//!
//! Prints the bytes that are allocated for each caller, those that the process has grown by, and the size of what the
//! caller waits for.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::alloc::System;
use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idempotent_benches::work::{Payment, Receipt};
use idempotent_runtime::{Error as Refused, Runtime, idempotent};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Callers whose bodies wait.
const CALLERS: u64 = 10_000;
/// Calls before, so that pools, tables and threads are there already.
const BEFORE: u64 = 2_000;

static STARTED: AtomicU64 = AtomicU64::new(0);
static LET_GO: Semaphore = Semaphore::const_new(0);

async fn body(payment: Payment) -> Result<Receipt, Refused> {
    STARTED.fetch_add(1, Ordering::Relaxed);
    let permit = LET_GO.acquire().await;
    drop(permit);
    Ok(payment.receipt())
}

#[idempotent(name = "waits", key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<Receipt, Refused> {
    body(payment).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("plain"), None) => measure(body).await,
        (Some("ours"), Some(url)) => {
            let runtime = Runtime::builder("in-flight").url(url).reaper(false).connect().await?;
            let scoped = runtime.clone();
            measure(move |payment| scoped.scope(charge(payment))).await?;
            runtime.shutdown(Duration::from_secs(1)).await;
            Ok(())
        }
        _ => Err("in-flight ours URL, or in-flight plain".into()),
    }
}

async fn measure<F>(call: impl Fn(Payment) -> F) -> Result<(), Box<dyn Error>>
where
    F: Future<Output = Result<Receipt, Refused>> + Send + 'static,
{
    // What is spawned is held in a set whose own entries count on both sides.
    LET_GO.add_permits(usize::try_from(BEFORE)?);
    let mut before = JoinSet::new();
    for number in 0..BEFORE {
        before.spawn(call(Payment::of(number)));
    }
    let answers = before.join_all().await;
    assert!(answers.iter().all(Result::is_ok), "the handler answers");
    LET_GO.forget_permits(usize::try_from(BEFORE)?);
    tokio::time::sleep(Duration::from_millis(200)).await;

    STARTED.store(0, Ordering::Relaxed);
    let (bytes, resident) = (allocated(), resident_bytes()?);
    let mut callers = JoinSet::new();
    let mut size = 0;
    for number in BEFORE..BEFORE + CALLERS {
        let caller = call(Payment::of(number));
        size = size_of_val(&caller);
        callers.spawn(caller);
    }
    while STARTED.load(Ordering::Relaxed) < CALLERS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The tasks that claimed are gone then.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let callers_count = usize::try_from(CALLERS)?;
    let bytes = allocated().saturating_sub(bytes) / callers_count;
    let resident = resident_bytes()?.saturating_sub(resident) / callers_count;
    LET_GO.close();
    let answers = callers.join_all().await;
    assert!(answers.iter().all(Result::is_ok), "the handler answers");
    println!("{bytes} {resident} {size}");
    Ok(())
}

/// Bytes that are allocated now.
fn allocated() -> usize {
    let seen = ALLOCATED.stats();
    seen.bytes_allocated.saturating_sub(seen.bytes_deallocated)
}

/// Bytes of this process that are in memory now.
fn resident_bytes() -> Result<usize, Box<dyn Error>> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).ok_or("`statm` has another form")?;
    Ok(pages.parse::<usize>()? * 4_096)
}
