//! Steps that race: who won on the first attempt wins on those after it.

use std::time::Duration;

use idempotent_runtime::{Effect, step};

use crate::support::{AppError, Fault, PLAIN, run, run_abandon, runtime, runtime_on, store};

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
