//! Steps whose statements wait for the execution's row: what they read before they waited is old by then.

use std::sync::Arc;

use idempotent_conformance::postgres::PostgresFactory;
use idempotent_conformance::sql::{
    self, Sql as _, assert_fails, claim, claimed, completion, granted, id,
};
use idempotent_conformance::{Cut, PostgresOptions};
use idempotent_runtime::protocol::{
    Claimed, Micros, Owner, Record, Release, ReleaseTo, SettleTo, Settled, Settlement, State, Step,
    StepClass, StepFound, StepName, StepRecord, StepRecorded, StepStart, StepStarted, StepState,
    TakeOver, TakenOver, Target, Token, Written,
};
use idempotent_runtime::store::{Store, StoreError, StoreErrorKind};
use idempotent_runtime::testing::conformance::Factory;
use idempotent_runtime::testing::postgres_store;
use sqlx::PgConnection;
use tokio::task::JoinHandle;

use super::{behind_a_proxy, migrated, run, session, until_blocked};

/// Columns changed by hand, past the table's own checks.
const TAMPERED: &[(&str, &str)] = &[
    (
        "class",
        "ALTER TABLE idempotent_step DROP CONSTRAINT IF EXISTS idempotent_step_class_check;
         UPDATE idempotent_step SET class = 9",
    ),
    (
        "state",
        "ALTER TABLE idempotent_step DROP CONSTRAINT IF EXISTS idempotent_step_state_check;
         UPDATE idempotent_step SET state = 0",
    ),
    ("generation", "UPDATE idempotent_step SET generation = -1"),
    ("version", "UPDATE idempotent_step SET version = 4294967296"),
    ("started_at", "UPDATE idempotent_step SET started_at = 'infinity'"),
    ("alive_until", "UPDATE idempotent_step SET alive_until = '-infinity'"),
    ("value", "UPDATE idempotent_step SET value = NULL"),
    ("value", "UPDATE idempotent_step SET state = 1, done_at = NULL"),
    ("done_at", "UPDATE idempotent_step SET done_at = NULL"),
    ("done_at", "UPDATE idempotent_step SET state = 3, value = NULL"),
];

fn name() -> StepName {
    StepName { step: "charge".to_owned(), part: String::new() }
}

fn start(token: Token) -> StepStart {
    StepStart {
        id: id(1),
        owner: Owner([1; 16]),
        token,
        name: name(),
        class: StepClass::AtMostOnce,
        reconciles: false,
        version: 1,
        generation: 0,
        seen: None,
    }
}

fn record(token: Token, value: &str) -> StepRecord {
    StepRecord {
        id: id(1),
        owner: Owner([1; 16]),
        token,
        name: name(),
        class: StepClass::AtMostOnce,
        version: 1,
        generation: 0,
        found: StepFound::Happened(value.as_bytes().to_vec()),
        earliest: Micros(0),
    }
}

fn is_done(recorded: StepRecorded) -> bool {
    matches!(recorded, StepRecorded::Done { .. })
}

fn take_over(seen: Token) -> TakeOver {
    let limits = claim(1).limits;
    TakeOver { id: id(1), seen, owner: Owner([9; 16]), version: 1, limits, target: Target::Run }
}

fn happened(seen: Token) -> Settlement {
    let found = StepFound::Happened(b"\"asked\"".to_vec());
    let to = SettleTo::Step { name: name(), found };
    Settlement { id: id(1), seen, to, note: "asked the bank".to_owned() }
}

async fn execution(store: &dyn Store) -> Record {
    store.read(&[id(1)]).await.unwrap().remove(0).unwrap().record
}

async fn journal(store: &dyn Store) -> Vec<Step> {
    store.journals(&[id(1)]).await.unwrap().remove(0)
}

/// An execution whose row another session holds, and the calls that wait for it, in their order.
struct Queue {
    place: PostgresFactory,
    store: Arc<dyn Store>,
    token: Token,
    other: PgConnection,
    waiting: i64,
}

impl Queue {
    async fn on(place: PostgresFactory) -> Self {
        let store = migrated(&place).await;
        let token = granted(&*store, &claim(1)).await.token;
        let other = session(&place.url()).await;
        Self { place, store, token, other, waiting: 0 }
    }

    async fn hold(&mut self) {
        run(&mut self.other, "BEGIN; SELECT 1 FROM idempotent_execution FOR UPDATE").await;
    }

    /// Makes a call, and comes back when it waits behind those before it.
    async fn call<A: Send + 'static>(
        &mut self,
        call: impl AsyncCall<A>,
    ) -> JoinHandle<Result<A, StoreError>> {
        let store = Arc::clone(&self.store);
        let task = tokio::spawn(async move { call.on(store).await });
        self.waiting += 1;
        until_blocked(&self.place, self.waiting).await;
        task
    }

    async fn let_go(&mut self) {
        run(&mut self.other, "COMMIT").await;
    }
}

/// One request, answered.
trait AsyncCall<A>: Send + 'static {
    fn on(self, store: Arc<dyn Store>) -> impl Future<Output = Result<A, StoreError>> + Send;
}

impl AsyncCall<StepStarted> for StepStart {
    async fn on(self, store: Arc<dyn Store>) -> Result<StepStarted, StoreError> {
        Ok(store.start_steps(&[self]).await?.remove(0))
    }
}

impl AsyncCall<StepRecorded> for StepRecord {
    async fn on(self, store: Arc<dyn Store>) -> Result<StepRecorded, StoreError> {
        Ok(store.record_steps(&[self]).await?.remove(0))
    }
}

impl AsyncCall<TakenOver> for TakeOver {
    async fn on(self, store: Arc<dyn Store>) -> Result<TakenOver, StoreError> {
        Ok(store.take_over(&[self]).await?.remove(0))
    }
}

impl AsyncCall<Settled> for Settlement {
    async fn on(self, store: Arc<dyn Store>) -> Result<Settled, StoreError> {
        Ok(store.settle(&[self]).await?.remove(0))
    }
}

async fn answer<A>(task: JoinHandle<Result<A, StoreError>>) -> A {
    task.await.unwrap().unwrap()
}

/// Directly, and as behind a transaction-pooling proxy.
fn places() -> [PostgresFactory; 2] {
    [PostgresFactory::fresh(), PostgresFactory::fresh().behind_a_transaction_pooler()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_was_changed_by_hand_is_corrupt() {
    for place in places() {
        sql::tampered_steps_are_corrupt(&place, TAMPERED).await;
    }
}

/// Of a released execution the journal comes with the takeover's own statement, and is read when that has written.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_of_a_journal_that_was_changed_by_hand_writes_nothing() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    for (column, change) in TAMPERED {
        place.execute("DELETE FROM idempotent_step; DELETE FROM idempotent_execution").await;
        let token = granted(&*store, &claim(1)).await.token;
        assert!(is_done(store.record_steps(&[record(token, "1")]).await.unwrap()[0]));
        place.execute(change).await;
        let to = ReleaseTo::Retry { delay_ms: 0 };
        let (id, owner, reason) = (id(1), Owner([1; 16]), "the bank was closed".to_owned());
        let release = Release { id, owner, token, to, reason };
        assert_eq!(store.release(&[release]).await.unwrap(), [Written::Done]);
        let before = execution(&*store).await;
        for _ in 0..2 {
            let taken = store.take_over(&[take_over(token)]).await;
            assert_fails(taken, StoreErrorKind::Corrupt, column, change);
            assert_eq!(execution(&*store).await, before, "{change}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_behind_the_same_start_counts_it_once() {
    for place in places() {
        let mut queue = Queue::on(place).await;
        queue.hold().await;
        let first = queue.call(start(queue.token)).await;
        let second = queue.call(start(queue.token)).await;
        queue.let_go().await;
        let (first, second) = (answer(first).await, answer(second).await);
        let StepStarted::Started { started_at, .. } = first else { panic!("{first:?}") };
        let StepStarted::Started { started_at: again, .. } = second else { panic!("{second:?}") };
        assert_eq!(again, started_at);
        let stored = execution(&*queue.store).await;
        assert_eq!((stored.open_steps, stored.blind_steps), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_behind_the_start_of_its_step_closes_it() {
    for place in places() {
        let mut queue = Queue::on(place).await;
        queue.hold().await;
        let started = queue.call(start(queue.token)).await;
        let recorded = queue.call(record(queue.token, "1")).await;
        queue.let_go().await;
        let started = answer(started).await;
        let StepStarted::Started { started_at, .. } = started else { panic!("{started:?}") };
        assert!(is_done(answer(recorded).await));
        let steps = journal(&*queue.store).await;
        assert_eq!(steps.len(), 1);
        assert_eq!((steps[0].state, steps[0].started_at), (StepState::Recorded, started_at));
        let stored = execution(&*queue.store).await;
        assert_eq!((stored.open_steps, stored.blind_steps), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_behind_the_record_of_its_step_finds_it() {
    for place in places() {
        let mut queue = Queue::on(place).await;
        queue.hold().await;
        let recorded = queue.call(record(queue.token, "1")).await;
        let started = queue.call(start(queue.token)).await;
        queue.let_go().await;
        assert!(is_done(answer(recorded).await));
        let started = answer(started).await;
        let StepStarted::Found(found) = started else { panic!("{started:?}") };
        assert_eq!(found.value.as_deref(), Some(b"1".as_slice()));
        assert_eq!(execution(&*queue.store).await.open_steps, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_records_of_one_step_the_first_stays() {
    for place in places() {
        let mut queue = Queue::on(place).await;
        queue.store.start_steps(&[start(queue.token)]).await.unwrap();
        queue.hold().await;
        let first = queue.call(record(queue.token, "1")).await;
        let second = queue.call(record(queue.token, "2")).await;
        queue.let_go().await;
        let (first, second) = (answer(first).await, answer(second).await);
        assert!(is_done(first) && first == second, "{first:?}, {second:?}");
        assert_eq!(journal(&*queue.store).await[0].value.as_deref(), Some(b"1".as_slice()));
        let stored = execution(&*queue.store).await;
        assert_eq!((stored.open_steps, stored.blind_steps), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_that_waits_behind_the_takeover_is_fenced() {
    for place in places() {
        let mut queue = Queue::on(place).await;
        queue.place.age(std::time::Duration::from_secs(3_600)).await;
        queue.hold().await;
        let taken = queue.call(take_over(queue.token)).await;
        let recorded = queue.call(record(queue.token, "1")).await;
        let started = queue.call(start(queue.token)).await;
        queue.let_go().await;
        let taken = answer(taken).await;
        assert!(matches!(&taken, TakenOver::Granted { journal, .. } if journal.is_empty()));
        assert_eq!(answer(recorded).await, StepRecorded::Fenced);
        assert_eq!(answer(started).await, StepStarted::Fenced);
        assert_eq!(journal(&*queue.store).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_that_waits_behind_a_late_record_brings_it() {
    for place in places() {
        let mut queue = Queue::on(place).await;
        queue.place.age(std::time::Duration::from_secs(3_600)).await;
        queue.hold().await;
        let recorded = queue.call(record(queue.token, "1")).await;
        let taken = queue.call(take_over(queue.token)).await;
        queue.let_go().await;
        assert!(is_done(answer(recorded).await));
        let TakenOver::Granted { journal: brought, .. } = answer(taken).await else {
            panic!("it had lapsed");
        };
        assert_eq!(brought.len(), 1);
        assert_eq!(brought, journal(&*queue.store).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_that_waits_behind_a_late_start_that_is_blind_is_reviewed() {
    for place in places() {
        let mut queue = Queue::on(place).await;
        queue.place.age(std::time::Duration::from_secs(3_600)).await;
        queue.hold().await;
        let started = queue.call(start(queue.token)).await;
        let taken = queue.call(take_over(queue.token)).await;
        queue.let_go().await;
        assert!(matches!(answer(started).await, StepStarted::Started { .. }));
        assert_eq!(answer(taken).await, TakenOver::Reviewed);
        let stored = execution(&*queue.store).await;
        assert_eq!((stored.state, stored.crashes), (State::Review, 1));
        assert_eq!((stored.owner, stored.token), (Owner([1; 16]), queue.token));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_decisions_about_one_step_the_second_is_outrun() {
    for place in places() {
        let mut queue = Queue::on(place).await;
        queue.store.start_steps(&[start(queue.token)]).await.unwrap();
        let release = Release {
            id: id(1),
            owner: Owner([1; 16]),
            token: queue.token,
            to: ReleaseTo::Review,
            reason: "the bank was closed".to_owned(),
        };
        assert_eq!(queue.store.release(&[release]).await.unwrap(), [Written::Done]);
        queue.place.age(std::time::Duration::from_secs(36_000)).await;
        queue.hold().await;
        let first = queue.call(happened(queue.token)).await;
        let second = queue.call(happened(queue.token)).await;
        queue.let_go().await;
        assert_eq!((answer(first).await, answer(second).await), (Settled::Done, Settled::Outrun));
        let stored = execution(&*queue.store).await;
        let counted = (stored.open_steps, stored.blind_steps);
        assert_eq!((stored.state, counted), (State::Retryable, (0, 0)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_whose_answers_are_lost_are_written_once() {
    let place = PostgresFactory::fresh();
    migrated(&place).await;
    let (proxy, store) = behind_a_proxy(&place).await;
    let token = granted(&*store, &claim(1)).await.token;
    proxy.cut("INSERT INTO idempotent_step", Cut::BeforeTheAnswer);
    // The store itself tries again, on another connection.
    let started = start(token).on(Arc::clone(&store)).await.unwrap();
    assert!(matches!(started, StepStarted::Started { .. }), "{started:?}");
    assert_eq!((proxy.cuts(), execution(&*store).await.open_steps), (1, 1));
    proxy.cut("INSERT INTO idempotent_step", Cut::BeforeTheAnswer);
    assert!(is_done(record(token, "1").on(Arc::clone(&store)).await.unwrap()));
    assert_eq!((proxy.cuts(), execution(&*store).await.open_steps), (2, 0));
    assert_eq!(journal(&*store).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_are_one_for_a_plain_step_and_two_for_a_started_one() {
    // A server of its own, on which nobody else writes: its transaction numbers count our commits.
    let server = PostgresOptions::default().setting("autovacuum", "off").start().unwrap();
    let mut other = session(&server.url()).await;
    for (n, pooled) in [(1, false), (2, true)] {
        let store = postgres_store(&server.url(), pooled).await.unwrap();
        store.migrate().await.unwrap();
        let (mut plain, mut started, mut recorded) =
            (record(Token(0), "1"), start(Token(0)), record(Token(0), "2"));
        let before = transactions(&mut other).await;
        let granted = granted(&*store, &claim(n)).await;
        for (id_of, owner_of, token) in [
            (&mut plain.id, &mut plain.owner, &mut plain.token),
            (&mut started.id, &mut started.owner, &mut started.token),
            (&mut recorded.id, &mut recorded.owner, &mut recorded.token),
        ] {
            (*id_of, *owner_of, *token) = (id(n), Owner([n; 16]), granted.token);
        }
        assert_eq!(transactions(&mut other).await - before, 1, "the claim");
        plain.name.part = "receipt".to_owned();
        plain.class = StepClass::Plain;
        assert!(is_done(store.record_steps(&[plain]).await.unwrap()[0]));
        assert_eq!(transactions(&mut other).await - before, 2, "a plain step");
        assert!(matches!(
            store.start_steps(&[started]).await.unwrap()[..],
            [StepStarted::Started { .. }]
        ));
        assert!(is_done(store.record_steps(&[recorded]).await.unwrap()[0]));
        assert_eq!(transactions(&mut other).await - before, 4, "a started step");
        assert_eq!(store.complete(&[completion(n, granted)]).await.unwrap(), [Written::Done]);
        assert_eq!(transactions(&mut other).await - before, 5, "the completion");
        assert!(matches!(claimed(&*store, &claim(n)).await.unwrap(), Claimed::Found(_)));
        store.journals(&[id(n)]).await.unwrap();
        assert_eq!(transactions(&mut other).await - before, 5, "a replay");
        store.close().await;
    }
}

/// How many transactions of the server have written.
async fn transactions(session: &mut PgConnection) -> i64 {
    let read = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    sqlx::query_scalar(read).fetch_one(session).await.unwrap()
}
