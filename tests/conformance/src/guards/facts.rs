//! What no sequence of calls can bring about, and a hand on the tables can: executions of one owner and token, and of
//! one instant.

use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::protocol::{
    Completion, ExecutionId, Granted, Message, MessageId, Owner, Record, Release, ReleaseTo,
    Renewal, Renewed, SettleTo, Settled, Settlement, Step, StepRecord, StepRecorded, StepStart,
    StepStarted, TakeOver, TakenOver, Target, Token, Written,
};
use idempotent_runtime::store::{Cursor, Store};
use idempotent_runtime::testing::conformance::Factory;

use super::{Fact, Guarded, Mutated};
use crate::sql::{Sql, claim, completion, delivered, granted, id, relay, step_record, step_start};

/// The owner and the token of all of them.
const OWNER: Owner = Owner([7; 16]);
const TOKEN: Token = Token(7);
/// Longer than any lease, and any retention, of [`claim`].
const LEASE: Duration = Duration::from_secs(700);
const RETAIN: Duration = Duration::from_secs(70_000);

/// All of them.
pub(crate) fn facts<P: Guarded + Sql>() -> Vec<Fact<P>> {
    vec![
        Fact::new("complete_is_not_taken_for_a_twins", complete),
        Fact::new("complete_with_messages_is_not_taken_for_a_twins", complete_with_messages),
        Fact::new("completion_elsewhere_is_not_taken_for_a_twins", complete_elsewhere),
        Fact::new("release_is_not_taken_for_a_twins", release),
        Fact::new("renew_is_not_taken_for_a_twins", renew),
        Fact::new("take_over_is_not_taken_for_a_twins", take_over),
        Fact::new("settle_is_not_taken_for_a_twins", settle),
        Fact::new("steps_are_not_taken_for_a_twins", steps),
        Fact::new("reap_goes_on_within_an_instant", reap_within_an_instant),
        Fact::new("purge_goes_on_within_an_instant", purge_within_an_instant),
        Fact::new("purge_reviews_within_an_instant", review_within_an_instant),
        Fact::new("list_review_goes_on_within_an_instant", list_within_an_instant),
        Fact::new("completion_elsewhere_sends_over_no_undelivered_message", sends_over_nothing),
        Fact::new("purge_of_messages_deletes_the_oldest_first", oldest_first),
    ]
}

/// A store that has found its tables, as one that starts does.
async fn opened(place: &dyn Factory) -> Arc<dyn Store> {
    let store = place.open().await;
    store.migrate().await.expect("its tables are there");
    store
}

/// Two executions of one owner and token, and none in the place of a third.
struct Twins {
    store: Arc<dyn Store>,
}

impl Twins {
    async fn new<P: Guarded + Sql>(place: &Mutated<P>) -> Self {
        let store = opened(place).await;
        for n in [1, 2] {
            let mut claim = claim(n);
            claim.owner = OWNER;
            granted(&*store, &claim).await;
        }
        let twins = Self { store };
        twins.alike(place).await;
        twins
    }

    /// Gives both the same token again.
    async fn alike<P: Guarded + Sql>(&self, place: &Mutated<P>) {
        let token = TOKEN.0;
        let update = format!("UPDATE idempotent_execution SET token = {token}");
        place.place.execute(&update).await;
    }

    async fn record(&self, n: u8) -> Option<(Record, Vec<Step>)> {
        let found = self.store.read(&[id(n)]).await.expect("read").remove(0)?;
        let steps = self.store.journals(&[id(n)]).await.expect("journals").remove(0);
        Some((found.record, steps))
    }

    /// Runs a call about the first; the second must stay as it is, and the third away.
    async fn apart<T>(&self, call: impl Future<Output = T>) -> T {
        let before = self.record(2).await;
        let answer = call.await;
        assert_eq!(self.record(2).await, before, "the twin is written");
        assert_eq!(self.record(3).await, None);
        answer
    }
}

fn complete_of(n: u8) -> Completion {
    let mut completion = completion(n, granted_once());
    completion.owner = OWNER;
    completion
}

fn granted_once() -> Granted {
    Granted { token: TOKEN, attempts: 1, crashes: 0, generation: 0 }
}

fn release_of(n: u8, to: ReleaseTo) -> Release {
    Release { id: id(n), owner: OWNER, token: TOKEN, to, reason: "it is closed".to_owned() }
}

fn message(n: u8) -> Message {
    Message {
        id: MessageId([n; 16]),
        topic: "receipt".to_owned(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"1".to_vec(),
        delay_ms: 0,
    }
}

async fn complete<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let twins = Twins::new(&place).await;
    let run = async |n| twins.store.complete(&[complete_of(n)]).await.expect("complete");
    assert_eq!(twins.apart(run(1)).await, [Written::Done]);
    assert_eq!(twins.apart(run(3)).await, [Written::Fenced]);
}

async fn complete_with_messages<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let twins = Twins::new(&place).await;
    let run = async |n| {
        let sends = Completion { messages: vec![message(n)], ..complete_of(n) };
        twins.store.complete(&[sends]).await.expect("complete")
    };
    assert_eq!(twins.apart(run(1)).await, [Written::Done]);
    assert_eq!(twins.apart(run(3)).await, [Written::Fenced]);
    let sent = [MessageId([1; 16]), MessageId([3; 16])];
    let sent = twins.store.messages().read_messages(&sent).await.expect("read_messages");
    assert_eq!(sent[0].as_ref().expect("it is sent").execution, id(1));
    assert_eq!(sent[1], None);
}

async fn complete_elsewhere<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let twins = Twins::new(&place).await;
    for (n, messages) in [(3, vec![message(3)]), (3, Vec::new()), (1, vec![message(1)])] {
        let completion = Completion { messages, ..complete_of(n) };
        let is_done = twins.apart(elsewhere(&*place, &*twins.store, &completion)).await;
        assert_eq!(is_done, n == 1, "{completion:?}");
    }
    let sent = [MessageId([3; 16])];
    let sent = twins.store.messages().read_messages(&sent).await.expect("read_messages");
    assert_eq!(sent, [None]);
}

/// Completes on a connection that is not the store's, and says whether there was something to complete.
async fn elsewhere(place: &dyn Factory, store: &dyn Store, completion: &Completion) -> bool {
    let statements = store.completion(completion).expect("it is open").expect("it has SQL");
    let mut own = place.elsewhere().await.expect("it has a connection");
    for statement in &statements {
        if own.run(statement).await != 1 {
            own.rollback().await;
            return false;
        }
    }
    own.commit().await;
    true
}

async fn release<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    for to in [ReleaseTo::Retry { delay_ms: 0 }, ReleaseTo::Crash, ReleaseTo::Review] {
        place.place.empty().await;
        let twins = Twins::new(&place).await;
        let run = async |n| twins.store.release(&[release_of(n, to)]).await.expect("release");
        assert_eq!(twins.apart(run(1)).await, [Written::Done]);
        assert_eq!(twins.apart(run(3)).await, [Written::Fenced]);
    }
}

async fn renew<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let twins = Twins::new(&place).await;
    let renewal = |n| Renewal { id: id(n), owner: OWNER, token: TOKEN };
    let both = [renewal(1), renewal(3)];
    let answers = twins.apart(twins.store.renew(&both)).await.expect("renew");
    assert_eq!(answers, [Renewed::Renewed, Renewed::Lost]);
}

async fn take_over<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let of = |n, owner: u8, target| TakeOver {
        id: id(n),
        seen: TOKEN,
        owner: Owner([owner; 16]),
        version: 1,
        limits: claim(1).limits,
        target,
    };
    for target in [Target::Run, Target::Review] {
        place.place.empty().await;
        let twins = Twins::new(&place).await;
        // Its owner runs another one.
        let own = [of(3, 7, target)];
        let own = twins.apart(twins.store.take_over(&own)).await.expect("take_over");
        assert_eq!(own, [TakenOver::Outrun]);
        place.age(LEASE).await;
        let absent = [of(3, 9, target)];
        let absent = twins.apart(twins.store.take_over(&absent)).await.expect("take_over");
        assert_eq!(absent, [TakenOver::Outrun]);
        let first = [of(1, 9, target)];
        let first = twins.apart(twins.store.take_over(&first)).await.expect("take_over");
        assert_ne!(first, [TakenOver::Outrun]);
    }
    // What somebody left.
    place.place.empty().await;
    let twins = Twins::new(&place).await;
    let retry = ReleaseTo::Retry { delay_ms: 0 };
    let left = [release_of(1, retry), release_of(2, retry)];
    assert_eq!(twins.store.release(&left).await.expect("release"), [Written::Done; 2]);
    let first = [of(1, 9, Target::Run)];
    let first = twins.apart(twins.store.take_over(&first)).await.expect("take_over");
    assert!(matches!(first[..], [TakenOver::Granted { .. }]), "{first:?}");
}

async fn settle<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let of = |n, to: &SettleTo| Settlement {
        id: id(n),
        seen: TOKEN,
        to: to.clone(),
        note: "asked the bank".to_owned(),
    };
    for (to, finished) in [
        (SettleTo::Retry, false),
        (SettleTo::Completed(b"1".to_vec()), false),
        (SettleTo::Reopen, true),
    ] {
        place.place.empty().await;
        let twins = Twins::new(&place).await;
        if finished {
            let both = [complete_of(1), complete_of(2)];
            assert_eq!(twins.store.complete(&both).await.expect("complete"), [Written::Done; 2]);
        } else {
            let both = [1, 2].map(|n| release_of(n, ReleaseTo::Review));
            assert_eq!(twins.store.release(&both).await.expect("release"), [Written::Done; 2]);
        }
        let run = async |n| twins.store.settle(&[of(n, &to)]).await.expect("settle");
        assert_eq!(twins.apart(run(3)).await, [Settled::Outrun]);
        place.age(RETAIN / 10).await;
        assert_eq!(twins.apart(run(3)).await, [Settled::Outrun]);
        assert_eq!(twins.apart(run(1)).await, [Settled::Done]);
    }
}

fn start_of(n: u8) -> StepStart {
    StepStart { owner: OWNER, ..step_start(n, TOKEN) }
}

async fn steps<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let twins = Twins::new(&place).await;
    let record_of = |n| StepRecord { owner: OWNER, ..step_record(n, TOKEN) };
    let record = async |n| twins.store.record_steps(&[record_of(n)]).await.expect("record_steps");
    let start = async |n| twins.store.start_steps(&[start_of(n)]).await.expect("start_steps");
    assert_eq!(twins.apart(record(3)).await, [StepRecorded::Fenced]);
    assert_eq!(twins.apart(start(3)).await, [StepStarted::Fenced]);
    let started = twins.apart(start(1)).await;
    assert!(matches!(started[..], [StepStarted::Started { .. }]), "{started:?}");
    let recorded = twins.apart(record(1)).await;
    assert!(matches!(recorded[..], [StepRecorded::Done { .. }]), "{recorded:?}");
    let recorded = record(2).await;
    assert!(matches!(recorded[..], [StepRecorded::Done { .. }]), "{recorded:?}");
    // One that is left to be taken for it.
    let done = twins.store.complete(&[complete_of(2)]).await.expect("complete");
    assert_eq!(done, [Written::Done]);
    assert_eq!(record(3).await, [StepRecorded::Fenced]);
}

/// Five executions that were claimed at one instant.
async fn five<P: Guarded + Sql>(place: &Mutated<P>, to: Option<ReleaseTo>) -> Arc<dyn Store> {
    let store = opened(place).await;
    for n in 1..=5 {
        let token = granted(&*store, &claim(n)).await.token;
        if let Some(to) = to {
            let mut start = start_of(n);
            (start.owner, start.token) = (Owner([n; 16]), token);
            store.start_steps(&[start]).await.expect("start_steps");
            let release = Release { owner: Owner([n; 16]), token, ..release_of(n, to) };
            assert_eq!(store.release(&[release]).await.expect("release"), [Written::Done]);
        }
    }
    let one = "UPDATE idempotent_execution SET created_at = (SELECT min(created_at) FROM idempotent_execution)";
    place.place.execute(one).await;
    place.age(RETAIN).await;
    store
}

async fn cursor(store: &dyn Store, n: u8) -> Cursor {
    let found = store.read(&[id(n)]).await.expect("read").remove(0).expect("it is there");
    Cursor { created_at: found.record.created_at, id: id(n) }
}

async fn states(store: &dyn Store) -> Vec<(ExecutionId, u8)> {
    let found = store.read(&[1, 2, 3, 4, 5].map(id)).await.expect("read");
    found.into_iter().flatten().map(|it| (it.record.id, it.record.state.stored())).collect()
}

async fn reap_within_an_instant<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let store = five(&place, None).await;
    let first = cursor(&*store, 1).await;
    let page = store.reap(Some(first), None, 2).await.expect("reap");
    let (running, retryable) = (1, 2);
    let expected = [running, retryable, retryable, running, running];
    assert_eq!(
        states(&*store).await,
        [1, 2, 3, 4, 5].map(id).into_iter().zip(expected).collect::<Vec<_>>()
    );
    let rest = store.reap(page.next, None, 10).await.expect("reap");
    assert_eq!(rest.lapsed.len(), 2);
}

async fn purge_within_an_instant<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let store = five(&place, None).await;
    for n in 1..=5 {
        let token =
            store.read(&[id(n)]).await.expect("read").remove(0).expect("there").record.token;
        let record = StepRecord { token, ..step_record(n, token) };
        store.record_steps(&[record]).await.expect("record_steps");
        let completion = Completion { token, ..completion(n, granted_once()) };
        assert_eq!(store.complete(&[completion]).await.expect("complete"), [Written::Done]);
    }
    place.age(RETAIN).await;
    let first = cursor(&*store, 1).await;
    let page = store.purge(Some(first), 2).await.expect("purge");
    assert_eq!(page.deleted, 2);
    for (n, steps) in [(1, 1), (2, 0), (3, 0), (4, 1), (5, 1)] {
        let journal = store.journals(&[id(n)]).await.expect("journals").remove(0);
        assert_eq!(journal.len(), steps, "of the execution {n}");
        let is_there = store.read(&[id(n)]).await.expect("read")[0].is_some();
        assert_eq!(is_there, steps == 1, "the execution {n}");
    }
    assert_eq!(store.purge(page.next, 10).await.expect("purge").deleted, 2);
}

async fn review_within_an_instant<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let store = five(&place, Some(ReleaseTo::Retry { delay_ms: 0 })).await;
    let first = cursor(&*store, 1).await;
    let page = store.purge(Some(first), 2).await.expect("purge");
    assert_eq!(page.reviewed, 2);
    let (retryable, review) = (2, 5);
    let expected = [retryable, review, review, retryable, retryable];
    assert_eq!(
        states(&*store).await,
        [1, 2, 3, 4, 5].map(id).into_iter().zip(expected).collect::<Vec<_>>()
    );
    assert_eq!(store.purge(page.next, 10).await.expect("purge").reviewed, 2);
}

async fn list_within_an_instant<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let store = five(&place, Some(ReleaseTo::Review)).await;
    let first = cursor(&*store, 1).await;
    let page = store.list_review("payments", Some(first), 2).await.expect("list_review");
    let listed: Vec<ExecutionId> = page.iter().map(|it| it.record.id).collect();
    assert_eq!(listed, [2, 3].map(id));
    let last = cursor(&*store, 3).await;
    let page = store.list_review("payments", Some(last), 10).await.expect("list_review");
    assert_eq!(page.iter().map(|it| it.record.id).collect::<Vec<_>>(), [4, 5].map(id));
}

/// A message that waits is not lost to one of the same id that another connection sends.
async fn sends_over_nothing<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let store = opened(&*place).await;
    for n in [1, 2] {
        granted(&*store, &claim(n)).await;
    }
    let records = store.read(&[id(1), id(2)]).await.expect("read");
    let [first, second] =
        [0, 1].map(|n: usize| records[n].as_ref().expect("it is claimed").record.token);
    let sends = |n, token| Completion {
        token,
        messages: vec![Message { body: vec![n], ..message(1) }],
        ..completion(n, granted_once())
    };
    assert_eq!(store.complete(&[sends(1, first)]).await.expect("complete"), [Written::Done]);
    let again = (Arc::clone(&place), Arc::clone(&store), sends(2, second));
    // The database refuses the statement, and the connection it is run on says so.
    let run = tokio::spawn(async move { elsewhere(&*again.0, &*again.1, &again.2).await });
    run.await.expect_err("a message that waits would be lost");
    let left = store.messages().read_messages(&[MessageId([1; 16])]).await.expect("read_messages");
    assert_eq!(left[0].as_ref().expect("it waits").body, [1]);
}

async fn oldest_first<P: Guarded + Sql>(place: Arc<Mutated<P>>) {
    let store = opened(&*place).await;
    let granted = granted(&*store, &claim(1)).await;
    let sends = Completion { messages: [1, 2, 3].map(message).to_vec(), ..completion(1, granted) };
    assert_eq!(store.complete(&[sends]).await.expect("complete"), [Written::Done]);
    let claimed = store.messages().claim_messages(&[relay()]).await.expect("claim_messages");
    let ids = [2, 3, 1].map(|n| MessageId([n; 16]));
    for id in ids {
        let claimed = claimed[0].messages.iter().find(|message| message.id == id);
        let end = delivered(claimed.expect("it is claimed"));
        let ended = store.messages().end_deliveries(&[end]).await.expect("end_deliveries");
        assert_eq!(ended, [Written::Done]);
        place.age(LEASE).await;
    }
    for left in [2, 1, 0] {
        assert_eq!(store.messages().purge_messages(0, 1).await.expect("purge_messages"), 1);
        let read = store.messages().read_messages(&ids).await.expect("read_messages");
        assert!(read[..3 - left].iter().all(Option::is_none), "{read:?}");
        assert_eq!(read.iter().flatten().count(), left);
    }
}
