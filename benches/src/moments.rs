//! What is no throughput: how long all have to wait for one thing.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idempotent_conformance::PostgresServer;
use idempotent_runtime::{Error as Refused, Runtime, idempotent};
use sqlx::{Connection as _, PgConnection};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::table;

/// Names of the cases.
pub(crate) const HOT_KEY: &str = "hot key";
pub(crate) const LEASES: &str = "live leases";

/// How long the body of the hot key takes.
const BODY: Duration = Duration::from_millis(5);
const HOT_CALLERS: usize = 64;
const HOT_ROUNDS: usize = 101;

static BODIES: AtomicU64 = AtomicU64::new(0);

#[idempotent(key = "hot:{number}", wait = "10s")]
async fn hot(number: u64) -> Result<u64, Refused> {
    BODIES.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(BODY).await;
    Ok(number)
}

/// Many callers want one execution at once: from the first call until the last one is answered.
#[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
pub(crate) async fn hot_key(server: &PostgresServer) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder("hot").url(server.url()).connect().await?;
    let mut took = Vec::with_capacity(HOT_ROUNDS);
    for number in (0_u64..).take(HOT_ROUNDS) {
        let mut callers = JoinSet::new();
        let began = Instant::now();
        for _ in 0..HOT_CALLERS {
            let runtime = runtime.clone();
            callers.spawn(async move { runtime.scope(hot(number)).await });
        }
        let answers = callers.join_all().await;
        took.push(began.elapsed());
        assert!(answers.into_iter().all(|answer| answer.is_ok_and(|it| it == number)));
    }
    assert_eq!(BODIES.swap(0, Ordering::Relaxed), took.len() as u64, "one body a key");
    runtime.shutdown(Duration::from_secs(1)).await;
    took.sort_unstable();
    let median = took[took.len() / 2];
    let what =
        format!("{HOT_KEY}, {HOT_CALLERS} callers, a body of {BODY:?}, until all are answered");
    table::moment(&what, median, BODY.mul_f64(1.6));
    Ok(())
}

const LIVE: u64 = 10_000;
const LEASE: Duration = Duration::from_secs(9);
/// The heartbeat renews a lease when a third of it is over.
const RENEWED_AFTER: Duration = Duration::from_secs(3);
const WATCHED: Duration = Duration::from_secs(15);

static LET_GO: Semaphore = Semaphore::const_new(0);

#[idempotent(key = "live:{number}", lease = "9s")]
async fn live(number: u64) -> Result<u64, Refused> {
    BODIES.fetch_add(1, Ordering::Relaxed);
    let permit = LET_GO.acquire().await;
    Ok(number + u64::from(permit.is_err()))
}

/// How late a process with many leases renews the last of them.
#[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
pub(crate) async fn leases(server: &PostgresServer) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder("live").url(server.url()).connect().await?;
    let mut callers = JoinSet::new();
    for number in 0..LIVE {
        let runtime = runtime.clone();
        callers.spawn(async move { runtime.scope(live(number)).await });
    }
    while BODIES.load(Ordering::Relaxed) < LIVE {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut session = PgConnection::connect(&server.url()).await?;
    let left = "SELECT extract(epoch FROM min(lease_until) - clock_timestamp())::float8
                FROM idempotent_execution WHERE namespace = 'live'";
    let (began, mut least) = (Instant::now(), LEASE);
    while began.elapsed() < WATCHED {
        let left: f64 = sqlx::query_scalar(left).fetch_one(&mut session).await?;
        least = least.min(Duration::try_from_secs_f64(left)?);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    LET_GO.close();
    assert!(callers.join_all().await.into_iter().all(|answer| answer.is_ok()));
    BODIES.store(0, Ordering::Relaxed);
    runtime.shutdown(Duration::from_secs(1)).await;
    let late = (LEASE - RENEWED_AFTER).saturating_sub(least);
    table::moment(
        &format!("{LIVE} {LEASES} of {LEASE:?}, the last is renewed late by"),
        late,
        LEASE / 10,
    );
    Ok(())
}
