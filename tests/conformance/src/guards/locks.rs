//! What the locks of PostgreSQL's rows are for: facts that take a second session.

use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, DecideTo, DeliveryEnd, DeliveryEndTo, Granted, Message,
    MessageDecision, MessageId, MessageRecord, MessageRenewal, Micros, Owner, Record, Release,
    ReleaseTo, Renewal, Renewed, SettleTo, Settled, Settlement, StepFound, StepRecord,
    StepRecorded, StepStarted, TakeOver, TakenOver, Target, Token, Written,
};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::plans::postgres as plans;
use super::{Fact, Mutated, batches, journal, messages, purges, spared};
use crate::postgres::PostgresFactory;
use crate::sql::{
    LEASE_MS, Sql, claim, claimed, completion, delivered, granted, id, relay, step_record,
    step_start,
};

pub(super) type Place = Arc<Mutated<PostgresFactory>>;

/// Longer than the lease, the runtime and the retention of [`claim`].
pub(super) const LATER: Duration = Duration::from_secs(70_000);
/// All rows.
pub(super) const EXECUTIONS: &str = "SELECT 1 FROM idempotent_execution FOR UPDATE";
pub(super) const MESSAGES: &str = "SELECT 1 FROM idempotent_outbox FOR UPDATE";

/// All of them.
#[must_use]
pub fn facts() -> Vec<Fact<PostgresFactory>> {
    let mut facts = vec![
        Fact::new("claim_that_waits_for_an_insert_finds_it", claim_finds),
        Fact::new("reap_passes_over_a_locked_row", reap_passes),
        Fact::new("purge_passes_over_a_locked_row", purge_passes),
        Fact::new("renew_passes_over_a_locked_row", renew_passes),
        Fact::new("claim_of_messages_passes_over_a_locked_row", claim_of_messages_passes),
        Fact::new("purge_of_messages_passes_over_a_locked_row", purge_of_messages_passes),
        Fact::new("take_over_that_waited_is_dated_behind", take_over_is_dated),
        Fact::new("settle_that_waited_is_dated_behind", settle_is_dated),
        Fact::new("retry_that_waited_is_dated_behind", retry_is_dated),
        Fact::new("reopen_that_waited_is_dated_behind", reopen_is_dated),
        Fact::new("start_that_waited_is_dated_behind", start_is_dated),
        Fact::new("record_that_waited_is_dated_behind", record_is_dated),
        Fact::new("record_of_a_start_that_waited_is_dated_behind", record_of_a_start_is_dated),
        Fact::new("clear_that_waited_is_dated_behind", clear_is_dated),
        Fact::new("settled_step_that_waited_is_dated_behind", settled_step_is_dated),
        Fact::new("decision_that_waited_is_dated_behind", decision_is_dated),
        Fact::new("renewal_of_a_message_that_waited_is_dated_behind", renewal_is_dated),
        Fact::new("renewals_of_messages_lock_in_one_order", renewals_lock_in_order),
        Fact::new("ends_of_deliveries_lock_in_one_order", ends_lock_in_order),
        Fact::new("completions_lock_ordering_keys_in_one_order", completions_lock_in_order),
        Fact::new("completions_elsewhere_lock_ordering_keys_in_one_order", elsewhere_in_order),
    ];
    facts.extend(batches::facts());
    facts.extend(journal::facts());
    facts.extend(messages::facts());
    facts.extend(purges::facts());
    facts.extend(spared::facts());
    facts.extend(plans::facts());
    facts
}

pub(super) async fn opened(place: &Place) -> Arc<dyn Store> {
    let store = place.open().await;
    store.migrate().await.expect("its tables are there");
    store
}

/// A session that holds what `lock` locks.
pub(super) async fn holding(place: &Place, lock: &str) -> PgConnection {
    let mut session = PgConnection::connect(&place.place.url()).await.expect("it lets us in");
    let lock = format!("BEGIN; {lock}");
    session.execute(AssertSqlSafe(lock)).await.expect("it locks");
    session
}

pub(super) async fn release(mut session: PgConnection) {
    session.execute("COMMIT").await.expect("it commits");
}

/// Waits until somebody waits for a lock of this place.
pub(super) async fn until_blocked(place: &Place) {
    let query = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid() AND pid IN (
          SELECT pid FROM pg_locks
          WHERE relation IN ('idempotent_execution'::regclass, 'idempotent_outbox'::regclass))";
    loop {
        let blocked: i64 =
            sqlx::query_scalar(query).fetch_one(place.place.pool()).await.expect("it counts");
        if blocked > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Runs a call that has to wait for `lock`, and says what it answered and when it was let go.
pub(super) async fn behind<T: Send + 'static>(
    place: &Place,
    lock: &str,
    call: impl Future<Output = T> + Send + 'static,
) -> (T, Micros) {
    let mut session = holding(place, lock).await;
    let call = tokio::spawn(call);
    until_blocked(place).await;
    let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let now: i64 =
        sqlx::query_scalar(now).fetch_one(&mut session).await.expect("it tells the time");
    release(session).await;
    (call.await.expect("no panic"), Micros(now))
}

/// Runs a call that has to wait for `lock`, and the statements behind its back.
pub(super) async fn meanwhile<T: Send + 'static>(
    place: &Place,
    lock: &str,
    statements: &str,
    call: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut session = holding(place, lock).await;
    let call = tokio::spawn(call);
    until_blocked(place).await;
    session.execute(AssertSqlSafe(statements.to_owned())).await.expect("it holds the lock");
    release(session).await;
    call.await.expect("no panic")
}

pub(super) async fn record(store: &dyn Store) -> Record {
    store.read(&[id(1)]).await.expect("read").remove(0).expect("it is there").record
}

/// The first execution, running.
pub(super) async fn running(store: &dyn Store) -> Token {
    granted(store, &claim(1)).await.token
}

pub(super) async fn released(store: &dyn Store, token: Token, to: ReleaseTo) {
    release_to(store, 1, Owner([1; 16]), token, to).await;
}

pub(super) async fn release_to(
    store: &dyn Store,
    n: u8,
    owner: Owner,
    token: Token,
    to: ReleaseTo,
) {
    let release = Release { id: id(n), owner, token, to, reason: "it is closed".to_owned() };
    assert_eq!(store.release(&[release]).await.expect("release"), [Written::Done]);
}

pub(super) fn message(n: u8, ordering_key: Option<&str>) -> Message {
    Message {
        id: MessageId([n; 16]),
        topic: "receipt".to_owned(),
        ordering_key: ordering_key.map(str::to_owned),
        headers: Vec::new(),
        body: b"1".to_vec(),
        delay_ms: 0,
    }
}

pub(super) fn sends(token: Token, messages: Vec<Message>) -> Completion {
    let granted = Granted { token, attempts: 1, crashes: 0, generation: 0 };
    Completion { messages, ..completion(1, granted) }
}

/// Two messages that a relay is delivering.
pub(super) async fn sending(store: &dyn Store) -> Vec<MessageRecord> {
    let token = running(store).await;
    let sends = sends(token, vec![message(1, None), message(2, None)]);
    assert_eq!(store.complete(&[sends]).await.expect("complete"), [Written::Done]);
    let claimed = store.messages().claim_messages(&[relay()]).await.expect("claim_messages");
    let messages = claimed.into_iter().next().expect("one answer").messages;
    assert_eq!(messages.len(), 2);
    messages
}

async fn claim_finds(place: Place) {
    claims_behind_an_insert(place, |claim, _| claim.owner = Owner([9; 16])).await;
}

/// A claim waits for a row that another session inserts, and finds it.
pub(super) async fn claims_behind_an_insert(place: Place, change: fn(&mut Claim, Token)) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let spare = "DROP TABLE IF EXISTS spare;
        CREATE TABLE spare AS SELECT * FROM idempotent_execution; DELETE FROM idempotent_execution";
    place.place.execute(spare).await;
    let insert = "INSERT INTO idempotent_execution SELECT * FROM spare";
    let (answer, _) = behind(&place, insert, async move {
        let mut again = claim(1);
        change(&mut again, token);
        claimed(&*store, &again).await
    })
    .await;
    assert!(matches!(answer, Ok(Claimed::Found(_))), "{answer:?}");
}

async fn reap_passes(place: Place) {
    let store = opened(&place).await;
    running(&*store).await;
    place.age(LATER).await;
    let session = holding(&place, EXECUTIONS).await;
    assert_eq!(store.reap(None, None, 10).await.expect("reap").lapsed, []);
    release(session).await;
    assert_eq!(store.reap(None, None, 10).await.expect("reap").lapsed.len(), 1);
}

async fn purge_passes(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let done = store.complete(&[sends(token, Vec::new())]).await.expect("complete");
    assert_eq!(done, [Written::Done]);
    place.age(LATER).await;
    let session = holding(&place, EXECUTIONS).await;
    assert_eq!(store.purge(None, 10).await.expect("purge").deleted, 0);
    release(session).await;
    assert_eq!(store.purge(None, 10).await.expect("purge").deleted, 1);
}

async fn renew_passes(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let renewal = Renewal { id: id(1), owner: Owner([1; 16]), token };
    let session = holding(&place, EXECUTIONS).await;
    assert_eq!(store.renew(&[renewal]).await.expect("renew"), [Renewed::Skipped]);
    release(session).await;
    assert_eq!(store.renew(&[renewal]).await.expect("renew"), [Renewed::Renewed]);
}

async fn claim_of_messages_passes(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let sends = sends(token, vec![message(1, None)]);
    assert_eq!(store.complete(&[sends]).await.expect("complete"), [Written::Done]);
    let session = holding(&place, MESSAGES).await;
    let claimed = store.messages().claim_messages(&[relay()]).await.expect("claim_messages");
    assert_eq!(claimed[0].messages, []);
    release(session).await;
    let claimed = store.messages().claim_messages(&[relay()]).await.expect("claim_messages");
    assert_eq!(claimed[0].messages.len(), 1);
}

async fn purge_of_messages_passes(place: Place) {
    let store = opened(&place).await;
    let ends: Vec<_> = sending(&*store).await.iter().map(delivered).collect();
    store.messages().end_deliveries(&ends).await.expect("end_deliveries");
    place.age(LATER).await;
    let session = holding(&place, MESSAGES).await;
    assert_eq!(store.messages().purge_messages(0, 10).await.expect("purge_messages"), 0);
    release(session).await;
    assert_eq!(store.messages().purge_messages(0, 10).await.expect("purge_messages"), 2);
}

async fn take_over_is_dated(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    released(&*store, token, ReleaseTo::Retry { delay_ms: 0 }).await;
    let request = TakeOver {
        id: id(1),
        seen: token,
        owner: Owner([9; 16]),
        version: 1,
        limits: claim(1).limits,
        target: Target::Run,
    };
    let taking = Arc::clone(&store);
    let (answer, let_go) =
        behind(&place, EXECUTIONS, async move { taking.take_over(&[request]).await }).await;
    let answer = answer.expect("take_over");
    assert!(matches!(answer[..], [TakenOver::Granted { .. }]), "{answer:?}");
    assert!(record(&*store).await.attempt_started_at >= let_go);
}

/// Settles the first execution behind the lock.
async fn settled(place: &Place, store: &Arc<dyn Store>, seen: Token, to: SettleTo) -> Micros {
    let settlement = Settlement { id: id(1), seen, to, note: "asked the bank".to_owned() };
    let settling = Arc::clone(store);
    let (answer, let_go) =
        behind(place, EXECUTIONS, async move { settling.settle(&[settlement]).await }).await;
    assert_eq!(answer.expect("settle"), [Settled::Done]);
    let_go
}

async fn settle_is_dated(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    released(&*store, token, ReleaseTo::Review).await;
    let let_go = settled(&place, &store, token, SettleTo::Completed(b"1".to_vec())).await;
    assert!(record(&*store).await.done_at >= Some(let_go));
}

async fn retry_is_dated(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    released(&*store, token, ReleaseTo::Review).await;
    place.age(LATER).await;
    let let_go = settled(&place, &store, token, SettleTo::Retry).await;
    assert!(record(&*store).await.not_before >= Some(let_go));
}

async fn reopen_is_dated(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let done = store.complete(&[sends(token, Vec::new())]).await.expect("complete");
    assert_eq!(done, [Written::Done]);
    place.age(LATER).await;
    let let_go = settled(&place, &store, token, SettleTo::Reopen).await;
    assert!(record(&*store).await.not_before >= Some(let_go));
}

async fn started(store: &dyn Store, token: Token) {
    let started = store.start_steps(&[step_start(1, token)]).await.expect("start_steps");
    assert!(matches!(started[..], [StepStarted::Started { .. }]), "{started:?}");
}

async fn start_is_dated(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    let starting = Arc::clone(&store);
    let start = step_start(1, token);
    let (answer, let_go) =
        behind(&place, EXECUTIONS, async move { starting.start_steps(&[start]).await }).await;
    answer.expect("start_steps");
    let journal = store.journals(&[id(1)]).await.expect("journals").remove(0);
    assert!(journal[0].started_at >= let_go);
}

/// Records the first step behind the lock, which must be dated behind it.
async fn recorded(place: &Place, store: &Arc<dyn Store>, record: StepRecord) {
    let recording = Arc::clone(store);
    let (answer, let_go) =
        behind(place, EXECUTIONS, async move { recording.record_steps(&[record]).await }).await;
    match answer.expect("record_steps")[..] {
        [StepRecorded::Done { done_at }] => assert!(done_at >= let_go),
        ref other => panic!("{other:?}"),
    }
}

async fn record_is_dated(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    recorded(&place, &store, step_record(1, token)).await;
    // It was started when it was recorded, to the microsecond.
    let journal = store.journals(&[id(1)]).await.expect("journals").remove(0);
    assert_eq!(Some(journal[0].started_at), journal[0].done_at);
}

async fn record_of_a_start_is_dated(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    started(&*store, token).await;
    recorded(&place, &store, step_record(1, token)).await;
}

async fn clear_is_dated(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    started(&*store, token).await;
    let cleared = StepRecord { found: StepFound::DidNotHappen, ..step_record(1, token) };
    recorded(&place, &store, cleared).await;
}

async fn settled_step_is_dated(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    started(&*store, token).await;
    released(&*store, token, ReleaseTo::Review).await;
    place.age(LATER).await;
    let StepRecord { name, found, .. } = step_record(1, token);
    let let_go = settled(&place, &store, token, SettleTo::Step { name, found }).await;
    let journal = store.journals(&[id(1)]).await.expect("journals").remove(0);
    assert!(journal[0].done_at >= Some(let_go));
}

async fn decision_is_dated(place: Place) {
    let store = opened(&place).await;
    let sending = sending(&*store).await;
    let dead = DeliveryEnd {
        to: DeliveryEndTo::Dead { error: "refused".to_owned() },
        ..delivered(&sending[0])
    };
    store.messages().end_deliveries(&[dead]).await.expect("end_deliveries");
    let decision = MessageDecision {
        id: sending[0].id,
        seen: sending[0].token,
        to: DecideTo::Delivered,
        note: "ada: looked it up".to_owned(),
    };
    let deciding = Arc::clone(&store);
    let (answer, let_go) =
        behind(
            &place,
            MESSAGES,
            async move { deciding.messages().decide_messages(&[decision]).await },
        )
        .await;
    assert_eq!(answer.expect("decide_messages"), [Settled::Done]);
    assert!(read(&*store).await.done_at >= Some(let_go));
}

pub(super) async fn read(store: &dyn Store) -> MessageRecord {
    let read = store.messages().read_messages(&[MessageId([1; 16])]).await;
    read.expect("read_messages").remove(0).expect("it is there")
}

pub(super) fn renewal(message: &MessageRecord) -> MessageRenewal {
    let MessageRecord { id, owner, token, .. } = *message;
    MessageRenewal { id, owner, token, lease_ms: LEASE_MS }
}

async fn renewal_is_dated(place: Place) {
    let store = opened(&place).await;
    let renewal = renewal(&sending(&*store).await[0]);
    let renewing = Arc::clone(&store);
    let (answer, let_go) =
        behind(
            &place,
            MESSAGES,
            async move { renewing.messages().renew_messages(&[renewal]).await },
        )
        .await;
    assert_eq!(answer.expect("renew_messages"), [Renewed::Renewed]);
    assert!(read(&*store).await.due_at >= let_go.plus_ms(LEASE_MS));
}

/// Runs a call that has to wait for the second message, and must have locked the first by then.
async fn locks_in_order(place: &Place, call: impl Future<Output = ()> + Send + 'static) {
    let second = "SELECT 1 FROM idempotent_outbox WHERE id = repeat('02', 16)::uuid FOR UPDATE";
    let session = holding(place, second).await;
    let call = tokio::spawn(call);
    until_blocked(place).await;
    let first =
        "SELECT 1 FROM idempotent_outbox WHERE id = repeat('01', 16)::uuid FOR UPDATE SKIP LOCKED";
    let free = sqlx::query(first).fetch_all(place.place.pool()).await.expect("it looks");
    assert!(free.is_empty(), "it waits for the second before it has the first");
    release(session).await;
    call.await.expect("no panic");
}

async fn renewals_lock_in_order(place: Place) {
    let store = opened(&place).await;
    let renewals: Vec<_> = sending(&*store).await.iter().rev().map(renewal).collect();
    locks_in_order(&place, async move {
        let answers = store.messages().renew_messages(&renewals).await;
        assert_eq!(answers.expect("renew_messages"), [Renewed::Renewed; 2]);
    })
    .await;
}

async fn ends_lock_in_order(place: Place) {
    let store = opened(&place).await;
    let ends: Vec<_> = sending(&*store).await.iter().rev().map(delivered).collect();
    locks_in_order(&place, async move {
        let answers = store.messages().end_deliveries(&ends).await;
        assert_eq!(answers.expect("end_deliveries"), [Written::Done; 2]);
    })
    .await;
}

/// Two ordering keys, the one that is locked first before the other, and their locks.
async fn ordering_keys(place: &Place) -> [(String, i64); 2] {
    let hash = "SELECT hashtextextended(concat_ws(chr(1), 'payments', 'receipt', $1), 7)";
    let mut keys = Vec::new();
    for key in ["ada", "bob"] {
        let hash: i64 = sqlx::query_scalar(hash)
            .bind(key)
            .fetch_one(place.place.pool())
            .await
            .expect("it hashes");
        keys.push((key.to_owned(), hash));
    }
    keys.sort_unstable_by_key(|(_, hash)| *hash);
    keys.try_into().expect("there are two")
}

/// Runs a completion that has to wait for the second ordering key, and must have locked the first by then.
async fn locks_keys_in_order<F>(place: Place, call: impl FnOnce(Arc<dyn Store>, Completion) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let store = opened(&place).await;
    let token = running(&*store).await;
    let [(first, first_lock), (second, second_lock)] = ordering_keys(&place).await;
    let completion = sends(token, vec![message(2, Some(&second)), message(1, Some(&first))]);
    let session = holding(&place, &format!("SELECT pg_advisory_xact_lock({second_lock})")).await;
    let call = tokio::spawn(call(store, completion));
    until_blocked(&place).await;
    let is_free = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)").bind(first_lock);
    let is_free: bool = is_free.fetch_one(place.place.pool()).await.expect("it tries");
    assert!(!is_free, "it waits for the second before it has the first");
    release(session).await;
    call.await.expect("no panic");
}

async fn completions_lock_in_order(place: Place) {
    locks_keys_in_order(place, |store, completion| async move {
        assert_eq!(store.complete(&[completion]).await.expect("complete"), [Written::Done]);
    })
    .await;
}

async fn elsewhere_in_order(place: Place) {
    let there = Arc::clone(&place);
    locks_keys_in_order(place, |store, completion| async move {
        let statements = store.completion(&completion).expect("it is open").expect("it has SQL");
        let mut own = there.elsewhere().await.expect("it has a connection");
        for statement in &statements {
            assert_eq!(own.run(statement).await, 1);
        }
        own.commit().await;
    })
    .await;
}
