//! The parts of the kit by themselves: the clock, the store, the boundaries of fakes.

use std::time::Duration;

use idempotent_runtime::protocol::{State, StepState};
use idempotent_runtime::testing::{self, ManualClock, Operation, StoreFault, TestStore, boundary};
use idempotent_runtime::{Clock, Error, Runtime, idempotent, step};

use crate::fakes::{Shop, ShopError};

async fn place() -> (ManualClock, TestStore, Runtime) {
    let clock = ManualClock::new();
    let store = TestStore::new(clock.clone());
    let builder = Runtime::builder("kit").store(store.clone()).clock(clock.clone());
    let runtime = builder.heartbeat_task().reaper(false).connect().await.unwrap();
    (clock, store, runtime)
}

#[idempotent(key = "kit:{order}")]
async fn charges_by_hand(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    step("charge").run(async |_| shop.charge.happen().await).await
}

#[tokio::test]
async fn a_lease_lapses_when_the_clock_is_moved() {
    let (clock, store, runtime) = place().await;
    // The outcome is never stored, and nor is the release.
    store.fail(Operation::Complete, StoreFault::ReadOnly, 1);
    store.fail(Operation::Release, StoreFault::ReadOnly, 1);
    let shop = Shop::new();
    let refused = runtime.scope(charges_by_hand(1, shop.clone())).await;
    assert!(matches!(refused, Err(ShopError::Idempotent(Error::Unrecorded { .. }))), "{refused:?}");

    let refused = runtime.scope(charges_by_hand(1, shop.clone())).await;
    assert!(matches!(refused, Err(ShopError::Idempotent(Error::InFlight { .. }))), "{refused:?}");
    clock.advance(Duration::from_secs(31));
    assert_eq!(runtime.scope(charges_by_hand(1, shop.clone())).await.unwrap(), 1);
    assert_eq!(shop.charge.count(), 1, "its record was there");
    assert_eq!(store.calls(Operation::TakeOver), 1);
}

#[tokio::test]
async fn a_test_looks_into_the_store() {
    let (_, store, runtime) = place().await;
    store.fail(Operation::RecordStep, StoreFault::AnswerLost, 1);
    store.fail(Operation::Complete, StoreFault::Busy, 100);
    store.heal();
    runtime.scope(charges_by_hand(1, Shop::new())).await.unwrap();
    let [execution] = &store.executions()[..] else { panic!("one execution") };
    assert_eq!(execution.record.state, State::Completed);
    assert_eq!(execution.identity.key.as_deref(), Some("kit:1"));
    let [step] = &store.journal(execution.record.id).await[..] else { panic!("one step") };
    assert_eq!((step.name.step.as_str(), step.state), ("charge", StepState::Recorded));
    let asked = [Operation::Claim, Operation::RecordStep, Operation::Complete, Operation::TakeOver];
    assert_eq!(asked.map(|it| store.calls(it)), [1, 1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_on_the_clock_goes_on_when_it_is_moved() {
    let clock = ManualClock::new();
    let waiting = tokio::spawn({
        let clock = clock.clone();
        async move { clock.sleep_until(Duration::from_secs(5)).await }
    });
    clock.advance(Duration::from_secs(4));
    // Tokio's own time does not move it.
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(!waiting.is_finished());
    clock.advance(Duration::from_secs(1));
    waiting.await.unwrap();
    assert_eq!(clock.elapsed(), Duration::from_secs(5));
    assert_eq!(clock.now_us() - ManualClock::new().now_us(), 5_000_000);
}

#[idempotent(key = "kit:boundary:{order}")]
async fn prints(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    for _ in 0..2 {
        let printing = boundary("print").await;
        shop.charge.happen().await?;
        printing.passed().await;
    }
    Ok(order)
}

/// Without a boundary between them nobody could die there.
#[tokio::test]
async fn a_fake_that_names_its_boundaries_is_stopped_between_two_effects() {
    let failed = testing::world(async || Shop::new())
        .call(async |shop| prints(1, shop.clone()).await)
        .times("page", 2, async |shop| shop.charge.count())
        .check()
        .await
        .unwrap_err()
        .to_string();
    assert!(failed.contains("`page` happened 3 times, and is expected exactly twice"), "{failed}");
    assert!(failed.contains("the process dies after `print`; another one goes on"), "{failed}");
}
