//! Clocks and time zones that are wrong: a server database judges leases by its own clock alone.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use idempotent_conformance::PostgresServer;
use idempotent_runtime::{Clock, Error, Runtime, SystemClock, idempotent};
use tokio::sync::Notify;

/// A process's wall clock that is wrong by some microseconds.
#[derive(Debug)]
struct Skewed {
    clock: SystemClock,
    by_us: i64,
}

impl Clock for Skewed {
    fn now_us(&self) -> i64 {
        self.clock.now_us() + self.by_us
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.clock.sleep_until(deadline)
    }
}

#[idempotent(key = "skewed:{id}", name = "handlers-skewed")]
async fn skewed(
    id: u8,
    #[context] started: Arc<Notify>,
    #[context] finish: Arc<Notify>,
) -> Result<u8, Error> {
    started.notify_one();
    finish.notified().await;
    Ok(id)
}

#[tokio::test]
async fn a_live_claim_is_not_stolen_by_a_process_whose_clock_or_time_zone_is_wrong() {
    let database = PostgresServer::shared().fresh_database().unwrap();
    let zone = format!("ALTER DATABASE {} SET timezone = 'Asia/Tokyo'", database.name());
    database.execute(&zone).unwrap();
    let process = async |minutes: i64| {
        let clock = Skewed { clock: SystemClock::new(), by_us: minutes * 60_000_000 };
        Runtime::builder("skew").url(database.url()).clock(clock).connect().await.unwrap()
    };
    let (owner, ahead, behind) = (process(0).await, process(10).await, process(-10).await);
    let (started, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let body = skewed(1, Arc::clone(&started), Arc::clone(&finish));
    let running = tokio::spawn(async move { owner.scope(body).await });
    started.notified().await;
    for thief in [&ahead, &behind] {
        let swept = thief.sweep().await.unwrap();
        assert_eq!((swept.retryable, swept.review, swept.purged), (0, 0, 0));
        let call = thief.scope(skewed(1, Arc::clone(&started), Arc::clone(&finish))).await;
        let Err(Error::InFlight { retry_after }) = call else { panic!("{call:?}") };
        assert!(retry_after <= Duration::from_secs(30), "{retry_after:?}");
    }
    finish.notify_one();
    assert_eq!(running.await.unwrap().unwrap(), 1);
    for later in [ahead, behind] {
        let call = later.scope(skewed(1, Arc::clone(&started), Arc::clone(&finish)));
        assert_eq!(call.await.unwrap(), 1);
    }
}
