//! Completions on a connection that is not the store's: as far as `complete` reaches, and no further.
//!
//! A store without SQL gives none. [`of`] makes sure of that, and nothing is left to be shown of such a store.

use std::time::Duration;

use tokio::time::timeout;

use super::Elsewhere;
use super::bench::*;
use super::outbox::{self, message_id};
use crate::protocol::{
    Completion, ExecutionId, Message, MessageId, MessageRecord, Micros, ReleaseTo, Renewed, State,
    StoredResult, TakenOver, Token, Written,
};
use crate::store::Statement;

/// Long enough for a call that nobody holds up; a store that passes is not kept waiting for longer.
const AWHILE: Duration = Duration::from_millis(300);
const RACES: u16 = 20;

/// The statements of a completion, and a transaction to run them in.
async fn of(
    bench: &Bench,
    completion: &Completion,
) -> Option<(Vec<Statement>, Box<dyn Elsewhere>)> {
    let statements = bench.store().completion(completion).expect("an open store says");
    match (statements, bench.elsewhere().await) {
        (Some(statements), Some(elsewhere)) => {
            assert!(!statements.is_empty(), "a completion is nothing");
            Some((statements, elsewhere))
        }
        (None, None) => None,
        (Some(_), None) => panic!("it has SQL, and its factory no connection to run it on"),
        (None, Some(_)) => panic!("its factory has a connection, and it no SQL to run on it"),
    }
}

/// Runs the statements up to the first that affects no row, and says whether there was none such.
async fn run(elsewhere: &mut dyn Elsewhere, statements: &[Statement]) -> bool {
    for statement in statements {
        match elsewhere.run(statement).await {
            0 => return false,
            1 => {}
            rows => panic!("{rows} rows of `{}`", statement.sql()),
        }
    }
    true
}

/// Runs a completion and commits it, or rolls it back where it affects no row.
pub(super) async fn complete(bench: &Bench, completion: &Completion) -> Option<bool> {
    let (statements, mut elsewhere) = of(bench, completion).await?;
    let affected = run(&mut *elsewhere, &statements).await;
    if affected {
        elsewhere.commit().await;
    } else {
        elsewhere.rollback().await;
    }
    Some(affected)
}

/// Shows that a completion affects no row and leaves nothing, also if it is committed all the same.
async fn affects_nothing(bench: &Bench, completion: &Completion) {
    let sending = Completion { messages: vec![message(900)], ..completion.clone() };
    for completion in [completion, &sending] {
        let Some((statements, mut elsewhere)) = of(bench, completion).await else { return };
        let attempt = async {
            for statement in &statements {
                assert_eq!(elsewhere.run(statement).await, 0, "`{}`", statement.sql());
            }
            elsewhere.commit().await;
        };
        bench.unchanged(completion.id, attempt).await;
        assert_eq!(stored(bench, 900).await, None);
    }
}

/// A message of which each part is there.
fn message(n: u16) -> Message {
    Message {
        ordering_key: Some("customer: ü".to_owned()),
        headers: vec![("language".to_owned(), "en, 'de' \u{1F4A7}".to_owned())],
        delay_ms: 90_000,
        ..outbox::message(n)
    }
}

/// A message of which only what must be is there.
fn plain(n: u16) -> Message {
    let body = vec![0, 0xFF, b'\''];
    Message { body, ..outbox::message(n) }
}

async fn stored(bench: &Bench, n: u16) -> Option<MessageRecord> {
    only(bench.store().messages().read_messages(&[message_id(n)]).await.expect("read_messages"))
}

/// A message as it is stored, without what tells it from its neighbour.
async fn content(bench: &Bench, n: u16) -> (MessageRecord, u64) {
    let record = stored(bench, n).await.expect("the message is there");
    let delay_ms = record.created_at.ms_until(record.due_at);
    let bare = MessageRecord {
        id: message_id(0),
        execution: ExecutionId([0; 16]),
        seq: 0,
        created_at: Micros(0),
        due_at: Micros(0),
        ..record
    };
    (bare, delay_ms)
}

pub(super) async fn completion_elsewhere_is_seen_once_it_is_committed(bench: &Bench) {
    let running = bench.running(1).await;
    let completion = running.completion("[1, 2]");
    let mut expected = bench.record(id(1)).await;
    let from = bench.now().await;
    let Some((statements, mut elsewhere)) = of(bench, &completion).await else { return };
    let asked = bench.now().await;
    assert!(run(&mut *elsewhere, &statements).await);
    assert_eq!(bench.record(id(1)).await, expected);
    elsewhere.commit().await;
    let record = bench.record(id(1)).await;
    // Dated when it was asked for or when it was run, as the store can.
    let until = bench.now().await.max(asked);
    assert_instant(record.done_at.expect("it is done"), 0, from, until);
    expected.state = State::Completed;
    expected.result = Some(json("[1, 2]"));
    expected.done_at = record.done_at;
    assert_eq!(record, expected);
}

pub(super) async fn completion_elsewhere_that_is_rolled_back_changes_nothing(bench: &Bench) {
    let running = bench.running(1).await;
    let completion = Completion { messages: vec![message(1)], ..running.completion("1") };
    let Some((statements, mut elsewhere)) = of(bench, &completion).await else { return };
    let rolled_back = async {
        assert!(run(&mut *elsewhere, &statements).await);
        elsewhere.rollback().await;
    };
    bench.unchanged(id(1), rolled_back).await;
    assert_eq!(stored(bench, 1).await, None);
    assert_eq!(bench.complete(&completion).await, Written::Done);
    assert!(stored(bench, 1).await.is_some());
}

pub(super) async fn completion_elsewhere_stores_a_terminal_error_and_sends_nothing(bench: &Bench) {
    let running = bench.running(1).await;
    let failure = Completion { messages: vec![message(1)], ..running.failure("{\"code\":51}") };
    let Some(true) = complete(bench, &failure).await else {
        return assert!(bench.elsewhere().await.is_none());
    };
    let record = bench.record(id(1)).await;
    assert_eq!((record.state, record.result), (State::Failed, Some(json("{\"code\":51}"))));
    assert_eq!(stored(bench, 1).await, None);
}

pub(super) async fn completion_elsewhere_without_a_result_keeps_why(bench: &Bench) {
    let running = bench.running(1).await;
    let result = StoredResult::Absent { reason: "2 bytes more than it may: ü '$1' ?1".to_owned() };
    let completion = Completion { result: result.clone(), ..running.completion("") };
    let Some(affected) = complete(bench, &completion).await else { return };
    let record = bench.record(id(1)).await;
    assert_eq!((affected, record.state, record.result), (true, State::Completed, Some(result)));
}

pub(super) async fn completion_elsewhere_stores_bytes_as_they_are(bench: &Bench) {
    let mebibyte = vec![0xE9; 1 << 20];
    for (n, bytes) in (1..).zip([vec![], vec![0, b'\'', 0xFF, b'\\', b'?', b'$'], mebibyte]) {
        let running = bench.running(n).await;
        let result = StoredResult::Json(bytes);
        let completion = Completion { result: result.clone(), ..running.completion("") };
        let Some(affected) = complete(bench, &completion).await else { return };
        assert_eq!((affected, bench.record(id(n)).await.result), (true, Some(result)));
    }
}

pub(super) async fn completion_elsewhere_sends_as_complete_does(bench: &Bench) {
    let (here, there) = (bench.running(1).await, bench.running(2).await);
    let here = Completion { messages: vec![message(1), plain(2)], ..here.completion("1") };
    let there = Completion { messages: vec![message(3), plain(4)], ..there.completion("1") };
    assert_eq!(bench.complete(&here).await, Written::Done);
    let Some(affected) = complete(bench, &there).await else { return };
    assert!(affected);
    for (n, like) in [(3, 1), (4, 2)] {
        assert_eq!(content(bench, n).await, content(bench, like).await);
        let record = stored(bench, n).await.expect("it is there");
        assert_eq!(record.execution, id(2));
    }
    let mut places = Vec::new();
    for n in 1..=4 {
        places.push(stored(bench, n).await.expect("it is there").seq);
    }
    assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
}

pub(super) async fn completion_elsewhere_sends_a_thousand_messages(bench: &Bench) {
    let running = bench.running(1).await;
    let messages: Vec<Message> = (1..=1_000).map(plain).collect();
    let completion = Completion { messages, ..running.completion("1") };
    let Some(affected) = complete(bench, &completion).await else { return };
    assert!(affected);
    let ids: Vec<MessageId> = (1..=1_000).map(message_id).collect();
    let found = bench.store().messages().read_messages(&ids).await.expect("read_messages");
    assert_eq!(found.into_iter().flatten().count(), 1_000);
}

pub(super) async fn completion_behind_one_elsewhere_is_done_and_changes_nothing(bench: &Bench) {
    let running = bench.running(1).await;
    let completion = Completion { messages: vec![message(1)], ..running.completion("1") };
    let Some(affected) = complete(bench, &completion).await else { return };
    assert!(affected);
    let other = Completion { messages: vec![message(1)], ..running.completion("2") };
    for completion in [completion, other] {
        let answer = bench.unchanged(id(1), bench.complete(&completion)).await;
        assert_eq!(answer, Written::Done);
    }
    assert!(stored(bench, 1).await.is_some());
}

/// It would be a second effect, of the writes beside it.
pub(super) async fn completion_elsewhere_of_what_is_completed_affects_nothing(bench: &Bench) {
    let (here, there) = (bench.running(1).await, bench.running(2).await);
    assert_eq!(bench.complete(&here.completion("1")).await, Written::Done);
    affects_nothing(bench, &here.completion("1")).await;
    affects_nothing(bench, &here.completion("2")).await;
    let Some(affected) = complete(bench, &there.completion("1")).await else { return };
    assert!(affected);
    affects_nothing(bench, &there.completion("1")).await;
}

pub(super) async fn completion_elsewhere_with_another_owner_affects_nothing(bench: &Bench) {
    let running = bench.running(1).await;
    affects_nothing(bench, &running.with_owner(owner(2)).completion("1")).await;
}

pub(super) async fn completion_elsewhere_with_another_token_affects_nothing(bench: &Bench) {
    let running = bench.running(1).await;
    for wrong in [running.token.0 - 1, running.token.0 + 1] {
        affects_nothing(bench, &running.with_token(Token(wrong)).completion("1")).await;
    }
}

pub(super) async fn completion_elsewhere_of_what_is_not_running_affects_nothing(bench: &Bench) {
    let nobody = Attempt { id: id(1), owner: owner(1), token: Token(1) };
    affects_nothing(bench, &nobody.completion("1")).await;
    let retryable = bench.retryable(2).await;
    affects_nothing(bench, &retryable.completion("1")).await;
    let in_review = bench.in_review(3).await;
    affects_nothing(bench, &in_review.completion("1")).await;
    let failed = bench.failed(4).await;
    affects_nothing(bench, &failed.completion("1")).await;
}

pub(super) async fn completion_elsewhere_of_a_lapsed_lease_that_nobody_took_is_done(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let Some(affected) = complete(bench, &lapsed.completion("1")).await else { return };
    assert!(affected);
    assert_eq!(bench.record(id(1)).await.state, State::Completed);
}

pub(super) async fn late_completion_elsewhere_affects_nothing(bench: &Bench) {
    let zombie = bench.lapsed(1).await;
    let successor = bench.succeed(&zombie.taken_over_by(2)).await;
    affects_nothing(bench, &zombie.completion("\"late\"")).await;
    assert_eq!(bench.complete(&successor.completion("\"mine\"")).await, Written::Done);
    affects_nothing(bench, &zombie.completion("\"late\"")).await;
}

pub(super) async fn completion_elsewhere_leaves_its_neighbours(bench: &Bench) {
    let (first, second) = (bench.running(1).await, bench.running(2).await);
    let Some(affected) = complete(bench, &first.completion("1")).await else { return };
    assert!(affected);
    assert_eq!(bench.renew(second.renewal()).await, Renewed::Renewed);
    assert_eq!(bench.renew(first.renewal()).await, Renewed::Lost);
}

pub(super) async fn take_over_waits_for_a_completion_elsewhere(bench: &Bench) {
    for (n, commits) in [(1, true), (2, false)] {
        let lapsed = bench.lapsed(n).await;
        let Some((statements, mut elsewhere)) = of(bench, &lapsed.completion("1")).await else {
            return;
        };
        assert!(run(&mut *elsewhere, &statements).await);
        let (other, request) = (bench.clone(), lapsed.taken_over_by(50 + n));
        let mut taking = tokio::spawn(async move { other.take_over(&request).await });
        let early = timeout(AWHILE, &mut taking).await;
        assert!(early.is_err(), "it did not wait: {early:?}");
        if commits {
            elsewhere.commit().await;
        } else {
            elsewhere.rollback().await;
        }
        let answer = taking.await.expect("a call does not panic");
        let is_granted = matches!(answer, TakenOver::Granted { .. });
        assert_eq!(is_granted, !commits, "{answer:?}");
    }
}

pub(super) async fn completion_elsewhere_and_takeover_at_once_have_one_winner(bench: &Bench) {
    for n in 0..RACES {
        let lapsed = bench.lapsed(n).await;
        let (completing, taking) = (bench.clone(), bench.clone());
        let completing =
            tokio::spawn(
                async move { complete(&completing, &lapsed.completion("\"mine\"")).await },
            );
        let request = lapsed.taken_over_by(100 + n);
        let taking = tokio::spawn(async move { taking.take_over(&request).await });
        let completed = completing.await.expect("a call does not panic");
        let taken = taking.await.expect("a call does not panic");
        let Some(completed) = completed else { return };
        let granted = matches!(taken, TakenOver::Granted { .. });
        assert_ne!(completed, granted, "{taken:?}");
        let state = bench.record(id(n)).await.state;
        assert_eq!(state, if completed { State::Completed } else { State::Running });
    }
}

pub(super) async fn completion_elsewhere_and_release_at_once_have_one_winner(bench: &Bench) {
    for n in 0..RACES {
        let running = bench.running(n).await;
        let (completing, releasing) = (bench.clone(), bench.clone());
        let completing =
            tokio::spawn(async move { complete(&completing, &running.completion("1")).await });
        let release = running.release(ReleaseTo::Crash);
        let releasing = tokio::spawn(async move { releasing.release(&release).await });
        let completed = completing.await.expect("a call does not panic");
        let released = releasing.await.expect("a call does not panic");
        let Some(completed) = completed else { return };
        assert_ne!(completed, released == Written::Done);
    }
}
