//! Handlers of one process on a real store: the same cases on both databases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use idempotent_crash::ledger::{self, Event};
use idempotent_crash::{Database, Order, Refusal, Row, Scratch, Script, Shop, fulfil};
use idempotent_runtime::{Error, Runtime, Swept};
use tokio::task::JoinSet;

/// Runs a case on a tokio runtime of its own.
pub(crate) fn run(case: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(case);
}

/// A runtime on a pool of the smallest size, and a shop whose bodies it runs.
async fn open(scratch: &Scratch, url: &str, lease: Duration) -> (Runtime, Arc<Shop>) {
    let runtime = Runtime::builder("crash")
        .url(url)
        .pool_size(2)
        .lease(lease)
        .reaper_interval(Duration::from_millis(100))
        .connect()
        .await
        .unwrap();
    (runtime, Arc::new(Shop::quick(&scratch.join("ledger"), 1).unwrap()))
}

/// How often each order's body began.
fn bodies(scratch: &Scratch) -> BTreeMap<u64, usize> {
    let mut bodies = BTreeMap::new();
    for line in ledger::read(&scratch.join("ledger")).unwrap().0 {
        if let Event::Began(mark) = line.2 {
            *bodies.entry(mark.order).or_default() += 1;
        }
    }
    bodies
}

fn untroubled(row: &Row) -> bool {
    row.state == 3 && row.attempts == 1 && row.crashes == 0
}

/// Case 6, the other way round: the owner completes first, and reapers find a lease that has lapsed.
pub(crate) async fn reapers_leave_what_is_completed(scratch: &Scratch, url: &str) {
    const ORDERS: u64 = 60;
    // Long, so that none lapses while its body runs on a machine that is busy with other things.
    let (runtime, shop) = open(scratch, url, Duration::from_secs(60)).await;
    let mut calls = JoinSet::new();
    for number in 1..=ORDERS {
        let (runtime, shop) = (runtime.clone(), Arc::clone(&shop));
        let order = Order { number, script: Script::Sleeps { ms: number * 5 } };
        calls.spawn(async move { runtime.scope(fulfil(order, shop)).await });
    }
    // Whoever is reaped while he runs or completes, is told so below.
    while !calls.is_empty() {
        assert_eq!(runtime.sweep().await.unwrap(), Swept::default());
        while let Some(called) = calls.try_join_next() {
            called.unwrap().unwrap();
        }
    }
    // The lease of each is over now, and none is touched.
    let database = Database::connect(url).await;
    database.end_leases().await;
    let before = database.rows().await;
    assert_eq!(runtime.sweep().await.unwrap(), Swept::default());
    assert_eq!(database.rows().await, before);
    assert!(before.iter().all(untroubled), "{before:?}");
    runtime.shutdown(Duration::ZERO).await;
}

/// Case 12: a thousand callers leave after 5 ms.
pub(crate) async fn callers_that_leave_harm_nobody(scratch: &Scratch, url: &str) {
    const ORDERS: u64 = 1_000;
    let (runtime, shop) = open(scratch, url, Duration::from_secs(30)).await;
    let mut callers = JoinSet::new();
    for first in 1..=8 {
        let (runtime, shop) = (runtime.clone(), Arc::clone(&shop));
        callers.spawn(async move {
            let mut left = 0;
            for number in (first..=ORDERS).step_by(8) {
                let order = Order { number, script: Script::Sleeps { ms: number % 12 } };
                let call = runtime.scope(fulfil(order, Arc::clone(&shop)));
                match tokio::time::timeout(Duration::from_millis(5), call).await {
                    Ok(outcome) => drop(outcome.unwrap()),
                    Err(_) => left += 1,
                }
            }
            left
        });
    }
    let left = callers.join_all().await.into_iter().sum::<u64>();
    assert!(left >= ORDERS / 3, "only {left} callers left: nothing was tried");
    for number in 1..=ORDERS {
        let order = Order { number, script: Script::Sleeps { ms: number % 12 } };
        loop {
            match runtime.scope(fulfil(order, Arc::clone(&shop))).await {
                Ok(receipt) => break assert_eq!(receipt.order, number),
                Err(Refusal::Runtime(Error::InFlight { .. })) => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Err(refused) => panic!("order {number}: {refused:?}"),
            }
        }
    }
    assert_eq!(runtime.shutdown(Duration::from_secs(30)).await.cancelled, 0);
    let rows = Database::connect(url).await.rows().await;
    assert_eq!(rows.len(), 1_000);
    // A claim whose caller left before the body began is given up and is no crash; a body that began is recorded.
    assert!(rows.iter().all(|row| row.state == 3 && row.crashes == 0), "{rows:?}");
    assert_eq!(bodies(scratch), (1..=ORDERS).map(|number| (number, 1)).collect());
}

/// Case 13: twenty handlers share two connections for several leases.
pub(crate) async fn twenty_handlers_share_two_connections(scratch: &Scratch, url: &str) {
    let (runtime, shop) = open(scratch, url, Duration::from_secs(3)).await;
    let mut calls = JoinSet::new();
    for number in 1..=20 {
        let (runtime, shop) = (runtime.clone(), Arc::clone(&shop));
        let order = Order { number, script: Script::Sleeps { ms: 10_000 } };
        calls.spawn(async move { runtime.scope(fulfil(order, shop)).await });
    }
    for called in calls.join_all().await {
        called.unwrap();
    }
    runtime.shutdown(Duration::ZERO).await;
    let rows = Database::connect(url).await.rows().await;
    assert!(rows.len() == 20 && rows.iter().all(untroubled), "{rows:?}");
    assert_eq!(bodies(scratch), (1..=20).map(|number| (number, 1)).collect());
}
