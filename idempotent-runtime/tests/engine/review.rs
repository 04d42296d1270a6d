//! What a person can decide.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::__private::Handler;
use idempotent_runtime::protocol::{State, StepState};
use idempotent_runtime::{Error, ExecutionStatus, Runtime, provider_key, step};
use tokio::sync::Notify;

use crate::support::{
    Answer, AppError, Fault, Faulty, PLAIN, ours, run, run_abandon, run_terminal, runtime_on, store,
};

static FRAGILE: Handler = Handler::new("fragile", "engine", "{key}").max_crashes(1);

/// A runtime with one execution in review.
async fn in_review(
    store: &Faulty,
    handler: &'static Handler,
    key: &'static str,
) -> (Runtime, ExecutionStatus) {
    let runtime = runtime_on(store).await;
    for _ in 0..2 {
        let shared = runtime.clone();
        let call = async move {
            run::<u8, _, _>(&shared, handler, key, &(), async { panic!("boom") }).await
        };
        tokio::spawn(call).await.unwrap_err();
    }
    let held = runtime.review().list(None, 10).await.unwrap().pop().unwrap();
    (runtime, held)
}

#[tokio::test(start_paused = true)]
async fn review_lists_what_is_held_and_why() {
    let store = store();
    let (_, held) = in_review(&store, &FRAGILE, "k").await;
    assert_eq!(
        (held.identity.handler.as_str(), held.identity.key.as_deref()),
        ("fragile", Some("k"))
    );
    assert_eq!((held.attempts, held.crashes), (2, 2));
    assert!(held.reason.contains("max_crashes"), "{}", held.reason);
    let stranger = Runtime::builder("stranger").store(store).reaper(false).connect().await.unwrap();
    assert!(stranger.review().list(None, 10).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn listing_goes_on_behind_the_last() {
    let store = store();
    let (runtime, _) = in_review(&store, &FRAGILE, "a").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    in_review(&store, &FRAGILE, "b").await;
    let review = runtime.review();
    let first = review.list(None, 1).await.unwrap().pop().unwrap();
    let second = review.list(Some(&first), 1).await.unwrap().pop().unwrap();
    assert_eq!(
        (first.identity.key.as_deref(), second.identity.key.as_deref()),
        (Some("a"), Some("b"))
    );
    assert!(review.list(Some(&second), 1).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_completed_one_answers_with_what_the_person_said() {
    let (runtime, held) = in_review(&store(), &FRAGILE, "k").await;
    runtime.review().mark_completed(&held, &7_u8, "ada: found at the bank").await.unwrap();
    let answer = run::<u8, _, _>(&runtime, &FRAGILE, "k", &(), async { panic!("ran") }).await;
    assert_eq!(answer.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_failed_one_answers_with_the_terminal_error() {
    static PLAIN_FRAGILE: Handler = Handler::new("plain", "engine", "{key}").max_crashes(1);
    let (runtime, held) = in_review(&store(), &PLAIN_FRAGILE, "k").await;
    runtime.review().mark_failed(&held, &AppError::Declined, "ada: gave up").await.unwrap();
    let answer = run_terminal::<u8, _>(&runtime, "k", async { panic!("ran") }).await;
    assert!(matches!(answer, Err(AppError::Declined)));
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_until_no_attempt_can_be_alive_and_starts_counting_anew() {
    let (runtime, held) = in_review(&store(), &FRAGILE, "k").await;
    let early = runtime.review().retry(&held, "ada: nothing at the bank").await.unwrap_err();
    let Error::NotDue { retry_after } = early else { panic!("{early}") };
    // max_runtime of 15 min and a margin of 3 s.
    assert_eq!(retry_after, Duration::from_secs(15 * 60 + 3));
    tokio::time::sleep(retry_after).await;
    runtime.review().retry(&held, "ada: nothing at the bank").await.unwrap();
    assert_eq!(run(&runtime, &FRAGILE, "k", &(), async { Ok(1_u8) }).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_people_cannot_decide_twice() {
    let (runtime, held) = in_review(&store(), &FRAGILE, "k").await;
    let review = runtime.review();
    review.mark_completed(&held, &1_u8, "ada").await.unwrap();
    let late = review.mark_completed(&held, &2_u8, "bob").await.unwrap_err();
    assert!(matches!(late, Error::Stale), "{late}");
    let answer = run::<u8, _, _>(&runtime, &FRAGILE, "k", &(), async { panic!("ran") }).await;
    assert_eq!(answer.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_decision_says_who_and_why() {
    let (runtime, held) = in_review(&store(), &FRAGILE, "k").await;
    for note in ["", "  ", "a\0b", &"x".repeat(1_025)] {
        let refused = runtime.review().retry(&held, note).await.unwrap_err();
        assert!(matches!(refused, Error::Config { setting: "note", .. }), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_in_review_is_never_run() {
    let (runtime, _) = in_review(&store(), &FRAGILE, "k").await;
    tokio::time::sleep(Duration::from_hours(24 * 60)).await;
    runtime.sweep().await.unwrap();
    let answer = run::<u8, _, _>(&runtime, &FRAGILE, "k", &(), async { panic!("ran") }).await;
    assert!(matches!(ours(answer), Error::NeedsReview { .. }));
}

/// An execution in review since the step `wire` was started and its attempt dropped, beside one that is recorded.
async fn in_review_by_a_step(store: &Faulty) -> (Runtime, ExecutionStatus) {
    let runtime = runtime_on(store).await;
    let inside = Arc::new(Notify::new());
    let entered = Arc::clone(&inside);
    let body = async move {
        step("note").run(async |_| Ok::<_, AppError>(1_u32)).await?;
        let wire = step("wire").at_most_once().run(async |_| {
            entered.notify_one();
            std::future::pending::<Answer<u32>>().await
        });
        wire.await
    };
    tokio::select! {
        biased;
        answer = run_abandon::<u32, _>(&runtime, "k", body) => panic!("it ended: {answer:?}"),
        () = inside.notified() => {}
    }
    let held = loop {
        if let Some(held) = runtime.review().list(None, 10).await.unwrap().pop() {
            break held;
        }
        tokio::task::yield_now().await;
    };
    (runtime, held)
}

fn wired(runtime: &Runtime, keys: Arc<Mutex<Vec<String>>>) -> impl Future<Output = Answer<u32>> {
    let body = async move {
        let note = step("note").run(async |_| -> Answer<u32> { panic!("it is recorded") }).await?;
        let wire = step("wire").at_most_once().run(async |effect| {
            keys.lock().unwrap().push(effect.provider_key().to_string());
            Ok::<_, AppError>(5)
        });
        Ok(note + wire.await?)
    };
    let runtime = runtime.clone();
    async move { run(&runtime, &PLAIN, "k", &(), body).await }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_happened_is_recorded_and_the_handler_goes_on_behind_it() {
    let store = store();
    let (runtime, held) = in_review_by_a_step(&store).await;
    let wire = held.step("wire").unwrap();
    assert_eq!(
        (wire.state, held.step("note").unwrap().state),
        (StepState::Started, StepState::Recorded)
    );
    let review = runtime.review();
    let early = review.mark_step_happened(&held, wire, &40_u32, "ada: at the bank").await;
    let Err(Error::NotDue { retry_after }) = early else { panic!("{early:?}") };
    tokio::time::sleep(retry_after).await;
    review.mark_step_happened(&held, wire, &40_u32, "ada: at the bank").await.unwrap();
    let again = review.mark_step_happened(&held, wire, &41_u32, "bob: too").await;
    assert!(matches!(again, Err(Error::Stale)), "{again:?}");
    let keys = Arc::default();
    assert_eq!(wired(&runtime, Arc::clone(&keys)).await.unwrap(), 41);
    assert!(keys.lock().unwrap().is_empty(), "the step ran");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_did_not_happen_is_tried_anew_under_a_new_key() {
    let store = store();
    let (runtime, held) = in_review_by_a_step(&store).await;
    tokio::time::sleep(Duration::from_mins(16)).await;
    let wire = held.step("wire").unwrap();
    runtime.review().mark_step_did_not_happen(&held, wire, "ada: not at the bank").await.unwrap();
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    assert_eq!(wired(&runtime, Arc::clone(&keys)).await.unwrap(), 6);
    let plain = async { Ok::<_, AppError>(provider_key("wire").to_string()) };
    let first = run::<String, _, _>(&runtime, &PLAIN, "other", &(), plain).await.unwrap();
    let keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 1);
    assert_ne!(keys[0], first);
}

#[tokio::test(start_paused = true)]
async fn a_reopened_execution_runs_again_without_what_is_recorded() {
    let runtime = runtime_on(&store()).await;
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let call = |paid: bool| {
        let keys = Arc::clone(&keys);
        let body = async move {
            step("note")
                .run(async |_| {
                    assert!(paid, "it is recorded");
                    Ok::<_, AppError>(())
                })
                .await?;
            keys.lock().unwrap().push(provider_key("mail").to_string());
            Ok(paid)
        };
        run::<bool, _, _>(&runtime, &PLAIN, "k", &(), body)
    };
    assert!(call(true).await.unwrap());
    let status = runtime.execution("plain", "k").await.unwrap().unwrap();
    assert_eq!((status.state, status.attempts), (State::Completed, 1));
    let review = runtime.review();
    let retry = review.retry(&status, "ada: it is not in review").await;
    assert!(matches!(retry, Err(Error::Stale)), "{retry:?}");
    let early = review.reopen(&status, "ada: the mail was lost").await;
    assert!(matches!(early, Err(Error::NotDue { .. })), "{early:?}");
    tokio::time::sleep(Duration::from_mins(16)).await;
    review.reopen(&status, "ada: the mail was lost").await.unwrap();
    assert!(matches!(review.reopen(&status, "bob").await, Err(Error::Stale)));
    assert!(!call(false).await.unwrap());
    let keys = keys.lock().unwrap();
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_used_has_no_status() {
    let runtime = runtime_on(&store()).await;
    assert_eq!(runtime.execution("plain", "k").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn what_an_older_table_remembered_is_answered_and_not_run() {
    let runtime = runtime_on(&store()).await;
    assert!(runtime.backfill("plain", "k", &7_u8).await.unwrap());
    assert!(!runtime.backfill("plain", "k", &8_u8).await.unwrap(), "a result never changes");
    for payload in ["one", "another"] {
        let answer = run::<u8, _, _>(&runtime, &PLAIN, "k", payload, async { panic!("ran") }).await;
        assert_eq!(answer.unwrap(), 7);
    }
    let unlucky = async { Err(AppError::Unlucky) };
    assert!(run::<u8, _, _>(&runtime, &PLAIN, "failed", &(), unlucky).await.is_err());
    assert!(runtime.backfill("plain", "failed", &9_u8).await.unwrap());
    let answer = run::<u8, _, _>(&runtime, &PLAIN, "failed", &(), async { panic!("ran") }).await;
    assert_eq!(answer.unwrap(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_backfill_that_failed_half_way_is_finished_by_the_next() {
    let store = store();
    let runtime = runtime_on(&store).await;
    for (call, fault) in
        [("claim", Fault::AckLost), ("complete", Fault::Away), ("complete", Fault::AckLost)]
    {
        let key = format!("{call}-{fault:?}");
        store.fail(call, fault, 1);
        let failed = runtime.backfill("plain", &key, &7_u8).await.unwrap_err();
        assert!(matches!(failed, Error::Store { .. }), "{failed}");
        // "Call it again after an error."
        runtime.backfill("plain", &key, &7_u8).await.unwrap();
        tokio::time::sleep(Duration::from_mins(5)).await;
        let ran = async { panic!("an operation that was backfilled ran") };
        assert_eq!(run::<u8, _, _>(&runtime, &PLAIN, &key, &(), ran).await.unwrap(), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_step_that_nobody_came_back_for_is_reviewed_and_not_forgotten() {
    static SHORT: Handler = Handler::new("short", "engine", "{key}").retain_ms(60_000);
    let runtime = runtime_on(&store()).await;
    let body = async {
        let hour = Duration::from_hours(1);
        step("pay").provider_window(hour).run(async |_| Err::<u32, _>(AppError::Unlucky)).await
    };
    assert!(run::<u32, _, _>(&runtime, &SHORT, "k", &(), body).await.is_err());
    tokio::time::sleep(Duration::from_mins(5)).await;
    let swept = runtime.sweep().await.unwrap();
    assert_eq!((swept.purged, swept.review), (0, 1));
    let held = runtime.review().list(None, 10).await.unwrap().pop().unwrap();
    assert!(held.reason.contains("nobody came back"), "{}", held.reason);
}
