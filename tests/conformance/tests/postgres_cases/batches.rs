//! What comes at once shares its commits, and a row that is blocked holds up nobody else.

use std::future::Future;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use idempotent_conformance::Cut;
use idempotent_conformance::postgres::PostgresFactory;
use idempotent_conformance::sql::{Sql, claim, claimed, completion, granted, step_record};
use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, Decision, Granted, Owner, Renewal, Renewed, StepRecord,
    StepRecorded, StoredResult, Written, decide,
};
use idempotent_runtime::store::{Store, StoreError};
use idempotent_runtime::testing::conformance::Factory;
use sqlx::PgConnection;
use tokio::task::JoinSet;

use crate::{behind_a_proxy, migrated, run, session, until_blocked};

/// Callers at once.
pub(crate) const CALLERS: u8 = 64;
/// Whose row is blocked.
pub(crate) const BLOCKED: u8 = 7;
/// Nobody but a blocked one needs a tenth of it, on a busy machine either.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Calls for each of the first executions at once, each in a task of its own.
pub(crate) fn at_once<T, C>(
    store: &Arc<dyn Store>,
    call: impl Fn(Arc<dyn Store>, u8) -> C,
) -> JoinSet<(u8, T)>
where
    T: Send + 'static,
    C: Future<Output = T> + Send + 'static,
{
    let mut calls = JoinSet::new();
    for n in 1..=CALLERS {
        let call = call(Arc::clone(store), n);
        calls.spawn(async move { (n, call.await) });
    }
    calls
}

pub(crate) async fn granted_at_once(store: &Arc<dyn Store>) -> Vec<Granted> {
    let calls = at_once(store, async |store: Arc<dyn Store>, n| granted(&*store, &claim(n)).await);
    let mut granted = calls.join_all().await;
    granted.sort_by_key(|(n, _)| *n);
    granted.into_iter().map(|(_, granted)| granted).collect()
}

/// All calls but that for the blocked row are answered while it is; when it is let go, that one, too.
pub(crate) async fn all_but_the_blocked<T: Send + 'static>(
    mut calls: JoinSet<(u8, T)>,
    mut holder: PgConnection,
    soon: Duration,
    is_done: impl Fn(&T) -> bool,
) {
    let answered = async {
        for _ in 1..CALLERS {
            let (n, answer) = calls.join_next().await.unwrap().unwrap();
            assert!(n != BLOCKED && is_done(&answer), "the call of execution {n}");
        }
    };
    tokio::time::timeout(soon, answered).await.expect("they wait for a row that is none of theirs");
    run(&mut holder, "ROLLBACK").await;
    let (n, answer) = calls.join_next().await.unwrap().unwrap();
    assert!(n == BLOCKED && is_done(&answer));
}

/// Asks until the store is not too busy, as the runtime does.
pub(crate) async fn asked<T, C>(call: impl Fn() -> C) -> T
where
    C: Future<Output = Result<Vec<T>, StoreError>>,
{
    loop {
        match call().await {
            Ok(mut answers) => return answers.remove(0),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

/// A session that keeps the blocked row locked.
pub(crate) async fn holder(place: &PostgresFactory) -> PgConnection {
    let mut holder = session(&place.url()).await;
    run(&mut holder, "BEGIN").await;
    run(&mut holder, "SELECT 1 FROM idempotent_execution WHERE key = 'charge:7' FOR UPDATE").await;
    holder
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_at_once_shares_its_commits() {
    for pooled in [false, true] {
        let place = PostgresFactory::fresh();
        let place = if pooled { place.behind_a_transaction_pooler() } else { place };
        let store = migrated(&place).await;
        let granted = granted_at_once(&store).await;
        let commits = "SELECT count(DISTINCT xmin::text) FROM idempotent_execution";
        let commits =
            async || -> i64 { sqlx::query_scalar(commits).fetch_one(place.pool()).await.unwrap() };
        assert!(commits().await < i64::from(CALLERS) / 2, "{} commits of claims", commits().await);
        let records = at_once(&store, {
            let granted = granted.clone();
            move |store, n| {
                let record = step_record(n, granted[usize::from(n) - 1].token);
                async move { asked(|| store.record_steps(slice::from_ref(&record))).await }
            }
        });
        let records = records.join_all().await;
        assert!(records.iter().all(|(_, it)| matches!(it, StepRecorded::Done { .. })));
        let of_steps = "SELECT count(DISTINCT xmin::text) FROM idempotent_step";
        let of_steps: i64 = sqlx::query_scalar(of_steps).fetch_one(place.pool()).await.unwrap();
        assert!(of_steps < i64::from(CALLERS) / 2, "{of_steps} commits of steps");
        let completions = at_once(&store, move |store, n| {
            let completion = completion(n, granted[usize::from(n) - 1]);
            async move { asked(|| store.complete(slice::from_ref(&completion))).await }
        });
        let completions = completions.join_all().await;
        assert!(completions.iter().all(|(_, written)| *written == Written::Done));
        assert!(commits().await < i64::from(CALLERS) / 2, "{} commits of results", commits().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_of_one_call_share_a_commit() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let renewal = |(n, granted): (u8, Granted)| {
        let Claim { id, owner, .. } = claim(n);
        Renewal { id, owner, token: granted.token }
    };
    let renewals: Vec<_> = (1..).zip(granted).map(renewal).collect();
    assert_eq!(store.renew(&renewals).await.unwrap(), vec![Renewed::Renewed; 64]);
    let commits = "SELECT count(DISTINCT xmin::text) FROM idempotent_execution";
    let commits: i64 = sqlx::query_scalar(commits).fetch_one(place.pool()).await.unwrap();
    assert_eq!(commits, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_being_inserted_holds_up_no_other_claim() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    granted(&*store, &claim(BLOCKED)).await;
    place.execute("CREATE TABLE spare AS SELECT * FROM idempotent_execution").await;
    place.execute("DELETE FROM idempotent_execution").await;
    let mut holder = session(&place.url()).await;
    run(&mut holder, "BEGIN; INSERT INTO idempotent_execution SELECT * FROM spare").await;
    let calls = at_once(&store, async |store: Arc<dyn Store>, n| {
        let claim = claim(n);
        asked(|| store.claim(slice::from_ref(&claim))).await
    });
    all_but_the_blocked(calls, holder, SOON, |claimed| matches!(claimed, Claimed::Granted(_)))
        .await;
}

/// Where the process expects replays and looks first: the key is waited for 100 ms a part, not as long as alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_being_inserted_holds_up_no_replay() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    granted_at_once(&store).await;
    let blocked = format!("WHERE id = '{}'", claim(BLOCKED).id);
    let spare = format!("CREATE TABLE spare AS SELECT * FROM idempotent_execution {blocked}");
    place.execute(&spare).await;
    place.execute(&format!("DELETE FROM idempotent_execution {blocked}")).await;
    let mut holder = session(&place.url()).await;
    run(&mut holder, "BEGIN; INSERT INTO idempotent_execution SELECT * FROM spare").await;
    let replay = |n| Claim { owner: Owner([99; 16]), ..claim(n) };
    for _ in 0..40 {
        assert!(matches!(claimed(&*store, &replay(1)).await, Ok(Claimed::Found(_))));
    }
    let calls = at_once(&store, async |store: Arc<dyn Store>, n| {
        let claim = Claim { owner: Owner([99; 16]), ..claim(n) };
        asked(|| store.claim(slice::from_ref(&claim))).await
    });
    let is_told = |claimed: &Claimed| *claimed != Claimed::TooOld;
    all_but_the_blocked(calls, holder, Duration::from_secs(6), is_told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_holds_up_no_other_completion() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let holder = holder(&place).await;
    let calls = at_once(&store, move |store, n| {
        let completion = completion(n, granted[usize::from(n) - 1]);
        async move { asked(|| store.complete(slice::from_ref(&completion))).await }
    });
    all_but_the_blocked(calls, holder, SOON, |written| *written == Written::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_holds_up_no_other_record() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let holder = holder(&place).await;
    let calls = at_once(&store, move |store, n| {
        let record = step_record(n, granted[usize::from(n) - 1].token);
        async move { asked(|| store.record_steps(slice::from_ref(&record))).await }
    });
    all_but_the_blocked(calls, holder, SOON, |it| matches!(it, StepRecorded::Done { .. })).await;
}

/// In opposite orders, at once, again and again: batches that locked in the order of their arrays would deadlock.
#[tokio::test(flavor = "multi_thread")]
async fn batches_of_two_processes_take_their_keys_in_one_order() {
    let place = PostgresFactory::fresh();
    let stores = [migrated(&place).await, place.open().await];
    for round in 0..20 {
        let mut calls = JoinSet::new();
        for (process, store) in (1..).zip(&stores) {
            let owner = Owner([process; 16]);
            let mut claims: Vec<_> = (0..200).map(|n| Claim { owner, ..claim(n) }).collect();
            if process == 2 {
                claims.reverse();
            }
            let store = Arc::clone(store);
            calls.spawn(async move { store.claim(&claims).await });
        }
        let answers: Vec<_> = calls.join_all().await.into_iter().map(Result::unwrap).collect();
        let granted = answers.iter().flatten().filter(|it| matches!(it, Claimed::Granted(_)));
        assert_eq!(granted.count(), 200, "in round {round}");
        place.execute("DELETE FROM idempotent_execution").await;
    }
}

/// A batch with one that the server refuses: its text holds a NUL, which no key does that comes from a handler.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_the_server_refuses_fails_alone() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let calls = at_once(&store, async |store: Arc<dyn Store>, n| {
        let mut claim = claim(n);
        if n == BLOCKED {
            Arc::make_mut(&mut claim.identity).key = Some("charge:\0".to_owned());
        }
        claimed(&*store, &claim).await
    });
    for (n, answer) in calls.join_all().await {
        assert_eq!(matches!(answer, Ok(Claimed::Granted(_))), n != BLOCKED, "{n}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_one_key_in_one_batch_are_granted_once() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let claims: Vec<_> = (1..=9).map(|n| Claim { owner: Owner([n; 16]), ..claim(1) }).collect();
    let answers = store.claim(&claims).await.unwrap();
    let granted: Vec<_> =
        answers.iter().map(|answer| matches!(answer, Claimed::Granted(_))).collect();
    assert_eq!(granted.iter().filter(|granted| **granted).count(), 1);
    let winner = claims.iter().zip(&granted).find(|(_, granted)| **granted).unwrap().0.owner;
    for answer in answers {
        if let Claimed::Found(seen) = answer {
            assert_eq!(seen.record.owner, winner);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_of_one_attempt_in_one_batch_store_one_result() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted(&*store, &claim(1)).await;
    let results = ["\"a\"", "\"b\"", "\"c\""];
    let completion = |text: &&str| Completion {
        result: StoredResult::Json(text.as_bytes().to_vec()),
        ..completion(1, granted)
    };
    let answers = store.complete(&results.iter().map(completion).collect::<Vec<_>>()).await;
    assert_eq!(answers.unwrap(), [Written::Done; 3], "it is done, as after a lost acknowledgement");
    let record = store.read(&[claim(1).id]).await.unwrap().remove(0).unwrap().record;
    let stored = record.result.unwrap();
    assert!(results.iter().any(|text| stored == StoredResult::Json(text.as_bytes().to_vec())));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_one_step_in_one_batch_store_one_value() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let token = granted(&*store, &claim(1)).await.token;
    let own = step_record(1, token);
    let zombie = StepRecord { owner: Owner([9; 16]), ..own.clone() };
    let answers = store.record_steps(&[own.clone(), zombie, own]).await.unwrap();
    assert!(matches!(answers[0], StepRecorded::Done { .. }));
    assert_eq!(answers, [answers[0], StepRecorded::Fenced, answers[0]]);
}

/// The connection breaks behind the commit; the batch is sent again with the same owners.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_answer_is_lost_recognises_what_it_wrote() {
    let place = PostgresFactory::fresh();
    migrated(&place).await;
    let (proxy, store) = behind_a_proxy(&place).await;
    let claims: Vec<_> = (1..=CALLERS).map(claim).collect();
    proxy.cut("INSERT INTO idempotent_execution", Cut::BeforeTheAnswer);
    let mut completions = Vec::new();
    for (n, answer) in (1..).zip(store.claim(&claims).await.unwrap()) {
        let Claimed::Found(seen) = answer else { panic!("{answer:?}, although it was there") };
        let own = Decision::Own { token: seen.record.token };
        assert_eq!((decide(&seen, claim(n).owner), seen.record.attempts), (own, 1));
        let token = seen.record.token;
        let granted = Granted { token, attempts: 1, crashes: 0, generation: 0 };
        completions.push(completion(n, granted));
    }
    assert_eq!(proxy.cuts(), 1);
    proxy.cut("SET state = l.state", Cut::BeforeTheAnswer);
    assert_eq!(store.complete(&completions).await.unwrap(), vec![Written::Done; completions.len()]);
    assert_eq!(proxy.cuts(), 2);
}

/// Nobody waits while the only lock is that of the row.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_is_alone_waits_for_its_row() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted(&*store, &claim(BLOCKED)).await;
    let mut holder = holder(&place).await;
    let completes = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.complete(&[completion(BLOCKED, granted)]).await }
    });
    until_blocked(&place, 1).await;
    run(&mut holder, "ROLLBACK").await;
    assert_eq!(completes.await.unwrap().unwrap(), [Written::Done]);
}
