//! Starts and records of started steps that come at once.

use std::slice;
use std::sync::Arc;

use idempotent_conformance::Cut;
use idempotent_conformance::postgres::PostgresFactory;
use idempotent_conformance::sql::{claim, completion, id, step_record};
use idempotent_runtime::protocol::{
    Granted, Owner, StepClass, StepFound, StepName, StepRecord, StepRecorded, StepStart,
    StepStarted, Token, Written,
};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory as _;
use tokio::task::JoinSet;

use super::batches::{
    BLOCKED, CALLERS, SOON, all_but_the_blocked, asked, at_once, granted_at_once, holder,
};
use crate::{behind_a_proxy, migrated};

fn record(n: u8, token: Token) -> StepRecord {
    StepRecord { class: StepClass::AtMostOnce, ..step_record(n, token) }
}

fn start(n: u8, token: Token) -> StepStart {
    let StepRecord { id, owner, name, class, version, generation, .. } = record(n, token);
    StepStart { id, owner, token, name, class, reconciles: false, version, generation, seen: None }
}

fn is_started(answer: &StepStarted) -> bool {
    matches!(answer, StepStarted::Started { .. })
}

fn is_done(answer: &StepRecorded) -> bool {
    matches!(answer, StepRecorded::Done { .. })
}

fn token(granted: &[Granted], n: u8) -> Token {
    granted[usize::from(n) - 1].token
}

/// Starts of all executions at once, each by a caller of its own.
fn starts(store: &Arc<dyn Store>, granted: &[Granted]) -> JoinSet<(u8, StepStarted)> {
    let granted = granted.to_vec();
    at_once(store, move |store, n| {
        let start = start(n, token(&granted, n));
        async move { asked(|| store.start_steps(slice::from_ref(&start))).await }
    })
}

fn records(store: &Arc<dyn Store>, granted: &[Granted]) -> JoinSet<(u8, StepRecorded)> {
    let granted = granted.to_vec();
    at_once(store, move |store, n| {
        let record = record(n, token(&granted, n));
        async move { asked(|| store.record_steps(slice::from_ref(&record))).await }
    })
}

/// The steps that all executions count as open, those of them that are blind, and the commits that wrote entries.
async fn counted(place: &PostgresFactory) -> (i64, i64, i64) {
    let counts = "SELECT sum(open_steps)::bigint, sum(blind_steps)::bigint,
        (SELECT count(DISTINCT xmin::text) FROM idempotent_step) FROM idempotent_execution";
    sqlx::query_as(counts).fetch_one(place.pool()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_and_records_that_come_at_once_share_their_commits() {
    for pooled in [false, true] {
        let place = PostgresFactory::fresh();
        let place = if pooled { place.behind_a_transaction_pooler() } else { place };
        let store = migrated(&place).await;
        let granted = granted_at_once(&store).await;
        let started = starts(&store, &granted).join_all().await;
        assert!(started.iter().all(|(_, answer)| is_started(answer)));
        let (open, blind, commits) = counted(&place).await;
        assert_eq!((open, blind), (i64::from(CALLERS), i64::from(CALLERS)));
        assert!(commits < i64::from(CALLERS) / 2, "{commits} commits of starts");
        let recorded = records(&store, &granted).join_all().await;
        assert!(recorded.iter().all(|(_, answer)| is_done(answer)));
        let (open, blind, commits) = counted(&place).await;
        assert_eq!((open, blind), (0, 0));
        assert!(commits < i64::from(CALLERS) / 2, "{commits} commits of records");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_holds_up_no_other_start_or_record() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let holds = holder(&place).await;
    all_but_the_blocked(starts(&store, &granted), holds, SOON, is_started).await;
    let holds = holder(&place).await;
    all_but_the_blocked(records(&store, &granted), holds, SOON, is_done).await;
    assert_eq!(counted(&place).await.0, 0);
}

/// Many parts of one execution, side by side: they all write its row.
#[tokio::test(flavor = "multi_thread")]
async fn steps_side_by_side_of_one_execution_are_each_counted() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let token = token(&granted, 1);
    let mut calls = JoinSet::new();
    for part in 0..CALLERS {
        let store = Arc::clone(&store);
        calls.spawn(async move {
            let name = StepName { step: "charge".to_owned(), part: part.to_string() };
            let start = StepStart { name: name.clone(), ..start(1, token) };
            let started = asked(|| store.start_steps(slice::from_ref(&start))).await;
            assert!(is_started(&started), "{started:?}");
            // One of two stays open.
            if part % 2 == 0 {
                let record = StepRecord { name, ..record(1, token) };
                let recorded = asked(|| store.record_steps(slice::from_ref(&record))).await;
                assert!(is_done(&recorded), "{recorded:?}");
            }
        });
    }
    calls.join_all().await;
    let half = i64::from(CALLERS) / 2;
    let (open, blind, _) = counted(&place).await;
    assert_eq!((open, blind), (half, half));
}

/// In opposite orders, at once, again and again: whoever locked in the order of its array and waited would deadlock.
#[tokio::test(flavor = "multi_thread")]
async fn starts_and_records_of_two_processes_in_opposite_orders_are_all_answered() {
    let place = PostgresFactory::fresh();
    let stores = [migrated(&place).await, place.open().await];
    let granted = granted_at_once(&stores[0]).await;
    for round in 0..10 {
        let part = |process: usize| format!("{round}.{process}");
        let named = |process| StepName { step: "charge".to_owned(), part: part(process) };
        let mut calls = JoinSet::new();
        for (process, store) in stores.iter().enumerate() {
            let of = |n| (n, token(&granted, n), named(process));
            let mut steps: Vec<_> = (1..=CALLERS).map(of).collect();
            if process == 1 {
                steps.reverse();
            }
            let store = Arc::clone(store);
            calls.spawn(async move {
                let start = |(n, token, name): &(u8, Token, StepName)| StepStart {
                    name: name.clone(),
                    ..start(*n, *token)
                };
                let starts: Vec<_> = steps.iter().map(start).collect();
                assert!(store.start_steps(&starts).await.unwrap().iter().all(is_started));
                let record = |(n, token, name): &(u8, Token, StepName)| StepRecord {
                    name: name.clone(),
                    ..record(*n, *token)
                };
                let records: Vec<_> = steps.iter().map(record).collect();
                assert!(store.record_steps(&records).await.unwrap().iter().all(is_done));
            });
        }
        calls.join_all().await;
        assert_eq!(counted(&place).await.0, 0, "in round {round}");
    }
    let steps = "SELECT count(*) FROM idempotent_step WHERE state = 2";
    let steps: i64 = sqlx::query_scalar(steps).fetch_one(place.pool()).await.unwrap();
    assert_eq!(steps, 2 * 10 * i64::from(CALLERS));
}

/// The server refuses a text that holds a NUL, which no name does that comes from a handler.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_and_a_record_that_the_server_refuses_fail_alone() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let name = |n: u8| {
        let part = if n == BLOCKED { "a\0" } else { "a" };
        StepName { step: "charge".to_owned(), part: part.to_owned() }
    };
    let tokens = granted.clone();
    let starts = at_once(&store, move |store, n| {
        let start = StepStart { name: name(n), ..start(n, token(&tokens, n)) };
        async move { store.start_steps(&[start]).await }
    });
    for (n, answer) in starts.join_all().await {
        let is_started = answer.as_ref().is_ok_and(|answers| is_started(&answers[0]));
        assert_eq!(is_started, n != BLOCKED, "{n}: {answer:?}");
    }
    let records = at_once(&store, move |store, n| {
        let record = StepRecord { name: name(n), ..record(n, token(&granted, n)) };
        async move { store.record_steps(&[record]).await }
    });
    for (n, answer) in records.join_all().await {
        let is_done = answer.as_ref().is_ok_and(|answers| is_done(&answers[0]));
        assert_eq!(is_done, n != BLOCKED, "{n}: {answer:?}");
    }
    let others = i64::from(CALLERS) - 1;
    let recorded = "SELECT count(*) FROM idempotent_step WHERE state = 2";
    let recorded: i64 = sqlx::query_scalar(recorded).fetch_one(place.pool()).await.unwrap();
    assert_eq!((recorded, counted(&place).await.0), (others, 0));
}

/// Of some executions the attempt has been taken over, or is over.
#[tokio::test(flavor = "multi_thread")]
async fn starts_and_records_of_attempts_that_own_nothing_more_are_fenced() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let own = |n: u8| start(n, token(&granted, n));
    let done = store.complete(&[completion(2, granted[1])]).await.unwrap();
    assert_eq!(done, [Written::Done]);
    let starts = [
        own(1),
        own(2),
        StepStart { owner: Owner([99; 16]), ..own(3) },
        StepStart { token: Token(own(4).token.0 - 1), ..own(4) },
        own(5),
    ];
    let answers = store.start_steps(&starts).await.unwrap();
    assert!(is_started(&answers[0]) && is_started(&answers[4]), "{answers:?}");
    assert!(answers[1..4].iter().all(|it| *it == StepStarted::Fenced), "{answers:?}");
    let own = |n: u8| record(n, token(&granted, n));
    let records = [
        own(1),
        StepRecord { owner: Owner([99; 16]), ..own(1) },
        StepRecord { token: Token(own(1).token.0 - 1), ..own(1) },
        own(2),
        own(5),
    ];
    let answers = store.record_steps(&records).await.unwrap();
    assert!(is_done(&answers[0]) && is_done(&answers[4]), "{answers:?}");
    assert!(answers[1..4].iter().all(|it| *it == StepRecorded::Fenced), "{answers:?}");
    let steps = "SELECT count(*) FROM idempotent_step";
    let steps: i64 = sqlx::query_scalar(steps).fetch_one(place.pool()).await.unwrap();
    assert_eq!((steps, counted(&place).await.0), (2, 0));
}

/// A step that an attempt before has started goes on alone, and what did not happen is cleared alone.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_batch_does_not_know_goes_alone_beside_it() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let own = |n: u8| start(n, token(&granted, n));
    let first: Vec<_> = (1..=3).map(own).collect();
    assert!(store.start_steps(&first).await.unwrap().iter().all(is_started));
    // Each owner has started it himself: the second start is his own, and one that has seen another entry is not.
    let seen = StepStart { seen: Some(Owner([1; 16])), ..own(1) };
    let unseen = StepStart { generation: 1, ..own(2) };
    let answers = store.start_steps(&[seen, unseen, own(4), own(5)]).await.unwrap();
    assert!(is_started(&answers[0]) && is_started(&answers[2]) && is_started(&answers[3]));
    assert!(matches!(answers[1], StepStarted::Found(_)), "{answers:?}");
    let own = |n: u8| record(n, token(&granted, n));
    let cleared = StepRecord { found: StepFound::DidNotHappen, ..own(1) };
    let answers = store.record_steps(&[cleared, own(2), own(3), own(4), own(5)]).await.unwrap();
    assert!(answers.iter().all(is_done), "{answers:?}");
    let journal = store.journals(&[id(1), id(2)]).await.unwrap();
    assert_eq!((journal[0][0].generation, journal[0][0].is_open()), (1, false));
    assert!(journal[1][0].is_recorded());
    assert_eq!(counted(&place).await.0, 0);
}

/// The connection breaks behind the commit; the batch is sent again with the same owners.
#[tokio::test(flavor = "multi_thread")]
async fn starts_and_records_whose_answers_are_lost_are_counted_once() {
    let place = PostgresFactory::fresh();
    migrated(&place).await;
    let (proxy, store) = behind_a_proxy(&place).await;
    let claims: Vec<_> = (1..=CALLERS).map(claim).collect();
    store.claim(&claims).await.unwrap();
    let tokens: Vec<(i64,)> = sqlx::query_as("SELECT token FROM idempotent_execution ORDER BY id")
        .fetch_all(place.pool())
        .await
        .unwrap();
    let all = || (1..=CALLERS).zip(&tokens).map(|(n, token)| (n, Token(token.0)));
    proxy.cut("INSERT INTO idempotent_step", Cut::BeforeTheAnswer);
    let starts: Vec<_> = all().map(|(n, token)| start(n, token)).collect();
    assert!(store.start_steps(&starts).await.unwrap().iter().all(is_started));
    let callers = i64::from(CALLERS);
    assert_eq!((proxy.cuts(), counted(&place).await), (1, (callers, callers, 1)));
    proxy.cut("UPDATE idempotent_step", Cut::BeforeTheAnswer);
    let records: Vec<_> = all().map(|(n, token)| record(n, token)).collect();
    assert!(store.record_steps(&records).await.unwrap().iter().all(is_done));
    assert_eq!((proxy.cuts(), counted(&place).await), (2, (0, 0, 1)));
}
