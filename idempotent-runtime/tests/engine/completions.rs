//! Bodies that complete by themselves, in a transaction of another driver: what is stored, and what callers get.

use std::time::Duration;

use idempotent_runtime::__private::{Handler, Held, call};
use idempotent_runtime::protocol::{Release, ReleaseTo, State};
use idempotent_runtime::store::{Memory, Store};
use idempotent_runtime::testing::TokioClock;
use idempotent_runtime::{Answer, Completion, Error, Execution, Runtime, observe, outbox, step};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::books::Book;
use crate::support::{
    AppError, Faulty, PLAIN, Runs, id_of, operation, ours, run, run_abandon, run_terminal,
    runtime_on, store,
};

static BRIEF: Handler = Handler::new("brief", "engine", "{key}").lease_ms(1_000);
static PATIENT: Handler = Handler::new("patient", "engine", "{key}").wait_ms(60_000);
static BOOK: Handler = Handler::new("book", "engine", "{key}").transaction("books");

/// Runs the statements and commits them, as a user's transaction does.
async fn commit(store: &Faulty, completion: &Completion) -> Result<(), Error> {
    for statement in completion.statements() {
        completion.check(store.commit_own(statement).await)?;
    }
    Ok(())
}

/// Completes the execution of this body with `result`.
async fn complete<T>(store: &Faulty, result: &T) -> Result<(), Error>
where
    T: Serialize + DeserializeOwned + 'static,
{
    commit(store, &Execution::current().completion(result)?).await
}

fn messages(store: &Faulty) -> usize {
    store.inner.all_messages().unwrap().len()
}

/// State and crashes of the only execution of `handler`.
async fn state(store: &Faulty, handler: &str) -> (State, u32) {
    let record = store.read(&[id_of(handler, "k")]).await.unwrap().remove(0).unwrap().record;
    (record.state, record.crashes)
}

/// A later call does not run, and is answered with `value`.
async fn replays(runtime: &Runtime, value: u32) {
    let ran = run::<u32, _, _>(runtime, &PLAIN, "k", &(), async { panic!("it ran") });
    let seen = observe(ran).await;
    assert_eq!((seen.output.unwrap(), seen.answer), (value, Some(Answer::Replayed)));
}

#[tokio::test(start_paused = true)]
async fn what_the_body_committed_is_answered_and_sent_once() {
    let store = store();
    let (runtime, own) = (runtime_on(&store).await, store.clone());
    let body = async move {
        outbox::send("out", "a")?;
        complete(&own, &7_u32).await?;
        Ok(7_u32)
    };
    let first = observe(run(&runtime, &PLAIN, "k", &(), body)).await;
    assert_eq!((first.output.unwrap(), first.answer), (7, Some(Answer::Executed)));
    replays(&runtime, 7).await;
    assert_eq!((messages(&store), state(&store, "plain").await), (1, (State::Completed, 0)));
}

#[tokio::test(start_paused = true)]
async fn what_the_body_rolled_back_is_stored_as_any_other_outcome() {
    let store = store();
    let runtime = runtime_on(&store).await;
    for (committed, expected) in [(7_u32, 7), (8, 7)] {
        let key = committed.to_string();
        let body = async move {
            outbox::send("out", "a")?;
            let completion = Execution::current().completion(&committed)?;
            assert_eq!(completion.statements().len(), 1);
            Ok(7_u32)
        };
        assert_eq!(run(&runtime, &PLAIN, &key, &(), body).await.unwrap(), expected);
        let again = run::<u32, _, _>(&runtime, &PLAIN, &key, &(), async { panic!("it ran") });
        assert_eq!(again.await.unwrap(), expected);
    }
    assert_eq!(messages(&store), 2);
}

#[tokio::test(start_paused = true)]
async fn another_value_than_the_committed_one_counts_for_nobody() {
    let store = store();
    let (runtime, own) = (runtime_on(&store).await, store.clone());
    let (tell, told) = oneshot::channel::<()>();
    let body = async move {
        complete(&own, &7_u32).await?;
        told.await.unwrap();
        Ok(8_u32)
    };
    let calling = runtime.clone();
    let leader = tokio::spawn(async move { run(&calling, &PATIENT, "k", &(), body).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let calling = runtime.clone();
    let follower = tokio::spawn(async move {
        run::<u32, _, _>(&calling, &PATIENT, "k", &(), async { panic!("it ran") }).await
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    tell.send(()).unwrap();
    assert_eq!(leader.await.unwrap().unwrap(), 7);
    assert_eq!(follower.await.unwrap().unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_error_behind_the_commit_counts_for_nobody() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let own = store.clone();
    let body = async move {
        complete(&own, &7_u32).await?;
        Err::<u32, _>(AppError::Unlucky)
    };
    assert_eq!(run(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 7);
    replays(&runtime, 7).await;
    let own = store.clone();
    let declined = async move {
        complete(&own, &7_u32).await?;
        Err::<u32, _>(AppError::Declined)
    };
    assert_eq!(run_terminal(&runtime, "terminal", declined).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_error_behind_a_rollback_is_the_callers_and_releases() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let body = async {
        drop(Execution::current().completion(&7_u32)?);
        Err::<u32, _>(AppError::Unlucky)
    };
    let answer = run(&runtime, &PLAIN, "k", &(), body).await;
    assert!(matches!(answer, Err(AppError::Unlucky)), "{answer:?}");
    assert_eq!(state(&store, "plain").await, (State::Retryable, 0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_behind_the_commit_is_the_callers_and_nobody_elses() {
    let store = store();
    let (runtime, own) = (runtime_on(&store).await, store.clone());
    let calling = runtime.clone();
    let panicked = tokio::spawn(async move {
        let body = async move {
            complete(&own, &7_u32).await?;
            panic!("planned")
        };
        run::<u32, _, _>(&calling, &PLAIN, "k", &(), body).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(state(&store, "plain").await, (State::Completed, 0));
    replays(&runtime, 7).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_behind_the_commit_has_completed() {
    let store = store();
    let (runtime, own) = (runtime_on(&store).await, store.clone());
    let body = async move {
        complete(&own, &7_u32).await?;
        std::future::pending::<()>().await;
        Ok(8_u32)
    };
    let call = run_abandon(&runtime, "k", body);
    tokio::time::timeout(Duration::from_secs(1), call).await.unwrap_err();
    replays(&runtime, 7).await;
}

/// The renewals of what is completed are refused, and mean nothing.
#[tokio::test(start_paused = true)]
async fn a_body_may_go_on_behind_the_commit_until_its_lease_is_over() {
    let store = store();
    let runtime = runtime_on(&store).await;
    for (goes_on, reaches_its_end) in [(600, true), (3_600_000, false)] {
        let (own, ended) = (store.clone(), Runs::default());
        let (noted, key) = (ended.clone(), goes_on.to_string());
        let body = async move {
            complete(&own, &7_u32).await?;
            tokio::time::sleep(Duration::from_millis(goes_on)).await;
            noted.note();
            Ok(7_u32)
        };
        assert_eq!(run(&runtime, &BRIEF, &key, &(), body).await.unwrap(), 7);
        assert_eq!(ended.count() == 1, reaches_its_end, "{goes_on} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_behind_the_commit_is_answered_with_what_is_stored() {
    let store = store();
    let (runtime, own) = (runtime_on(&store).await, store.clone());
    let (tell, told) = oneshot::channel();
    let body = async move {
        complete(&own, &7_u32).await?;
        tell.send(()).unwrap();
        std::future::pending::<()>().await;
        Ok(8_u32)
    };
    let calling = runtime.clone();
    let call = tokio::spawn(async move { run(&calling, &PLAIN, "k", &(), body).await });
    told.await.unwrap();
    runtime.shutdown(Duration::ZERO).await;
    assert_eq!(call.await.unwrap().unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_zombie_affects_no_row_and_is_told_to_roll_back() {
    let store = store();
    let runtime = runtime_on(&store).await;
    for returns_ok in [false, true] {
        let (own, key) = (store.clone(), returns_ok.to_string());
        let id = id_of("plain", &key);
        let body = async move {
            let completion = Execution::current().completion(&7_u32)?;
            own.steal(id).await;
            match commit(&own, &completion).await {
                Err(Error::CompletionFenced) if returns_ok => Ok(7_u32),
                Err(error) => Err(error.into()),
                Ok(()) => panic!("it was committed"),
            }
        };
        let error = ours(run(&runtime, &PLAIN, &key, &(), body).await);
        if returns_ok {
            assert!(matches!(error, Error::LeaseLost), "{error}");
        } else {
            assert!(matches!(error, Error::CompletionFenced), "{error}");
            assert!(
                error.is_retryable() && error.to_string().contains("roll the transaction back")
            );
        }
        let second = run(&runtime, &PLAIN, &key, &(), async { Ok(9_u32) }).await;
        assert_eq!(second.unwrap(), 9);
    }
}

/// Our own error was raised, so that it is no outcome.
#[tokio::test(start_paused = true)]
async fn a_fenced_completion_is_no_terminal_error() {
    let store = store();
    let (runtime, own) = (runtime_on(&store).await, store.clone());
    let body = async move {
        let completion = Execution::current().completion(&7_u32)?;
        completion.check(0).unwrap_err();
        drop(own);
        Err::<u32, _>(AppError::Declined)
    };
    let answer = run_terminal(&runtime, "k", body).await;
    assert!(matches!(answer, Err(AppError::Declined)), "{answer:?}");
    assert_eq!(state(&store, "plain").await, (State::Retryable, 0));
}

#[tokio::test(start_paused = true)]
async fn of_two_completions_the_committed_one_counts() {
    let store = store();
    let runtime = runtime_on(&store).await;
    for (commits_first, expected) in [(true, 1), (false, 2)] {
        let own = store.clone();
        let body = async move {
            let execution = Execution::current();
            let (first, second) = (execution.completion(&1_u32)?, execution.completion(&2_u32)?);
            let (committed, late) = if commits_first { (first, second) } else { (second, first) };
            commit(&own, &committed).await?;
            // A second try of a transaction whose commit came through after all.
            let fenced = commit(&own, &late).await.unwrap_err();
            assert!(matches!(fenced, Error::CompletionFenced), "{fenced}");
            Ok(2_u32)
        };
        let key = commits_first.to_string();
        assert_eq!(run(&runtime, &PLAIN, &key, &(), body).await.unwrap(), expected);
        let again = run::<u32, _, _>(&runtime, &PLAIN, &key, &(), async { panic!("it ran") });
        assert_eq!(again.await.unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_stored_completes_without_one() {
    let store = store();
    let (runtime, own) = (runtime_on(&store).await, store.clone());
    let body = async move {
        complete(&own, &f64::INFINITY).await?;
        Ok(f64::INFINITY)
    };
    assert!(run(&runtime, &PLAIN, "k", &(), body).await.unwrap().is_infinite());
    let again = run::<f64, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("it ran") });
    let error = ours(again.await);
    assert!(matches!(error, Error::ResultUnavailable { .. }), "{error}");
}

/// What a body is refused, with the text of the refusal.
async fn refused<F>(runtime: &Runtime, body: F) -> String
where
    F: Future<Output = Result<u32, AppError>> + Send + 'static,
{
    let error = ours(run(runtime, &PLAIN, "k", &(), body).await);
    let Error::CompletionRefused { reason } = error else { panic!("{error}") };
    reason
}

#[tokio::test(start_paused = true)]
async fn it_is_refused_with_a_result_of_another_type() {
    let store = store();
    let body = async {
        drop(Execution::current().completion(&"seven".to_owned())?);
        Ok(7_u32)
    };
    let reason = refused(&runtime_on(&store).await, body).await;
    assert_eq!(reason, "`plain` returns `u32` in `Ok`, not `alloc::string::String`");
}

#[tokio::test(start_paused = true)]
async fn it_is_refused_in_a_step_and_beside_one() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let inside = async {
        step("a").run(async |_| Execution::current().completion(&7_u32).map(drop)).await?;
        Ok(7_u32)
    };
    assert!(refused(&runtime, inside).await.starts_with("a step is being run"));
    let beside = async {
        let (running, asking) = tokio::join!(
            step("b").run(async |_| {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok::<_, Error>(())
            }),
            async { Execution::current().completion(&7_u32).map(drop) }
        );
        running?;
        asking?;
        Ok(7_u32)
    };
    assert!(refused(&runtime, beside).await.starts_with("a step is being run"));
}

#[tokio::test(start_paused = true)]
async fn it_is_refused_behind_a_step_that_nobody_can_repeat() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let body = async {
        let lost = step("call").at_most_once().run(async |_| {
            std::future::pending::<()>().await;
            Ok::<_, Error>(())
        });
        tokio::time::timeout(Duration::from_millis(5), lost).await.unwrap_err();
        drop(Execution::current().completion(&7_u32)?);
        Ok(7_u32)
    };
    assert!(refused(&runtime, body).await.starts_with("step `call` was started and dropped"));
    assert_eq!(state(&store, "plain").await.0, State::Review);
}

#[tokio::test(start_paused = true)]
async fn no_step_and_no_handler_and_no_message_comes_behind_it() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let stepping = async {
        drop(Execution::current().completion(&7_u32)?);
        step("late").run(async |_| Ok::<_, AppError>(())).await?;
        Ok(7_u32)
    };
    assert!(refused(&runtime, stepping).await.starts_with("step `late` comes behind"));
    let inner = runtime.clone();
    let calling = async move {
        drop(Execution::current().completion(&7_u32)?);
        run(&inner, &BRIEF, "inner", &(), async { Ok(7) }).await
    };
    assert!(refused(&runtime, calling).await.starts_with("handler `brief` comes behind"));
    let sending = async {
        drop(Execution::current().completion(&7_u32)?);
        outbox::send("out", "late")?;
        Ok(7_u32)
    };
    let error = ours(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), sending).await);
    let Error::MessageRefused { reason, .. } = &error else { panic!("{error}") };
    assert!(reason.contains("behind the completion"), "{reason}");
    assert_eq!(messages(&store), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_does_not_complete_the_handler_that_called_it() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let inner = runtime.clone();
    let body = async move {
        let outer = Execution::current();
        let nested = async move { Ok(outer.completion(&7_u32).map(|_| 7)?) };
        run(&inner, &BRIEF, "inner", &(), nested).await
    };
    let reason = refused(&runtime, body).await;
    assert!(reason.starts_with("the body of `brief` asks for it, which `plain` calls"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_with_a_transaction_is_completed_by_that() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let body = |_held: Held<Book>| async {
        Ok::<u32, AppError>(Execution::current().completion(&7_u32).map(|_| 7)?)
    };
    let operation = operation(&runtime, &BOOK, "k", &());
    let answer = call::<Result<u32, AppError>>(operation, None).transaction(body, |_| None).await;
    let error = ours(answer);
    let Error::CompletionRefused { reason } = &error else { panic!("{error}") };
    assert!(reason.contains("has a `#[transaction]`"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn it_is_refused_once_the_handler_has_ended() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let (tell, told) = oneshot::channel();
    let body = async move {
        let _ = tell.send(Execution::current());
        Ok(7_u32)
    };
    assert_eq!(run(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 7);
    let error = told.await.unwrap().completion(&8_u32).unwrap_err();
    assert!(error.to_string().ends_with("the handler has ended"), "{error}");
}

/// As the closure of `spawn_blocking` does, which has no execution of its own.
#[tokio::test(start_paused = true)]
async fn a_task_that_the_body_spawned_may_complete() {
    let store = store();
    let (runtime, own) = (runtime_on(&store).await, store.clone());
    let body = async move {
        let execution = Execution::current();
        let spawned =
            tokio::spawn(async move { commit(&own, &execution.completion(&7_u32)?).await });
        spawned.await.unwrap()?;
        Ok(7_u32)
    };
    assert_eq!(run(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_outlived_the_handler_calls_others_as_anybody_does() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let (own, calling) = (store.clone(), runtime.clone());
    let (tell, told) = oneshot::channel::<()>();
    let (hand, handed) = oneshot::channel();
    let body = async move {
        complete(&own, &7_u32).await?;
        let late = async move {
            told.await.unwrap();
            run(&calling, &BRIEF, "late", &(), async { Ok(8_u32) }).await
        };
        let _ = hand.send(tokio::spawn(Execution::current().scope(late)));
        Ok(7_u32)
    };
    assert_eq!(run(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 7);
    tell.send(()).unwrap();
    assert_eq!(handed.await.unwrap().await.unwrap().unwrap(), 8);
}

/// A completion that was asked for and is run once its attempt has been released.
#[tokio::test(start_paused = true)]
async fn what_is_run_behind_the_end_affects_no_row() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let (tell, told) = oneshot::channel();
    let body = async move {
        let _ = tell.send(Execution::current().completion(&7_u32)?);
        Err::<u32, _>(AppError::Unlucky)
    };
    run(&runtime, &PLAIN, "k", &(), body).await.unwrap_err();
    let error = commit(&store, &told.await.unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::CompletionFenced), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_store_without_sql_says_what_to_do_and_the_body_can_go_on() {
    let memory = Memory::new(std::sync::Arc::new(TokioClock::new()));
    let builder = Runtime::builder("engine").store(memory.clone()).clock(TokioClock::new());
    let runtime = builder.heartbeat_task().reaper(false).connect().await.unwrap();
    let body = async {
        let Err(Error::Unsupported { reason }) = Execution::current().completion(&7_u32) else {
            panic!("memory has no SQL")
        };
        assert!(reason.contains("the store `memory` has no SQL"), "{reason}");
        assert!(reason.contains("return the result"), "{reason}");
        step("a").run(async |_| Ok::<_, AppError>(())).await?;
        outbox::send("out", "a")?;
        Ok(7_u32)
    };
    assert_eq!(run(&runtime, &PLAIN, "k", &(), body).await.unwrap(), 7);
    assert_eq!(memory.all_messages().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_execution_in_review_is_completed_by_no_body() {
    let store = store();
    let (runtime, own) = (runtime_on(&store).await, store.clone());
    let body = async move {
        let completion = Execution::current().completion(&7_u32)?;
        let record = own.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap().record;
        let (id, owner, token) = (record.id, record.owner, record.token);
        let release =
            Release { id, owner, token, to: ReleaseTo::Review, reason: "a person".to_owned() };
        own.release(&[release]).await.unwrap();
        commit(&own, &completion).await?;
        Ok(7_u32)
    };
    let error = ours(run::<u32, _, _>(&runtime, &PLAIN, "k", &(), body).await);
    assert!(matches!(error, Error::CompletionFenced), "{error}");
    assert_eq!(state(&store, "plain").await.0, State::Review);
}
