//! Bodies in a transaction: what is committed with them, what is not, and when they run again.

use std::future::Future;
use std::time::Duration;

use idempotent_runtime::__private::{Handler, Held, call, terminal};
use idempotent_runtime::protocol::State;
use idempotent_runtime::store::{Memory, Store};
use idempotent_runtime::testing::TokioClock;
use idempotent_runtime::{Answer, Error, Execution, Runtime, observe, step};
use tokio::sync::oneshot;

use crate::books::Book;
use crate::support::{
    AppError, Fault, Faulty, PLAIN, Runs, id_of, operation, ours, run, runtime_on, store,
};

/// A handler whose body is lent a book.
static BOOK: Handler = Handler::new("book", "engine", "{key}").transaction("books");

async fn book<T, F, Fut>(runtime: &Runtime, body: F) -> Result<T, AppError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
    F: Fn(Held<Book>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, AppError>> + Send + 'static,
{
    let declined = terminal(|error: &AppError| matches!(error, AppError::Declined));
    let operation = operation(runtime, &BOOK, "k", &());
    call::<Result<T, AppError>>(operation, Some(declined)).transaction(body, |_| None).await
}

/// A body that writes one line with the number of its run, and returns that number.
fn line(runs: &Runs) -> impl Fn(Held<Book>) -> std::future::Ready<Result<u32, AppError>> + use<> {
    let runs = runs.clone();
    move |mut held| {
        let run = runs.note();
        held.connection().pending.push(format!("line {run}"));
        std::future::ready(Ok(run))
    }
}

async fn state(store: &Faulty) -> (State, Option<String>, u32) {
    let row = store.read(&[id_of("book", "k")]).await.unwrap().remove(0).unwrap();
    (row.record.state, row.record.reason, row.record.crashes)
}

#[tokio::test(start_paused = true)]
async fn what_the_body_wrote_is_committed_with_the_outcome() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    let first = observe(book(&runtime, line(&runs))).await;
    assert_eq!((first.output.unwrap(), first.answer), (1, Some(Answer::Executed)));
    let second = observe(book(&runtime, line(&runs))).await;
    assert_eq!((second.output.unwrap(), second.answer), (1, Some(Answer::Replayed)));
    assert_eq!(store.lines(), ["line 1"]);
    assert_eq!(store.books().lock().unwrap().begun, 1);
}

#[tokio::test(start_paused = true)]
async fn a_returned_error_rolls_back_and_releases() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let failing = |mut held: Held<Book>| {
        held.connection().pending.push("half".to_owned());
        std::future::ready(Err::<u8, _>(AppError::Unlucky))
    };
    let answer = book(&runtime, failing).await;
    assert!(matches!(answer, Err(AppError::Unlucky)), "{answer:?}");
    assert_eq!(store.lines(), [""; 0]);
    assert_eq!(store.books().lock().unwrap().rolled_back, 1);
    let (now, _, crashes) = state(&store).await;
    assert_eq!((now, crashes), (State::Retryable, 0));
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_rolls_back_and_is_stored() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    for _ in 0..2 {
        let runs = runs.clone();
        let declined = move |mut held: Held<Book>| {
            runs.note();
            held.connection().pending.push("half".to_owned());
            std::future::ready(Err::<u8, _>(AppError::Declined))
        };
        let answer = book(&runtime, declined).await;
        assert!(matches!(answer, Err(AppError::Declined)), "{answer:?}");
    }
    assert_eq!((runs.count(), store.lines().len()), (1, 0));
    assert_eq!(state(&store).await.0, State::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_panic_rolls_back_and_is_a_crash() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let panics = |mut held: Held<Book>| async move {
        held.connection().pending.push("half".to_owned());
        panic!("planned");
        #[expect(unreachable_code, reason = "it names the type")]
        Ok::<u8, AppError>(0)
    };
    let runtime = runtime.clone();
    let panicked = tokio::spawn(async move { book(&runtime, panics).await }).await;
    assert!(panicked.unwrap_err().is_panic());
    assert_eq!(store.lines(), [""; 0]);
    assert_eq!(store.books().lock().unwrap().rolled_back, 1);
    assert_eq!((state(&store).await.0, state(&store).await.2), (State::Retryable, 1));
}

#[tokio::test(start_paused = true)]
async fn arguments_whose_clone_panics_roll_back_too() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let panics = |held: Held<Book>| {
        assert!(size_of_val(&held) == 0, "planned");
        std::future::ready(Ok::<u8, AppError>(0))
    };
    let panicked = tokio::spawn(async move { book(&runtime, panics).await }).await;
    assert!(panicked.unwrap_err().is_panic());
    assert_eq!(store.books().lock().unwrap().rolled_back, 1);
    assert_eq!(state(&store).await.2, 1);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_gave_way_runs_again_and_counts_once() {
    for (operation, fault) in [
        ("transaction_complete", Fault::Busy),
        ("transaction_complete", Fault::Away),
        ("commit", Fault::Busy),
    ] {
        let (store, runs) = (store(), Runs::default());
        let runtime = runtime_on(&store).await;
        store.fail(operation, fault, 2);
        assert_eq!(book(&runtime, line(&runs)).await.unwrap(), 3, "{operation} {fault:?}");
        assert_eq!(store.lines(), ["line 3"]);
        let (now, _, crashes) = state(&store).await;
        assert_eq!((now, crashes), (State::Completed, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_hides_a_lost_transaction_runs_again() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    let noted = runs.clone();
    let body = move |mut held: Held<Book>| {
        let run = noted.note();
        held.connection().pending.push(format!("line {run}"));
        held.connection().gave_way = run == 1;
        std::future::ready(if run == 1 { Err(AppError::Unlucky) } else { Ok(run) })
    };
    assert_eq!(book(&runtime, body).await.unwrap(), 2);
    assert_eq!(store.lines(), ["line 2"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_database_gave_up_is_no_terminal_error() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    let noted = runs.clone();
    let body = move |mut held: Held<Book>| {
        let run = noted.note();
        held.connection().pending.push(format!("line {run}"));
        std::future::ready(if run < 3 { Err(AppError::Declined) } else { Ok(run) })
    };
    let declined = terminal(|error: &AppError| matches!(error, AppError::Declined));
    let operation = operation(&runtime, &BOOK, "k", &());
    let lost: fn(&Result<u32, AppError>) -> Option<bool> = |outcome| Some(outcome.is_err());
    let answer = call::<Result<u32, AppError>>(operation, Some(declined)).transaction(body, lost);
    assert_eq!(answer.await.unwrap(), 3);
    assert_eq!(store.lines(), ["line 3"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_database_gave_up_is_no_terminal_error_in_the_last_round_either() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let body = |_: Held<Book>| std::future::ready(Err::<u32, _>(AppError::Declined));
    let declined = terminal(|error: &AppError| matches!(error, AppError::Declined));
    let operation = operation(&runtime, &BOOK, "k", &());
    let answer =
        call::<Result<u32, AppError>>(operation, Some(declined)).transaction(body, |_| Some(true));
    let error = ours(answer.await);
    assert!(matches!(error, Error::RolledBack { .. }), "{error}");
    assert_eq!(state(&store).await.0, State::Retryable);
}

#[tokio::test(start_paused = true)]
async fn a_cause_that_panics_is_a_panic_of_the_body() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let body = |_: Held<Book>| std::future::ready(Err::<u32, _>(AppError::Unlucky));
    let operation = operation(&runtime, &BOOK, "k", &());
    let panics: fn(&Result<u32, AppError>) -> Option<bool> = |_| panic!("planned");
    let answer = call::<Result<u32, AppError>>(operation, None).transaction(body, panics);
    assert!(tokio::spawn(answer).await.unwrap_err().is_panic());
    assert_eq!(store.books().lock().unwrap().rolled_back, 1);
    assert_eq!((state(&store).await.0, state(&store).await.2), (State::Retryable, 1));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_names_another_cause_is_returned_at_once() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    let noted = runs.clone();
    let body = move |mut held: Held<Book>| {
        noted.note();
        held.connection().gave_way = true;
        std::future::ready(Err::<u32, _>(AppError::Unlucky))
    };
    let operation = operation(&runtime, &BOOK, "k", &());
    let answer = call::<Result<u32, AppError>>(operation, None).transaction(body, |_| Some(false));
    assert!(matches!(answer.await, Err(AppError::Unlucky)));
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_gives_way_every_time_is_given_up() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("commit", Fault::Busy, u32::MAX);
    let error = ours(book(&runtime, line(&runs)).await);
    assert!(matches!(error, Error::RolledBack { .. }), "{error}");
    assert!(error.is_retryable());
    assert_eq!((runs.count(), store.lines().len()), (5, 0));
    assert_eq!(state(&store).await.0, State::Retryable);
    store.heal();
    assert_eq!(book(&runtime, line(&runs)).await.unwrap(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_the_database_refuses_is_not_run_again() {
    for operation in ["transaction_complete", "commit"] {
        let (store, runs) = (store(), Runs::default());
        let runtime = runtime_on(&store).await;
        store.fail(operation, Fault::Refused, 1);
        let error = ours(book(&runtime, line(&runs)).await);
        assert!(matches!(error, Error::RolledBack { .. }), "{operation}: {error}");
        assert_eq!((runs.count(), store.lines().len()), (1, 0));
        assert_eq!(state(&store).await.0, State::Retryable);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_is_lost_is_found_out() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("commit", Fault::AckLost, 1);
    let call = observe(book(&runtime, line(&runs))).await;
    assert_eq!((call.output.unwrap(), call.answer), (1, Some(Answer::Executed)));
    assert_eq!((runs.count(), store.lines()), (1, vec!["line 1".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_never_came_through_runs_again() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("commit", Fault::Away, 1);
    assert_eq!(book(&runtime, line(&runs)).await.unwrap(), 2);
    store.land().await; // refused: the second round has completed
    assert_eq!(store.lines(), ["line 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_comes_through_late_is_the_one_that_counts() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("commit", Fault::Away, 1);
    let (noted, landing) = (runs.clone(), store.clone());
    let body = move |mut held: Held<Book>| {
        let (run, landing) = (noted.note(), landing.clone());
        async move {
            held.connection().pending.push(format!("line {run}"));
            if run == 2 {
                landing.land().await;
            }
            Ok::<_, AppError>(run)
        }
    };
    // The outcome of the first round is stored, so the caller gets that and not the second one's.
    assert_eq!(book(&runtime, body).await.unwrap(), 1);
    assert_eq!((runs.count(), store.lines()), (2, vec!["line 1".to_owned()]));
    assert_eq!(state(&store).await.0, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_behind_a_commit_that_came_through_is_not_what_is_stored() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("commit", Fault::Away, 1);
    let (noted, landing) = (runs.clone(), store.clone());
    let body = move |mut held: Held<Book>| {
        let (run, landing) = (noted.note(), landing.clone());
        async move {
            if run == 2 {
                landing.land().await;
                // It sees its own line, and takes it for somebody else's.
                return Err(AppError::Declined);
            }
            held.connection().pending.push(format!("line {run}"));
            Ok::<_, AppError>(run)
        }
    };
    assert_eq!(book(&runtime, body).await.unwrap(), 1);
    assert_eq!((runs.count(), store.lines()), (2, vec!["line 1".to_owned()]));
    assert_eq!(state(&store).await.0, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn what_the_body_did_to_its_transaction_is_for_a_person() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    let noted = runs.clone();
    let body = move |mut held: Held<Book>| {
        held.connection().broken = true;
        std::future::ready(Ok::<_, AppError>(noted.note()))
    };
    let error = ours(book(&runtime, body).await);
    assert!(
        matches!(&error, Error::NeedsReview { reason } if reason.contains("tore out")),
        "{error}"
    );
    assert_eq!((runs.count(), store.lines().len()), (1, 0));
    let (now, reason, _) = state(&store).await;
    assert_eq!((now, reason.as_deref()), (State::Review, Some("the body tore out a page")));
}

#[tokio::test(start_paused = true)]
async fn a_broken_transaction_is_not_run_again_where_the_store_was_away() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    let noted = runs.clone();
    let body = move |mut held: Held<Book>| {
        held.connection().broken = true;
        std::future::ready(Ok::<_, AppError>(noted.note()))
    };
    store.fail("release", Fault::Away, 50);
    let error = ours(book(&runtime, body).await);
    assert!(matches!(error, Error::NeedsReview { .. }), "{error}");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(matches!(ours(book(&runtime, line(&runs)).await), Error::NeedsReview { .. }));
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_zombie_writes_nothing() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    let (noted, thief) = (runs.clone(), store.clone());
    let body = move |mut held: Held<Book>| {
        let (run, thief) = (noted.note(), thief.clone());
        async move {
            held.connection().pending.push(format!("line {run}"));
            thief.steal(id_of("book", "k")).await;
            Ok::<_, AppError>(run)
        }
    };
    let error = ours(book(&runtime, body).await);
    assert!(matches!(error, Error::LeaseLost), "{error}");
    assert_eq!((runs.count(), store.lines().len()), (1, 0));
    assert_eq!(store.books().lock().unwrap().rolled_back, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_body_rolls_back() {
    let store = store();
    let runtime = runtime_on(&store).await;
    let (running, runs) = oneshot::channel();
    let running = std::sync::Mutex::new(Some(running));
    let body = move |mut held: Held<Book>| {
        let running = running.lock().unwrap().take();
        async move {
            held.connection().pending.push("half".to_owned());
            running.unwrap().send(()).unwrap();
            std::future::pending::<Result<u8, AppError>>().await
        }
    };
    let calling = tokio::spawn({
        let runtime = runtime.clone();
        async move { book(&runtime, body).await }
    });
    runs.await.unwrap();
    assert_eq!(runtime.shutdown(Duration::ZERO).await.cancelled, 1);
    assert!(matches!(ours(calling.await.unwrap()), Error::ShuttingDown));
    assert_eq!(store.lines(), [""; 0]);
    assert_eq!(store.books().lock().unwrap().rolled_back, 1);
    assert_eq!(state(&store).await.0, State::Retryable);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_does_not_stop_it() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    let noted = runs.clone();
    let body = move |mut held: Held<Book>| {
        let run = noted.note();
        async move {
            held.connection().pending.push(format!("line {run}"));
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok::<_, AppError>(run)
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(1), book(&runtime, body)).await;
    assert!(left.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(store.lines(), ["line 1"]);
    assert_eq!(book(&runtime, line(&runs)).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stands_in_the_way_is_stopped() {
    let store = store();
    store.books().lock().unwrap().body_max = Some(Duration::from_secs(10));
    let runtime = runtime_on(&store).await;
    let body = |mut held: Held<Book>| async move {
        held.connection().pending.push("half".to_owned());
        tokio::time::sleep(Duration::from_secs(11)).await;
        Ok::<u8, AppError>(1)
    };
    let error = ours(book(&runtime, body).await);
    let Error::RolledBack { source } = &error else { panic!("{error}") };
    assert!(source.to_string().contains("write lock for 10s, a third of the lease"), "{source}");
    assert_eq!(store.lines(), [""; 0]);
    assert_eq!((state(&store).await.0, state(&store).await.2), (State::Retryable, 1));
}

#[tokio::test(start_paused = true)]
async fn what_would_wait_for_the_step_around_it_is_refused_at_once() {
    let store = store();
    store.books().lock().unwrap().body_max = Some(Duration::from_secs(10));
    let runtime = runtime_on(&store).await;
    for nested in [false, true] {
        let outer = runtime.clone();
        let body = async move {
            let inside = async |_: &mut Book| {
                if nested {
                    return run::<u8, _, _>(&outer, &PLAIN, "inner", &(), async { Ok(1) }).await;
                }
                step("inner").run(async |_| Ok::<_, AppError>(1_u8)).await
            };
            step("outer").transaction(inside).await
        };
        let began = tokio::time::Instant::now();
        let error = ours(run::<u8, _, _>(&runtime, &PLAIN, "outer", &(), body).await);
        let Error::Unsupported { reason } = &error else { panic!("{error}") };
        assert!(reason.contains("step `outer` around it"), "{reason}");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn no_transaction_no_run() {
    let (store, runs) = (store(), Runs::default());
    let runtime = runtime_on(&store).await;
    store.fail("begin", Fault::Away, 1);
    let error = ours(book(&runtime, line(&runs)).await);
    assert!(matches!(error, Error::Store { .. }), "{error}");
    assert_eq!(runs.count(), 0);
    assert_eq!(state(&store).await.0, State::Retryable);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_transactions_refuses_at_the_first_use() {
    let clock = TokioClock::new();
    let memory = Memory::new(std::sync::Arc::new(TokioClock::new()));
    let builder = Runtime::builder("engine").store(memory).clock(clock).heartbeat_task();
    let runtime = builder.reaper(false).connect().await.unwrap();
    let runs = Runs::default();
    let error = ours(book(&runtime, line(&runs)).await);
    let Error::Unsupported { reason } = &error else { panic!("{error}") };
    for part in ["`book`", "books", "`memory` has none", "`sqlite:`"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_outlives_a_transaction_waits_for_nothing_of_it() {
    let store = store();
    store.books().lock().unwrap().body_max = Some(Duration::from_secs(10));
    let runtime = runtime_on(&store).await;
    let (over, ended) = tokio::sync::watch::channel(false);
    let (send, mut child) = tokio::sync::mpsc::unbounded_channel();
    let outer = runtime.clone();
    let body = move |_: Held<Book>| {
        let (below, mut ended, send) = (outer.clone(), ended.clone(), send.clone());
        async move {
            let late = Execution::current().scope(async move {
                ended.wait_for(|over| *over).await.unwrap();
                run(&below, &PLAIN, "inner", &(), async { Ok(2_u8) }).await
            });
            send.send(tokio::spawn(late)).unwrap();
            Ok::<u8, AppError>(1)
        }
    };
    assert_eq!(book(&runtime, body).await.unwrap(), 1);
    over.send_replace(true);
    assert_eq!(child.recv().await.unwrap().await.unwrap().unwrap(), 2);
}
