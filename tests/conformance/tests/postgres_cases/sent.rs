//! Completions with messages that come at once.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use idempotent_conformance::postgres::PostgresFactory;
use idempotent_conformance::sql::{claim, completion};
use idempotent_conformance::{Cut, PostgresServer};
use idempotent_runtime::protocol::{
    Claimed, Completion, Granted, Message, MessageId, Owner, StoredResult, Token, Written,
};
use idempotent_runtime::store::{Store, StoreError};
use idempotent_runtime::testing::conformance::Factory as _;
use idempotent_runtime::testing::postgres_store;
use sqlx::postgres::PgListener;
use tokio::task::JoinSet;

use super::batches::{
    BLOCKED, CALLERS, SOON, all_but_the_blocked, asked, at_once, granted_at_once, holder,
};
use crate::{behind_a_proxy, migrated, run, session, until_blocked};

fn message(n: u8, part: u8, ordering_key: Option<&str>) -> Message {
    Message {
        id: MessageId([[n; 8], [part; 8]].concat().try_into().unwrap()),
        topic: "receipt".to_owned(),
        ordering_key: ordering_key.map(str::to_owned),
        headers: vec![("n".to_owned(), n.to_string())],
        body: vec![n, part],
        delay_ms: 0,
    }
}

/// A completion with two messages.
fn sends(n: u8, granted: &[Granted]) -> Completion {
    let messages = vec![message(n, 1, None), message(n, 2, None)];
    Completion { messages, ..completion(n, granted[usize::from(n) - 1]) }
}

fn all_send(store: &Arc<dyn Store>, granted: &[Granted]) -> JoinSet<(u8, Written)> {
    let granted = granted.to_vec();
    at_once(store, move |store, n| {
        let completion = sends(n, &granted);
        async move { asked(|| store.complete(slice::from_ref(&completion))).await }
    })
}

/// Completes all of them at once; a completion may change first.
fn try_all(
    store: &Arc<dyn Store>,
    granted: &[Granted],
    change: fn(u8, &mut Completion),
) -> JoinSet<(u8, Result<Vec<Written>, StoreError>)> {
    let granted = granted.to_vec();
    at_once(store, move |store, n| {
        let mut completion = sends(n, &granted);
        change(n, &mut completion);
        async move { store.complete(&[completion]).await }
    })
}

/// Executions that are completed, those that have messages, messages, and commits of messages.
async fn counted(place: &PostgresFactory) -> (i64, i64, i64, i64) {
    let counts = "SELECT (SELECT count(*) FROM idempotent_execution WHERE state = 3),
        count(DISTINCT execution), count(*), count(DISTINCT xmin::text) FROM idempotent_outbox";
    sqlx::query_as(counts).fetch_one(place.pool()).await.unwrap()
}

/// Each completed execution has its two messages from the same commit, and no other has any.
async fn assert_whole(place: &PostgresFactory, completed: u8) {
    let (done, senders, messages, _) = counted(place).await;
    let completed = i64::from(completed);
    assert_eq!((done, senders, messages), (completed, completed, 2 * completed));
    let together = "SELECT count(*) FROM idempotent_execution e JOIN idempotent_outbox m
        ON m.execution = e.id AND m.xmin = e.xmin WHERE e.state = 3";
    let together: i64 = sqlx::query_scalar(together).fetch_one(place.pool()).await.unwrap();
    assert_eq!(together, messages);
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_with_messages_that_come_at_once_share_their_commits() {
    for pooled in [false, true] {
        let place = PostgresFactory::fresh();
        let place = if pooled { place.behind_a_transaction_pooler() } else { place };
        let store = migrated(&place).await;
        let granted = granted_at_once(&store).await;
        let answers = all_send(&store, &granted).join_all().await;
        assert!(answers.iter().all(|(_, answer)| *answer == Written::Done));
        assert_whole(&place, CALLERS).await;
        let (.., commits) = counted(&place).await;
        assert!(commits < i64::from(CALLERS) / 2, "{commits} commits");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_holds_up_no_other_completion_with_messages() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let holder = holder(&place).await;
    let calls = all_send(&store, &granted);
    all_but_the_blocked(calls, holder, SOON, |answer| *answer == Written::Done).await;
    assert_whole(&place, CALLERS).await;
}

/// Another session is about to commit messages of the same ordering key, which one of many has: it goes alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_ordering_key_that_is_held_holds_up_no_other_completion() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let mut holder = session(&place.url()).await;
    run(&mut holder, "BEGIN").await;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(chr(1), 'payments', 'receipt', 'held'), 7))";
    run(&mut holder, lock).await;
    let calls = at_once(&store, move |store, n| {
        let mut completion = sends(n, &granted);
        if n == BLOCKED {
            completion.messages[0].ordering_key = Some("held".to_owned());
        }
        async move { asked(|| store.complete(slice::from_ref(&completion))).await }
    });
    all_but_the_blocked(calls, holder, SOON, |answer| *answer == Written::Done).await;
    assert_whole(&place, CALLERS).await;
}

/// Under two ordering keys in opposite orders, at once, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn completions_of_two_processes_lock_their_ordering_keys_in_one_order() {
    let place = PostgresFactory::fresh();
    let stores = [migrated(&place).await, place.open().await];
    for _ in 0..10 {
        let granted = granted_at_once(&stores[0]).await;
        let mut calls = JoinSet::new();
        for (process, store) in stores.iter().enumerate() {
            let is_mine = |n: &u8| usize::from(*n) % 2 == process;
            let completions = (1..=CALLERS).filter(is_mine).map(|n| {
                let key = format!("key-{}", n / 2 % 16);
                let messages = vec![message(n, 1, Some(&key)), message(n, 2, Some("all"))];
                Completion { messages, ..sends(n, &granted) }
            });
            let mut completions: Vec<_> = completions.collect();
            if process == 1 {
                completions.reverse();
            }
            let store = Arc::clone(store);
            calls.spawn(async move { store.complete(&completions).await });
        }
        for answers in calls.join_all().await {
            assert!(answers.unwrap().iter().all(|answer| *answer == Written::Done));
        }
        assert_whole(&place, CALLERS).await;
        let empty = "DELETE FROM idempotent_execution; DELETE FROM idempotent_outbox";
        run(&mut session(&place.url()).await, empty).await;
    }
}

/// The server refuses a text that holds a NUL, which no topic does that comes from a handler.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_the_server_refuses_fails_its_own_completion_alone() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let calls = try_all(&store, &granted, |n, completion| {
        if n == BLOCKED {
            completion.messages[1].topic = "receipt\0".to_owned();
        }
    });
    for (n, answer) in calls.join_all().await {
        assert_eq!(answer.is_ok_and(|it| it == [Written::Done]), n != BLOCKED, "{n}");
    }
    assert_whole(&place, CALLERS - 1).await;
    // It is not completed, and can be.
    let written = store.complete(&[sends(BLOCKED, &granted)]).await.unwrap();
    assert_eq!(written, [Written::Done]);
    assert_whole(&place, CALLERS).await;
}

/// A message of the same id waits for its delivery, and must not be lost; another one has it twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_id_is_taken_fails_its_own_completion_alone() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let taken = Completion { messages: vec![message(BLOCKED, 2, None)], ..sends(1, &granted) };
    assert_eq!(store.complete(&[taken]).await.unwrap(), [Written::Done]);
    let calls = try_all(&store, &granted, |n, completion| {
        if n == 2 {
            completion.messages[1].id = completion.messages[0].id;
        }
    });
    for (n, answer) in calls.join_all().await {
        let fails = n == BLOCKED || n == 2;
        assert_eq!(answer.is_err(), fails, "{n}: {answer:?}");
    }
    let (done, senders, messages, _) = counted(&place).await;
    let others = i64::from(CALLERS) - 3;
    assert_eq!((done, senders, messages), (others + 1, others + 1, 2 * others + 1));
}

/// Beside some that own their execution, a zombie's and one of an earlier token; and one asks twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_in_a_batch_sends_nothing_and_what_is_sent_twice_is_there_once() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let own = |n: u8| sends(n, &granted);
    let stale = Token(own(3).token.0 - 1);
    let completions = [
        own(1),
        Completion { owner: Owner([99; 16]), ..own(2) },
        Completion { token: stale, ..own(3) },
        own(4),
        own(4),
        // Without messages, and with a terminal error, whose messages are not sent.
        Completion { messages: Vec::new(), ..own(5) },
        Completion { failed: true, ..own(6) },
    ];
    let answers = store.complete(&completions).await.unwrap();
    let (done, fenced) = (Written::Done, Written::Fenced);
    assert_eq!(answers, [done, fenced, fenced, done, done, done, done]);
    let (completed, senders, messages, _) = counted(&place).await;
    assert_eq!((completed, senders, messages), (3, 2, 4));
}

/// The connection breaks behind the commit; the batch is sent again with the same owners.
#[tokio::test(flavor = "multi_thread")]
async fn completions_with_messages_whose_answer_is_lost_are_sent_once() {
    let place = PostgresFactory::fresh();
    let direct = migrated(&place).await;
    let granted = granted_at_once(&direct).await;
    let (proxy, store) = behind_a_proxy(&place).await;
    let completions: Vec<_> = (1..=CALLERS).map(|n| sends(n, &granted)).collect();
    proxy.cut("INSERT INTO idempotent_outbox", Cut::BeforeTheAnswer);
    assert_eq!(store.complete(&completions).await.unwrap(), vec![Written::Done; 64]);
    assert_eq!(proxy.cuts(), 1);
    assert_whole(&place, CALLERS).await;
    assert_eq!(counted(&place).await.3, 1);
}

/// What four mebibytes hold goes in one commit, and what is behind it in another.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_messages_is_bounded_in_bytes() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let large = |n: u8| {
        let body = vec![n; 1 << 20];
        Completion { messages: vec![Message { body, ..message(n, 1, None) }], ..sends(n, &granted) }
    };
    let completions: Vec<_> = (1..=8).map(large).collect();
    assert_eq!(store.complete(&completions).await.unwrap(), [Written::Done; 8]);
    assert_eq!(counted(&place).await.3, 3, "three and three and two");
}

/// It may have to wait for the ordering key, and the others with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_sends_under_an_ordering_key_goes_alone() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let ordered = |n: u8| Completion {
        messages: vec![message(n, 1, Some("one")), message(n, 2, None)],
        ..sends(n, &granted)
    };
    let completions = [sends(1, &granted), sends(2, &granted), ordered(3), ordered(4)];
    assert_eq!(store.complete(&completions).await.unwrap(), [Written::Done; 4]);
    assert_whole(&place, 4).await;
    assert_eq!(counted(&place).await.3, 3, "two together, and each of the others");
}

/// Relays are told of a batch once, and of completions without messages never.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_tells_relays_once_if_it_has_messages() {
    // A database of its own: the channel is that of all its schemas.
    let database = PostgresServer::shared().fresh_database().unwrap();
    let store = postgres_store(database.url(), false).await.unwrap();
    store.migrate().await.unwrap();
    let granted = granted_at_once(&store).await;
    let mut heard = PgListener::connect(database.url()).await.unwrap();
    heard.listen("idempotent_outbox").await.unwrap();
    let mut other = session(database.url()).await;
    let own = |n: u8| sends(n, &granted);
    let silent = (1..=3).map(|n| Completion { messages: Vec::new(), ..own(n) });
    let mixed = [Completion { messages: Vec::new(), ..own(4) }, own(5), own(6)];
    for completions in [silent.collect::<Vec<_>>(), mixed.to_vec()] {
        let answers = store.complete(&completions).await.unwrap();
        assert_eq!(answers, [Written::Done; 3]);
        run(&mut other, "NOTIFY idempotent_outbox, 'next'").await;
    }
    for expected in ["next", "payments", "next"] {
        let note = tokio::time::timeout(SOON, heard.recv()).await.expect("it is told").unwrap();
        assert_eq!(note.payload(), expected);
    }
}

/// Batches go on beside results that cannot be stored as JSON.
#[tokio::test(flavor = "multi_thread")]
async fn results_and_reasons_go_together_with_messages() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted_at_once(&store).await;
    let absent = StoredResult::Absent { reason: "it has no JSON".to_owned() };
    let completions =
        [sends(1, &granted), Completion { result: absent.clone(), ..sends(2, &granted) }];
    assert_eq!(store.complete(&completions).await.unwrap(), [Written::Done; 2]);
    let ids = [claim(1).id, claim(2).id];
    let read = store.read(&ids).await.unwrap();
    let results: Vec<_> =
        read.into_iter().map(|found| found.unwrap().record.result.unwrap()).collect();
    assert_eq!(results, [completions[0].result.clone(), absent]);
}

/// The limit on waiting ends with the batch: on the same connection, one that is alone waits on.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_leaves_no_setting_in_its_session() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    // One caller, one call at a time: the pool has one connection, which all of them use.
    let claims: Vec<_> = (1..=3).map(claim).collect();
    let granted: Vec<_> = store
        .claim(&claims)
        .await
        .unwrap()
        .into_iter()
        .map(|claimed| {
            let Claimed::Granted(granted) = claimed else { panic!("{claimed:?}") };
            granted
        })
        .collect();
    let completions: Vec<_> = (2..=3).map(|n| sends(n, &granted)).collect();
    assert_eq!(store.complete(&completions).await.unwrap(), [Written::Done; 2]);
    let mut holder = session(&place.url()).await;
    run(&mut holder, "BEGIN; SELECT 1 FROM idempotent_execution FOR UPDATE").await;
    let alone = [sends(1, &granted)];
    let call = tokio::spawn(async move { store.complete(&alone).await });
    until_blocked(&place, 1).await;
    // Three times as long as a batch would wait.
    tokio::time::sleep(Duration::from_millis(300)).await;
    run(&mut holder, "ROLLBACK").await;
    assert_eq!(call.await.unwrap().unwrap(), [Written::Done]);
}
