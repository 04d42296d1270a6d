//! Steps: what is recorded is not run again, and what was started is settled by its class.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::__private::Handler;
use idempotent_runtime::protocol::{State, StepClass, StepState};
use idempotent_runtime::store::Store;
use idempotent_runtime::{Backoff, Error, Execution, Found, provider_key, step};
use tokio::sync::Notify;

use crate::support::{
    Answer, AppError, Fault, PLAIN, Runs, id_of, ours, run, run_abandon, runtime, runtime_on, store,
};

/// An attempt of it is over ten seconds and a margin after its claim.
static BRIEF: Handler =
    Handler::new("brief", "engine", "{key}").lease_ms(1_000).max_runtime_ms(10_000);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[tokio::test(start_paused = true)]
async fn a_recorded_step_is_skipped_and_its_value_returned() {
    let (runtime, first, second) = (runtime().await, Runs::default(), Runs::default());
    for attempt in 1..=3 {
        let (first, second) = (first.clone(), second.clone());
        let body = async move {
            let one = step("one").run(async |_| Ok::<_, AppError>(first.note())).await?;
            if attempt == 1 {
                return Err(AppError::Unlucky);
            }
            let two = step("two").run(async |_| Ok::<_, AppError>(second.note())).await?;
            if attempt == 2 {
                return Err(AppError::Unlucky);
            }
            Ok((one, two))
        };
        let answer: Answer<(u32, u32)> = run(&runtime, &PLAIN, "k", &(), body).await;
        assert_eq!(answer.ok(), (attempt == 3).then_some((1, 1)));
    }
    assert_eq!((first.count(), second.count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_step_is_returned_and_never_recorded() {
    let (runtime, runs) = (runtime().await, Runs::default());
    for attempt in 1..=2 {
        let runs = runs.clone();
        let body = async move {
            step("pay")
                .run(async |_| if runs.note() == 1 { Err(AppError::Declined) } else { Ok(7) })
                .await
        };
        let answer: Answer<u32> = run(&runtime, &PLAIN, "k", &(), body).await;
        assert_eq!(answer.ok(), (attempt == 2).then_some(7));
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_same_name_twice_stops_the_handler_and_cannot_be_swallowed() {
    let runtime = runtime().await;
    let body = async {
        let one: u32 = step("a").run(async |_| Ok::<_, AppError>(1)).await.unwrap_or_default();
        let two: u32 = step("a").run(async |_| Ok::<_, AppError>(2)).await.unwrap_or_default();
        Ok(one + two)
    };
    let error = ours(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await);
    assert!(matches!(&error, Error::DuplicateStep { step, .. } if step == "a"), "{error}");
    assert!(error.to_string().contains(".part(&item.id)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn parts_are_steps_of_their_own() {
    let (runtime, runs) = (runtime().await, Runs::default());
    for attempt in 1..=2 {
        let runs = runs.clone();
        let body = async move {
            let mut sum = 0;
            // In another order each time.
            let items = if attempt == 1 { [3_u32, 1, 2] } else { [2, 3, 1] };
            for item in items {
                let runs = runs.clone();
                let shipped = step("ship").part(&item).run(async |_| {
                    runs.note();
                    Ok::<_, AppError>(item * 10)
                });
                assert_eq!(shipped.await?, item * 10);
                sum += item;
                if attempt == 1 && item == 1 {
                    return Err(AppError::Unlucky);
                }
            }
            Ok(sum)
        };
        let answer: Answer<u32> = run(&runtime, &PLAIN, "k", &(), body).await;
        assert_eq!(answer.ok(), (attempt == 2).then_some(6));
    }
    assert_eq!(runs.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn names_that_cannot_be_stored_are_refused() {
    let runtime = runtime().await;
    for (name, part, says) in [
        (String::new(), "p".to_owned(), "the name is empty"),
        ("a\0b".to_owned(), "p".to_owned(), "NUL"),
        ("n".repeat(256), "p".to_owned(), "256 bytes, more than 255"),
        ("n".to_owned(), "p".repeat(256), "the part has 256 bytes"),
        ("n".to_owned(), String::new(), "empty"),
        ("n".to_owned(), "a\0b".to_owned(), "NUL"),
    ] {
        let body = async move { step(name).part(&part).run(async |_| Ok::<_, AppError>(1)).await };
        let error = ours(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await);
        assert!(matches!(error, Error::StepRefused { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error} does not say {says}");
    }
    let body = async { step("n".repeat(255)).run(async |_| Ok::<_, AppError>(1)).await };
    assert_eq!(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_step_more_than_a_thousand_is_refused() {
    let runtime = runtime().await;
    let body = |steps: u32| async move {
        for part in 0..steps {
            step("part").part(&part).run(async |_| Ok::<_, AppError>(())).await?;
        }
        Ok(steps)
    };
    let error = ours(run::<u32, _, _>(&runtime, &PLAIN, "more", &(), body(1_001)).await);
    assert!(error.to_string().contains("one more than 1000"), "{error}");
    assert_eq!(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body(1_000)).await.unwrap(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_value_over_the_limit_needs_review_and_the_effect_is_not_repeated() {
    let (runtime, runs) = (runtime().await, Runs::default());
    let body = |runs: Runs| async move {
        let big = step("big").run(async |_| {
            runs.note();
            Ok::<_, AppError>("x".repeat(2_000_000))
        });
        big.await.map(|text| text.len())
    };
    for _ in 0..2 {
        let answer = run::<usize, _, _>(&runtime, &PLAIN, "k", &(), body(runs.clone())).await;
        let error = ours(answer);
        assert!(matches!(error, Error::NeedsReview { .. }), "{error}");
        assert!(error.to_string().contains("step `big` happened"), "{error}");
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_recorded_value_of_another_type_is_a_journal_mismatch() {
    let runtime = runtime().await;
    let text = async {
        step("a").run(async |_| Ok::<_, AppError>("text".to_owned())).await?;
        Err(AppError::Unlucky)
    };
    assert!(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), text).await.is_err());
    let number = async { step("a").run(async |_| Ok::<_, AppError>(1_u32)).await };
    let error = ours(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), number).await);
    assert!(matches!(error, Error::JournalMismatch { .. }), "{error}");
    // The version that wrote it can go on.
    let text = async { step("a").run(async |_| Ok::<_, AppError>("new".to_owned())).await };
    assert_eq!(run::<String, _, _>(&runtime, &PLAIN, "k", &(), text).await.unwrap(), "text");
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_a_version_that_is_not_accepted_stops_before_the_body() {
    static OLD: Handler = Handler::new("versions", "engine", "{key}").version(1, (1, 1));
    static NEW: Handler = Handler::new("versions", "engine", "{key}").version(3, (3, 3));
    static WIDE: Handler = Handler::new("versions", "engine", "{key}").version(3, (1, 2));
    let runtime = runtime().await;
    let unlucky = async {
        step("a").run(async |_| Ok::<_, AppError>(1_u32)).await?;
        Err(AppError::Unlucky)
    };
    assert!(run::<u32, _, _>(&runtime, &OLD, "k", &(), unlucky).await.is_err());
    for _ in 0..2 {
        let never = async { panic!("the body ran") };
        let error = ours(run::<u32, _, _>(&runtime, &NEW, "k", &(), never).await);
        assert!(matches!(error, Error::JournalMismatch { .. }), "{error}");
        assert!(error.is_retryable());
    }
    let body = async { step("a").run(async |_| Ok::<_, AppError>(2_u32)).await };
    assert_eq!(run::<u32, _, _>(&runtime, &WIDE, "k", &(), body).await.unwrap(), 1);
    // An empty journal is accepted by all.
    let unlucky = async { Err(AppError::Unlucky) };
    assert!(run::<u32, _, _>(&runtime, &OLD, "empty", &(), unlucky).await.is_err());
    let body = async { Ok(5_u32) };
    assert_eq!(run::<u32, _, _>(&runtime, &NEW, "empty", &(), body).await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn steps_side_by_side_replay_whatever_their_order() {
    let (runtime, runs) = (runtime().await, Arc::new(Mutex::new(Vec::new())));
    for attempt in 1..=2_u64 {
        let runs = Arc::clone(&runs);
        let body = async move {
            let part = |name: &'static str, wait: u64| {
                let runs = Arc::clone(&runs);
                step(name).run(async move |_| {
                    tokio::time::sleep(secs(wait)).await;
                    runs.lock().unwrap().push(name);
                    Ok::<_, AppError>(name.to_owned())
                })
            };
            let both = if attempt == 1 {
                tokio::try_join!(part("a", 1), part("b", 2), part("c", 90))
            } else {
                let (c, b, a) = tokio::try_join!(part("c", 1), part("b", 3), part("a", 1))?;
                Ok((a, b, c))
            };
            both.map(|(a, b, c)| a + &b + &c)
        };
        let call = run::<String, _, _>(&runtime, &BRIEF, "k", &(), body);
        match call.await {
            Ok(all) => assert_eq!((attempt, all.as_str()), (2, "abc")),
            // `c` ran past `max_runtime`.
            Err(error) => assert_eq!(attempt, 1, "{error}"),
        }
    }
    assert_eq!(*runs.lock().unwrap(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_race_is_won_again_by_whoever_won_it() {
    let runtime = runtime().await;
    let slow = Runs::default();
    for attempt in 1..=50 {
        let slow = slow.clone();
        let body = async move {
            let first = step("slow").run(async |_| {
                slow.note();
                tokio::time::sleep(secs(5)).await;
                Ok::<_, AppError>("slow".to_owned())
            });
            let second = step("fast").run(async |_| {
                tokio::time::sleep(secs(1)).await;
                Ok::<_, AppError>("fast".to_owned())
            });
            // Biased towards the one that has nothing recorded, and at random.
            let winner = if attempt % 2 == 0 {
                tokio::select! { biased; it = first => it, it = second => it }
            } else {
                tokio::select! { it = first => it, it = second => it }
            };
            if attempt < 50 { Err(AppError::Unlucky) } else { winner }
        };
        let answer = run::<String, _, _>(&runtime, &PLAIN, "k", &(), body).await;
        assert_eq!(answer.ok().as_deref(), (attempt == 50).then_some("fast"));
    }
    assert_eq!(slow.count(), 1, "the loser began again");
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_nested_handler_is_its_own() {
    static INNER: Handler = Handler::new("inner", "engine", "{key}");
    let store = store();
    let runtime = runtime_on(&store).await;
    let nested = runtime.clone();
    let body = async move {
        let outer =
            step("a").run(async |effect| Ok::<_, AppError>(effect.provider_key().to_string()));
        let outer = outer.await?;
        let inner = async {
            step("a").run(async |effect| Ok::<_, AppError>(effect.provider_key().to_string())).await
        };
        let inner = run::<String, _, _>(&nested, &INNER, "k", &(), inner).await?;
        Ok((outer, inner))
    };
    let (outer, inner) =
        run::<(String, String), _, _>(&runtime, &PLAIN, "k", &(), body).await.unwrap();
    assert_ne!(outer, inner);
    let journals = store.journals(&[id_of("plain", "k"), id_of("inner", "k")]).await.unwrap();
    assert_eq!(journals.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_step_is_that_of_its_name_on_every_try_and_attempt() {
    let (runtime, keys) = (runtime().await, Arc::new(Mutex::new(Vec::new())));
    for _ in 0..2 {
        let keys = Arc::clone(&keys);
        let body = async move {
            keys.lock().unwrap().push(provider_key("pay").to_string());
            let backoff = Backoff::exponential(secs(1)..secs(2)).tries(3);
            let paid =
                step("pay").provider_window(secs(3_600)).retry(backoff).run(async |effect| {
                    keys.lock().unwrap().push(effect.provider_key().to_string());
                    Err::<u32, _>(if effect.attempt() == 3 {
                        AppError::Declined
                    } else {
                        AppError::Unlucky
                    })
                });
            paid.await
        };
        let answer = run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await;
        assert!(matches!(answer, Err(AppError::Declined)), "{answer:?}");
    }
    let keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 8);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn errors_that_are_not_to_be_retried_are_returned_at_once() {
    let (runtime, runs) = (runtime().await, Runs::default());
    let seen = runs.clone();
    let body = async move {
        let backoff = Backoff::exponential(secs(1)..secs(2)).tries(9);
        let unlucky = |error: &AppError| matches!(error, AppError::Unlucky);
        step("pay")
            .retry_when(backoff, unlucky)
            .run(async |_| match seen.note() {
                1 | 2 => Err::<u32, _>(AppError::Unlucky),
                _ => Err(AppError::Declined),
            })
            .await
    };
    let answer = run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await;
    assert!(matches!(answer, Err(AppError::Declined)), "{answer:?}");
    assert_eq!(runs.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_try_past_its_timeout_is_cut_off_and_tried_again() {
    let (runtime, runs) = (runtime().await, Runs::default());
    let body = |runs: Runs, tries: u32| async move {
        let backoff = Backoff::exponential(secs(1)..secs(1)).tries(tries);
        step("slow")
            .timeout(secs(2))
            .retry(backoff)
            .run(async |_| {
                if runs.note() < 3 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, AppError>(1)
            })
            .await
    };
    let error =
        ours(run::<u32, _, _>(&runtime, &PLAIN, "few", &(), body(Runs::default(), 2)).await);
    assert!(matches!(error, Error::StepTimeout { .. }), "{error}");
    assert!(error.is_retryable());
    let done = run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body(runs.clone(), 3)).await;
    assert_eq!((done.unwrap(), runs.count()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_started_step_runs_again_inside_the_window_and_is_reviewed_past_it() {
    for (later, runs_at_all) in [(secs(60), 2), (secs(3_601), 1)] {
        let (runtime, runs) = (runtime().await, Runs::default());
        let body = |runs: Runs| async move {
            let paid = step("pay")
                .provider_window(secs(3_600))
                .run(async |_| if runs.note() == 1 { Err(AppError::Unlucky) } else { Ok(7_u32) });
            paid.await
        };
        assert!(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body(runs.clone())).await.is_err());
        tokio::time::sleep(later).await;
        let again = run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body(runs.clone())).await;
        match again {
            Ok(value) => assert_eq!(value, 7),
            error => {
                let error = ours(error);
                assert!(matches!(error, Error::NeedsReview { .. }), "{error}");
                assert!(error.to_string().contains("step `pay`"), "{error}");
            }
        }
        assert_eq!(runs.count(), runs_at_all);
    }
}

/// Leaves the step `once` started in an attempt that is dropped.
async fn drop_inside(runtime: &idempotent_runtime::Runtime, reconciles: bool) {
    let inside = Arc::new(Notify::new());
    let (entered, at_most_once) = (Arc::clone(&inside), step("once").at_most_once());
    let effect = async move |_| {
        entered.notify_one();
        std::future::pending::<Answer<u32>>().await
    };
    let body = async move {
        if reconciles {
            at_most_once.reconcile(async |_| Ok(Found::Unknown)).run(effect).await
        } else {
            at_most_once.run(effect).await
        }
    };
    let call = run_abandon::<u32, _>(runtime, "k", body);
    tokio::select! {
        biased;
        answer = call => panic!("it ended: {answer:?}"),
        () = inside.notified() => {}
    }
}

#[tokio::test(start_paused = true)]
async fn an_at_most_once_step_that_was_started_is_reviewed_and_never_run_again() {
    let store = store();
    let runtime = runtime_on(&store).await;
    drop_inside(&runtime, false).await;
    let never = async { step("once").at_most_once().run(async |_| panic!("it ran again")).await };
    let error = ours(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), never).await);
    assert!(matches!(error, Error::NeedsReview { .. }), "{error}");
    let held = store.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((held.record.state, held.record.blind_steps), (State::Review, 1));
}

#[tokio::test(start_paused = true)]
async fn reconcile_is_asked_once_the_attempt_before_cannot_act_and_decides() {
    let found = [Found::Happened(3_u32), Found::DidNotHappen, Found::Unknown];
    for found in found {
        let store = store();
        let (runtime, runs, asked) = (runtime_on(&store).await, Runs::default(), Runs::default());
        drop_inside(&runtime, true).await;
        let keys = Arc::new(Mutex::new(Vec::new()));
        let body = |runs: Runs, asked: Runs, keys: Arc<Mutex<Vec<String>>>| async move {
            step("once")
                .at_most_once()
                .reconcile(async |key| {
                    asked.note();
                    keys.lock().unwrap().push(key.to_string());
                    Ok(found)
                })
                .run(async |effect| {
                    runs.note();
                    keys.lock().unwrap().push(effect.provider_key().to_string());
                    Ok::<u32, AppError>(4)
                })
                .await
        };
        let call = || {
            run::<u32, _, _>(
                &runtime,
                &PLAIN,
                "k",
                &(),
                body(runs.clone(), asked.clone(), Arc::clone(&keys)),
            )
        };
        let Error::InFlight { retry_after } = ours(call().await) else { panic!("not in flight") };
        assert_eq!(asked.count(), 0, "asked while the attempt before may still act");
        tokio::time::sleep(retry_after).await;
        let answer = call().await;
        assert_eq!(asked.count(), 1);
        match found {
            Found::Happened(_) => assert_eq!((answer.unwrap(), runs.count()), (3, 0)),
            Found::DidNotHappen => {
                assert_eq!((answer.unwrap(), runs.count()), (4, 1));
                let keys = keys.lock().unwrap();
                assert_ne!(keys[0], keys[1], "the provider would answer with what it remembers");
            }
            Found::Unknown => {
                let error = ours(answer);
                assert!(error.to_string().contains("`reconcile` could not tell"), "{error}");
                assert_eq!(runs.count(), 0);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_returns_with_an_at_most_once_step_dropped_needs_review() {
    let runtime = runtime().await;
    let body = async {
        let never = step("once").at_most_once().run(async |_| std::future::pending().await);
        tokio::select! {
            answer = never => answer,
            () = tokio::time::sleep(secs(1)) => Ok(1),
        }
    };
    let error = ours(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await);
    assert!(matches!(error, Error::NeedsReview { .. }), "{error}");
    assert!(error.to_string().contains("`once`"), "{error}");
    let again = run::<u32, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("it ran") }).await;
    assert!(matches!(ours(again), Error::NeedsReview { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_spawned_task_runs_steps_of_the_execution_it_was_given() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let body = async {
        let execution = Execution::current();
        let child = tokio::spawn(
            execution.scope(async { step("child").run(async |_| Ok::<_, AppError>(5_u32)).await }),
        );
        child.await.unwrap()
    };
    assert_eq!(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 5);
    let journal = store.journals(&[id_of("plain", "k")]).await.unwrap().remove(0);
    assert_eq!((journal[0].state, journal[0].class), (StepState::Recorded, StepClass::Plain));
}

#[tokio::test(start_paused = true)]
async fn completion_waits_for_the_steps_of_spawned_tasks() {
    let store = store();
    let (runtime, runs) = (runtime_on(&store).await, Runs::default());
    let seen = runs.clone();
    let body = async move {
        let begun = Arc::new(Notify::new());
        let (execution, told) = (Execution::current(), Arc::clone(&begun));
        tokio::spawn(execution.scope(async move {
            let slow = step("child").run(async |_| {
                told.notify_one();
                tokio::time::sleep(secs(5)).await;
                seen.note();
                Ok::<_, AppError>(5_u32)
            });
            slow.await
        }));
        begun.notified().await;
        Ok(1)
    };
    assert_eq!(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 1);
    assert_eq!(runs.count(), 1, "the handler was completed before its step was recorded");
    let journal = store.journals(&[id_of("plain", "k")]).await.unwrap().remove(0);
    assert_eq!(journal[0].state, StepState::Recorded);
}

#[tokio::test(start_paused = true)]
async fn a_step_in_a_task_that_outlives_its_handler_panics() {
    let runtime = runtime().await;
    let (send, child) = tokio::sync::oneshot::channel();
    let done = Arc::new(Notify::new());
    let ended = Arc::clone(&done);
    let body = async move {
        let late = Execution::current().scope(async move {
            ended.notified().await;
            step("late").run(async |_| Ok::<_, AppError>(1_u32)).await
        });
        assert!(send.send(tokio::spawn(late)).is_ok());
        Ok(1)
    };
    assert_eq!(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 1);
    done.notify_one();
    let panic = child.await.unwrap().await.unwrap_err().into_panic();
    let says = panic.downcast_ref::<String>().unwrap();
    assert!(says.contains("step(\"late\") ran after its handler `plain` had ended"), "{says}");
}

#[tokio::test]
#[should_panic(expected = "step(\"a\") ran outside the body of an #[idempotent] handler")]
async fn a_step_outside_a_handler_panics_and_says_so() {
    let _: Result<u32, AppError> = step("a").run(async |_| Ok(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_of_a_step_is_recognised() {
    for operation in ["start_steps", "record_steps"] {
        let store = store();
        let (runtime, runs) = (runtime_on(&store).await, Runs::default());
        store.fail(operation, Fault::AckLost, 1);
        let seen = runs.clone();
        let body = async move {
            let paid =
                step("pay").provider_window(secs(60)).run(async |_| Ok::<_, AppError>(seen.note()));
            paid.await
        };
        assert_eq!(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 1);
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_stops_the_step_and_the_body() {
    let store = store();
    let (runtime, after) = (runtime_on(&store).await, Runs::default());
    store.fail("record_steps", Fault::Away, 100_000);
    let seen = after.clone();
    let body = async move {
        let paid = step("pay").run(async |_| Ok::<_, AppError>(1_u32)).await;
        seen.note();
        paid
    };
    let error = ours(run::<u32, _, _>(&runtime, &BRIEF, "k", &(), body).await);
    assert!(
        matches!(error, Error::Unrecorded { .. } | Error::LeaseLost | Error::MaxRuntime { .. }),
        "{error}"
    );
    assert_eq!(after.count(), 0, "the body went on without its record");
}
