//! Steps that race: who won on the first attempt wins on those after it.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::{Effect, step};

use crate::support::{
    Answer, AppError, Fault, Faulty, PLAIN, run, run_abandon, runtime, runtime_on, store,
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test(start_paused = true)]
async fn a_race_is_won_again_also_where_the_loser_was_recorded_behind_it() {
    let store = store();
    let runtime = runtime_on(&store).await;
    // The first to end is the last to be recorded; it is dropped meanwhile, and its record is written all the same.
    store.fail("record_steps", Fault::Away, 1);
    for attempt in 1..=40 {
        let body = async move {
            let card = step("card").run(async |_| {
                tokio::time::sleep(ms(10)).await;
                Ok::<_, AppError>("card".to_owned())
            });
            let cash = step("cash").run(async |_| {
                tokio::time::sleep(ms(20)).await;
                Ok::<_, AppError>("cash".to_owned())
            });
            let winner = if attempt % 2 == 0 {
                tokio::select! { biased; it = card => it, it = cash => it }
            } else {
                tokio::select! { it = card => it, it = cash => it }
            };
            let winner = winner?;
            step("ship").part(&winner).run(async |_| Ok::<_, AppError>(())).await?;
            if attempt < 40 { Err(AppError::Unlucky) } else { Ok(winner) }
        };
        let answer = run::<String, _, _>(&runtime, &PLAIN, "k", &(), body).await;
        assert_eq!(answer.ok().as_deref(), (attempt == 40).then_some("cash"));
    }
    let steps = runtime.execution("plain", "k").await.unwrap().unwrap().steps;
    let names: Vec<_> = steps.iter().map(|it| (&*it.name.step, &*it.name.part)).collect();
    assert_eq!(names, [("card", ""), ("cash", ""), ("ship", "cash")]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_inside_a_step_is_outside_of_its_effect() {
    let runtime = runtime().await;
    let nested = runtime.clone();
    let body = async move {
        let inner = async |_| {
            let inner = async { Ok(Effect::current().is_some()) };
            let inside = run_abandon::<bool, _>(&nested, "inner", inner).await?;
            Ok::<_, AppError>((Effect::current().is_some(), inside))
        };
        step("outer").run(inner).await
    };
    let found = run::<(bool, bool), _, _>(&runtime, &PLAIN, "outer", &(), body).await.unwrap();
    assert_eq!(found, (true, false));
}

/// Runs a race 40 times, each time but the last with an error behind it. Who won.
async fn winners<F>(store: &Faulty, race: impl Fn(u32) -> F) -> Vec<String>
where
    F: Future<Output = Answer<String>> + Send + 'static,
{
    let (runtime, won) = (runtime_on(store).await, Arc::new(Mutex::new(Vec::new())));
    for attempt in 1..=40 {
        let (race, won) = (race(attempt), Arc::clone(&won));
        let body = async move {
            let winner = race.await?;
            won.lock().unwrap().push(winner);
            if attempt < 40 { Err(AppError::Unlucky) } else { Ok(()) }
        };
        let answer = run::<(), _, _>(&runtime, &PLAIN, "k", &(), body).await;
        assert_eq!(answer.is_ok(), attempt == 40, "{answer:?}");
    }
    let won = won.lock().unwrap().clone();
    assert_eq!(won.len(), 40);
    won
}

/// A step that takes so long and returns its name.
async fn paid(name: &'static str, after: u64) -> Answer<String> {
    let paid = step(name).run(async |_| {
        tokio::time::sleep(ms(after)).await;
        Ok::<_, AppError>(name.to_owned())
    });
    paid.await
}

#[tokio::test(start_paused = true)]
async fn of_two_that_are_recorded_before_the_body_goes_on_the_same_one_wins_every_time() {
    let store = store();
    let won = winners(&store, |attempt| async move {
        let (card, cash) = (paid("card", 10), paid("cash", 10));
        match attempt % 3 {
            // The first time towards the one that replays behind the other.
            1 => tokio::select! { biased; it = cash => it, it = card => it },
            2 => tokio::select! { biased; it = card => it, it = cash => it },
            _ => tokio::select! { it = card => it, it = cash => it },
        }
    });
    let won = won.await;
    assert!(won.iter().all(|it| *it == won[0]), "{won:?}");
}

#[tokio::test(start_paused = true)]
async fn a_race_is_won_by_whom_the_store_recorded_first_though_it_said_so_last() {
    let store = store();
    store.fail("record_steps", Fault::AckLost, 1);
    let won = winners(&store, |attempt| async move {
        let (card, cash) = (paid("card", 10), paid("cash", 20));
        match attempt % 2 {
            1 => tokio::select! { biased; it = cash => it, it = card => it },
            _ => tokio::select! { it = card => it, it = cash => it },
        }
    });
    assert!(won.await.iter().all(|it| it == "card"));
}

#[tokio::test(start_paused = true)]
async fn a_race_of_one_step_with_two_is_won_by_the_same_side_every_time() {
    let store = store();
    let won = winners(&store, |attempt| async move {
        let (a, b, c) = (paid("a", 10), paid("b", 10), paid("c", 10));
        let both = async {
            let both = if attempt % 2 == 0 {
                tokio::try_join!(a, b)
            } else {
                let (b, a) = tokio::try_join!(b, a)?;
                Ok((a, b))
            };
            both.map(|(a, b)| a + &b)
        };
        match attempt % 3 {
            1 => tokio::select! { biased; it = c => it, it = both => it },
            2 => tokio::select! { biased; it = both => it, it = c => it },
            _ => tokio::select! { it = both => it, it = c => it },
        }
    });
    let won = won.await;
    assert!(won.iter().all(|it| *it == won[0]), "{won:?}");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_kept_and_not_polled_holds_nobody_up() {
    let runtime = runtime().await;
    let body = async {
        let mut kept = Box::pin(paid("kept", 10));
        // Its effect is over and its record on the way when the other branch is ready.
        tokio::select! {
            biased;
            it = &mut kept => return it,
            () = tokio::time::sleep(ms(10)) => {}
        }
        let other = paid("other", 10).await?;
        let third = paid("third", 10).await?;
        Ok(kept.await? + &other + &third)
    };
    let call = run::<String, _, _>(&runtime, &PLAIN, "k", &(), body);
    assert_eq!(call.await.unwrap(), "keptotherthird");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_dropped_while_its_record_is_on_the_way_holds_nobody_up() {
    let store = store();
    let runtime = runtime_on(&store).await;
    // Longer than the other one takes.
    store.fail("record_steps", Fault::Away, 20);
    let body = async {
        tokio::select! {
            biased;
            it = paid("dropped", 10) => return it,
            () = tokio::time::sleep(ms(15)) => {}
        }
        paid("other", 10).await
    };
    assert_eq!(run::<String, _, _>(&runtime, &PLAIN, "k", &(), body).await.unwrap(), "other");
    let steps = runtime.execution("plain", "k").await.unwrap().unwrap().steps;
    assert!(steps.iter().all(|it| it.value.is_some()) && steps.len() == 2, "{steps:?}");
}
