//! A process that reaps and purges, a page at a time, and waits behind each that swept something.

use std::io::Write;

use idempotent_runtime::store::{Cursor, Store};

use crate::worker;

/// Executions that are looked at in one page.
const ROWS_MAX: u32 = 25;

/// The process's `main`.
///
/// # Panics
///
/// If the store fails. Its test sees it end otherwise than it should.
pub fn main(url: &str) {
    worker::die_with_the_test();
    let tokio = tokio::runtime::Runtime::new().expect("a tokio runtime starts");
    tokio.block_on(async {
        let store = worker::open(url).await;
        let mut next = None;
        while let Some(page) = reap(&*store, next.take()).await {
            next = Some(page);
        }
        while let Some(page) = purge(&*store, next.take()).await {
            next = Some(page);
        }
        store.close().await;
    });
}

async fn reap(store: &dyn Store, after: Option<Cursor>) -> Option<Cursor> {
    let reaped = store.reap(after, None, ROWS_MAX).await.expect("it reaps");
    if !reaped.lapsed.is_empty() {
        say("reaped");
    }
    reaped.next
}

async fn purge(store: &dyn Store, after: Option<Cursor>) -> Option<Cursor> {
    let purged = store.purge(after, ROWS_MAX).await.expect("it purges");
    if purged.deleted > 0 {
        say("purged");
    }
    purged.next
}

/// Says what it did, and goes on when it is told to.
fn say(what: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{what}").expect("the test listens");
    output.flush().expect("the test listens");
    let told = std::io::stdin().read_line(&mut String::new());
    assert_ne!(told.expect("the test talks"), 0, "the test has gone");
}
