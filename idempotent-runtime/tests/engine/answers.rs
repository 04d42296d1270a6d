//! What a caller is told.

use idempotent_runtime::__private::{Handler, Operation, call};
use idempotent_runtime::{Answer as How, Disposition, Error, Execution, Runtime, observe};
use tokio::sync::oneshot;

use crate::support::{Answer, AppError, PLAIN, Runs, ours, run, run_terminal, runtime};

#[tokio::test(start_paused = true)]
async fn the_first_call_runs_and_the_next_is_answered() {
    let (runtime, runs) = (runtime().await, Runs::default());
    for _ in 0..3 {
        let noted = runs.clone();
        let answer = run(&runtime, &PLAIN, "k", &1, async move { Ok(noted.note()) }).await;
        assert_eq!(answer.unwrap(), 1);
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn observe_tells_executed_from_replayed() {
    let runtime = runtime().await;
    let first = observe(run(&runtime, &PLAIN, "k", &1, async { Ok(1) })).await;
    let second = observe(run(&runtime, &PLAIN, "k", &1, async { Ok(2) })).await;
    assert_eq!(first.answer, Some(How::Executed));
    assert_eq!(second.answer, Some(How::Replayed));
    assert_eq!(second.output.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn observe_says_nothing_of_an_outcome_that_is_not_stored() {
    let runtime = runtime().await;
    let body = async { Err::<(), _>(AppError::Unlucky) };
    assert_eq!(observe(run(&runtime, &PLAIN, "k", &1, body)).await.answer, None);
}

#[tokio::test(start_paused = true)]
async fn observe_says_nothing_of_handlers_below_a_body() {
    let runtime = runtime().await;
    run(&runtime, &PLAIN, "inner", &1, async { Ok(1) }).await.unwrap();
    let below = runtime.clone();
    let outer = async move {
        run(&below, &PLAIN, "inner", &1, async { Ok(2) }).await?;
        Err::<u8, _>(AppError::Unlucky)
    };
    assert_eq!(observe(Box::pin(run(&runtime, &PLAIN, "outer", &1, outer))).await.answer, None);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_not_terminal_runs_again() {
    let (runtime, runs) = (runtime().await, Runs::default());
    for expected in 1..=3 {
        let noted = runs.clone();
        let body = async move {
            noted.note();
            Err::<(), _>(AppError::Declined)
        };
        let answer = run(&runtime, &PLAIN, "k", &1, body).await;
        assert!(matches!(answer, Err(AppError::Declined)));
        assert_eq!(runs.count(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_stored_and_replayed() {
    let (runtime, runs) = (runtime().await, Runs::default());
    for _ in 0..3 {
        let noted = runs.clone();
        let body = async move {
            noted.note();
            Err::<(), _>(AppError::Declined)
        };
        let answer = run_terminal(&runtime, "k", body).await;
        assert!(matches!(answer, Err(AppError::Declined)));
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn terminal_is_not_asked_when_one_of_our_errors_was_raised_below() {
    let (runtime, runs) = (runtime().await, Runs::default());
    for expected in 1..=2 {
        let (noted, below) = (runs.clone(), runtime.clone());
        let body = async move {
            noted.note();
            // Refused inside, and taken by the body for a reason to decline.
            let refused = run::<u8, _, _>(&below, &PLAIN, "\0", &1, async { Ok(1) }).await;
            match refused {
                Err(AppError::Idempotent(_)) => Err::<(), _>(AppError::Declined),
                other => panic!("not refused: {other:?}"),
            }
        };
        assert!(matches!(run_terminal(&runtime, "k", body).await, Err(AppError::Declined)));
        assert_eq!(runs.count(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_with_another_payload_is_refused() {
    let runtime = runtime().await;
    run(&runtime, &PLAIN, "k", &1, async { Ok(1) }).await.unwrap();
    let error = ours(run(&runtime, &PLAIN, "k", &2, async { Ok(2) }).await);
    assert!(
        matches!(&error, Error::PayloadMismatch { fields } if fields == &["payload"]),
        "{error}"
    );
    assert_eq!(error.disposition(), Disposition::DeadLetter);
    let again = run(&runtime, &PLAIN, "k", &1, async { Ok(3) }).await;
    assert_eq!(again.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retryable_execution_refuses_another_payload_too() {
    let runtime = runtime().await;
    let failed = run(&runtime, &PLAIN, "k", &1, async { Err::<u8, _>(AppError::Unlucky) }).await;
    failed.unwrap_err();
    let error = ours(run(&runtime, &PLAIN, "k", &2, async { Ok(2_u8) }).await);
    assert!(matches!(error, Error::PayloadMismatch { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_same_payload_under_a_fresh_key_runs() {
    let (runtime, runs) = (runtime().await, Runs::default());
    for key in ["a", "b"] {
        let noted = runs.clone();
        run(&runtime, &PLAIN, key, &1, async move { Ok(noted.note()) }).await.unwrap();
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn two_handlers_with_one_key_are_two_executions() {
    static OTHER: Handler = Handler::new("other", "engine", "{key}");
    let (runtime, runs) = (runtime().await, Runs::default());
    for handler in [&PLAIN, &OTHER] {
        let noted = runs.clone();
        run(&runtime, handler, "bananas", &1, async move { Ok(noted.note()) }).await.unwrap();
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_calls_another_with_the_same_key_completes_both() {
    static INNER: Handler = Handler::new("inner", "engine", "{key}");
    let runtime = runtime().await;
    let below = runtime.clone();
    let outer = async move {
        let inner = run(&below, &INNER, "bananas", &1, async { Ok(1) }).await?;
        Ok(inner + 1)
    };
    assert_eq!(run(&runtime, &PLAIN, "bananas", &1, outer).await.unwrap(), 2);
    let (outer, inner) = (
        run(&runtime, &PLAIN, "bananas", &1, async { Ok(0) }).await,
        run(&runtime, &INNER, "bananas", &1, async { Ok(0) }).await,
    );
    assert_eq!((outer.unwrap(), inner.unwrap()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_calls_itself_with_its_own_key_is_told() {
    let runtime = runtime().await;
    let below = runtime.clone();
    let outer = async move { run(&below, &PLAIN, "k", &1, async { Ok(1) }).await };
    assert!(matches!(ours(run(&runtime, &PLAIN, "k", &1, outer).await), Error::Reentrant));
}

/// A body that ends as `outcome` says, and leaves a task behind that then calls the same handler: with a body of its
/// own, which returns 2.
async fn call_left_behind(runtime: &Runtime, outcome: Answer<u8>) -> Answer<u8> {
    let (below, (send, child)) = (runtime.clone(), oneshot::channel());
    let (over, ended) = oneshot::channel::<()>();
    let body = async move {
        let late = Execution::current().scope(async move {
            ended.await.unwrap();
            run(&below, &PLAIN, "k", &1, async { Ok(2) }).await
        });
        assert!(send.send(tokio::spawn(late)).is_ok());
        outcome
    };
    let _ = run(runtime, &PLAIN, "k", &1, body).await;
    over.send(()).unwrap();
    child.await.unwrap().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_task_that_outlives_its_handler_calls_it_as_anybody_does() {
    let completed = call_left_behind(&runtime().await, Ok(1)).await;
    assert_eq!(completed.unwrap(), 1, "what is stored");
    let released = call_left_behind(&runtime().await, Err(AppError::Unlucky)).await;
    assert_eq!(released.unwrap(), 2, "another attempt");
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_handler_that_has_ended_does_not_call_the_one_that_waits_above() {
    static INNER: Handler = Handler::new("inner", "engine", "{key}");
    let runtime = runtime().await;
    let (below, innermost) = (runtime.clone(), runtime.clone());
    let outer = async move {
        let (send, child) = oneshot::channel();
        let (over, ended) = oneshot::channel::<()>();
        let inner = async move {
            let late = Execution::current().scope(async move {
                ended.await.unwrap();
                run::<u8, _, _>(&innermost, &PLAIN, "k", &1, async { panic!("ran") }).await
            });
            assert!(send.send(tokio::spawn(late)).is_ok());
            Ok(1_u8)
        };
        run(&below, &INNER, "k", &1, inner).await?;
        over.send(()).unwrap();
        // It waits for the task, and the task must not wait for it.
        child.await.unwrap().await.unwrap()
    };
    assert!(matches!(ours(run(&runtime, &PLAIN, "k", &1, outer).await), Error::Reentrant));
}

#[tokio::test(start_paused = true)]
async fn tenants_and_namespaces_do_not_share_keys() {
    let store = crate::support::store();
    let runs = Runs::default();
    for namespace in ["a", "b"] {
        let runtime =
            Runtime::builder(namespace).store(store.clone()).reaper(false).connect().await.unwrap();
        for tenant in ["x", "y"] {
            let mut operation = crate::support::operation(&runtime, &PLAIN, "k", &1);
            operation.tenant(tenant);
            let noted = runs.clone();
            let body = async move { Ok(noted.note()) };
            call::<Answer<u32>>(operation, None).finish(body).await.unwrap();
        }
    }
    assert_eq!(runs.count(), 4);
}

#[tokio::test]
async fn without_a_runtime_the_body_does_not_run() {
    let mut operation = Operation::new(&PLAIN);
    operation.key_part("key", "k");
    let body = async { panic!("ran") };
    let error = ours(call::<Answer<u8>>(operation, None).finish(body).await);
    assert!(matches!(error, Error::NoRuntime), "{error}");
    assert!(error.to_string().contains("install"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_part_a_nul_and_a_long_key_are_refused_before_anything_runs() {
    let runtime = runtime().await;
    let refused = async |key: &str| {
        ours(run::<u8, _, _>(&runtime, &PLAIN, key, &1, async { panic!("ran") }).await)
    };
    assert!(
        matches!(refused("").await, Error::EmptyKeyPart { placeholder } if placeholder == "key")
    );
    assert!(
        matches!(refused("a\0b").await, Error::KeyHasNul { placeholder } if placeholder == "key")
    );
    let long = refused(&"x".repeat(513)).await;
    assert!(matches!(long, Error::KeyTooLong { bytes: 513, bytes_max: 512 }), "{long}");
    run(&runtime, &PLAIN, &"x".repeat(512), &1, async { Ok(1_u8) }).await.unwrap();
}
