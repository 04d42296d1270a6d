//! What a person can decide.

use std::time::Duration;

use idempotent_runtime::__private::Handler;
use idempotent_runtime::{Error, ExecutionStatus, Runtime};

use crate::support::{AppError, Faulty, ours, run, run_terminal, runtime_on, store};

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
