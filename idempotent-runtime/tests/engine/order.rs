//! Races between steps whose branches do something else, too: the next attempt is handed their values in the same order.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::__private::Handler;
use idempotent_runtime::step;
use tokio::time::Instant;

use crate::support::{Answer, AppError, PLAIN, run, runtime_on, store};

const ATTEMPTS: u32 = 6;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A step whose effect takes so long.
async fn paid(by: &'static str, after_ms: u64) -> Answer<String> {
    let paid = step(by).run(async |_| {
        tokio::time::sleep(ms(after_ms)).await;
        Ok::<_, AppError>(by.to_owned())
    });
    paid.await
}

/// Ships for whoever wins the race, and fails behind it, but for the last attempt. Who was shipped for.
async fn shipped<F>(race: impl Fn() -> F) -> Vec<String>
where
    F: Future<Output = Answer<String>> + Send + 'static,
{
    let store = store();
    let runtime = runtime_on(&store).await;
    let shipped: Arc<Mutex<Vec<String>>> = Arc::default();
    for attempt in 1..=ATTEMPTS {
        let (race, ships) = (race(), Arc::clone(&shipped));
        let body = async move {
            let winner = race.await?;
            let ship = async |_| {
                ships.lock().unwrap().push(winner.clone());
                Ok::<_, AppError>(())
            };
            step("ship").part(&winner).run(ship).await?;
            if attempt < ATTEMPTS { Err(AppError::Unlucky) } else { Ok(()) }
        };
        let answer = run::<(), _, _>(&runtime, &PLAIN, "order", &(), body).await;
        assert_eq!(answer.is_ok(), attempt == ATTEMPTS, "{answer:?}");
    }
    Arc::try_unwrap(shipped).unwrap().into_inner().unwrap()
}

/// A race in which the effect of cash is over when the record of card is acknowledged, and is recorded behind it.
async fn card_or_cash(card: impl Future<Output = Answer<String>>, cash_ms: u64) -> Answer<String> {
    tokio::select! { biased; it = card => it, it = paid("cash", cash_ms) => it }
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_waits_before_its_step_wins_again() {
    let ships = shipped(|| async {
        let card = async {
            tokio::time::sleep(ms(1)).await;
            paid("card", 10).await
        };
        card_or_cash(card, 11).await
    });
    assert_eq!(ships.await, ["card"]);
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_yields_before_its_step_wins_again() {
    let ships = shipped(|| async {
        let card = async {
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            paid("card", 10).await
        };
        card_or_cash(card, 10).await
    });
    assert_eq!(ships.await, ["card"]);
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_waits_between_two_steps_wins_again() {
    let ships = shipped(|| async {
        let card = async {
            paid("quote", 3).await?;
            tokio::time::sleep(ms(300)).await;
            paid("card", 6).await
        };
        card_or_cash(card, 309).await
    });
    assert_eq!(ships.await, ["card"]);
}

#[tokio::test(start_paused = true)]
async fn a_loser_that_is_awaited_afterwards_does_not_win_then() {
    let ships = shipped(|| async {
        let mut card = Box::pin(async {
            tokio::time::sleep(ms(1)).await;
            paid("card", 10).await
        });
        let mut cash = Box::pin(paid("cash", 15));
        tokio::select! {
            it = &mut card => {
                cash.await?;
                it
            }
            it = &mut cash => {
                card.await?;
                it
            }
        }
    });
    assert_eq!(ships.await, ["card"]);
}

#[tokio::test(start_paused = true)]
async fn a_recorded_step_that_the_body_does_not_come_to_is_waited_for_once_and_not_for_long() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let body = async |old: bool| {
        if old {
            step("old").run(async |_| Ok::<_, AppError>(())).await?;
            step("older").run(async |_| Ok::<_, AppError>(())).await?;
            return Err(AppError::Unlucky);
        }
        for number in 0..20 {
            step("new").part(&number).run(async |_| Ok::<_, AppError>(())).await?;
        }
        Ok(())
    };
    run::<(), _, _>(&runtime, &PLAIN, "order", &(), body(true)).await.unwrap_err();
    let began = Instant::now();
    run::<(), _, _>(&runtime, &PLAIN, "order", &(), body(false)).await.unwrap();
    let took = began.elapsed();
    assert!((ms(900)..ms(1_500)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_has_little_time_is_not_cancelled_while_it_waits_for_what_does_not_come() {
    static BRIEF: Handler =
        Handler::new("brief", "engine", "{key}").lease_ms(200).max_runtime_ms(800);
    let store = store();
    let runtime = runtime_on(&store).await;
    let body = async |old: bool| {
        if old {
            step("old").run(async |_| Ok::<_, AppError>(())).await?;
            return Err(AppError::Unlucky);
        }
        step("new").run(async |_| Ok::<_, AppError>(1_u8)).await
    };
    run::<u8, _, _>(&runtime, &BRIEF, "order", &(), body(true)).await.unwrap_err();
    assert_eq!(run::<u8, _, _>(&runtime, &BRIEF, "order", &(), body(false)).await.unwrap(), 1);
}
