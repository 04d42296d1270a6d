//! What is asked of a SQL store alone: facts that need a hand on its tables.

mod elsewhere;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, DeliveryEnd, DeliveryEndTo, ExecutionId, Granted, Identity, Limits,
    MessageClaim, MessageRecord, Micros, Owner, Release, ReleaseTo, StepClass, StepFound, StepName,
    StepRecord, StepRecorded, StepStart, StoredResult, TakeOver, Target, Token, Written,
};
use idempotent_runtime::store::{Store, StoreError, StoreErrorKind};
use idempotent_runtime::testing::conformance::Factory;

pub(crate) use elsewhere::Own;
pub use elsewhere::query;

/// Empties the tables of a place.
pub(crate) const EMPTY: &str =
    "DELETE FROM idempotent_execution; DELETE FROM idempotent_step; DELETE FROM idempotent_outbox";

/// How long a [`relay`] owns what it claims.
pub(crate) const LEASE_MS: u64 = 600_000;

/// A place whose tables can be reached past the store.
#[async_trait]
pub trait Sql: Factory {
    /// Runs statements on the place, in a session of their own.
    async fn execute(&self, statements: &str);
}

/// A claim of the `n`th execution by the owner of that number.
#[must_use]
pub fn claim(n: u8) -> Claim {
    Claim {
        id: id(n),
        identity: Identity {
            namespace: "payments".to_owned(),
            tenant: "acme".to_owned(),
            handler: "charge".to_owned(),
            key: Some(format!("charge:{n}")),
        }
        .into(),
        owner: Owner([n; 16]),
        version: 1,
        limits: Limits {
            lease_ms: 600_000,
            max_runtime_ms: 6_000_000,
            crashes_max: 2,
            retain_ms: 60_000_000,
        },
        fingerprint: Some(vec![1, 2, 3]),
        issued_at: None,
    }
}

/// The id of the `n`th execution.
#[must_use]
pub fn id(n: u8) -> ExecutionId {
    ExecutionId([n; 16])
}

/// A completion of what was granted to [`claim`]`(n)`.
#[must_use]
pub fn completion(n: u8, granted: Granted) -> Completion {
    Completion {
        id: id(n),
        owner: Owner([n; 16]),
        token: granted.token,
        failed: false,
        result: StoredResult::Json(b"\"paid\"".to_vec()),
        messages: Vec::new(),
    }
}

/// The one answer to a claim.
///
/// # Errors
///
/// The store's.
///
/// # Panics
///
/// If there is not one answer.
pub async fn claimed(store: &dyn Store, claim: &Claim) -> Result<Claimed, StoreError> {
    let mut answers = store.claim(std::slice::from_ref(claim)).await?;
    assert_eq!(answers.len(), 1);
    Ok(answers.remove(0))
}

/// Claims what is absent.
///
/// # Panics
///
/// If it is not granted.
pub async fn granted(store: &dyn Store, claim: &Claim) -> Granted {
    match claimed(store, claim).await {
        Ok(Claimed::Granted(granted)) => granted,
        other => panic!("an absent execution is granted, not {other:?}"),
    }
}

/// Claims and completes the `n`th execution.
///
/// # Panics
///
/// If it was not absent.
pub async fn completed(store: &dyn Store, n: u8) {
    let granted = granted(store, &claim(n)).await;
    let answers = store.complete(&[completion(n, granted)]).await;
    assert_eq!(answers.expect("complete"), [Written::Done]);
}

async fn migrated(place: &dyn Factory) -> Arc<dyn Store> {
    let store = place.open().await;
    store.migrate().await.expect("a fresh place migrates");
    store
}

/// Asserts the kind of a failure, and that its text names something.
///
/// # Panics
///
/// If it is no failure, or another.
pub fn assert_fails<T>(answer: Result<T, StoreError>, kind: StoreErrorKind, names: &str, of: &str) {
    match answer {
        Ok(_) => panic!("{of}: it is answered, and should fail as {kind:?}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{of}: {error}");
            assert!(error.to_string().contains(names), "{of}: `{error}` does not name {names}");
        }
    }
}

/// A row in which one column was changed by hand to what nobody writes is reported as corrupt, with its table, its
/// id and the column, by every call that reads it; no call panics, and none hands out what it holds.
///
/// # Panics
///
/// If it is not so.
pub async fn tampered_rows_are_corrupt(place: &dyn Sql, changes: &[(&str, &str)]) {
    let store = migrated(place).await;
    for (column, change) in changes {
        place.execute("DELETE FROM idempotent_execution").await;
        completed(&*store, 1).await;
        place.execute(change).await;
        let mut again = claim(1);
        again.owner = Owner([9; 16]);
        assert_fails(claimed(&*store, &again).await, StoreErrorKind::Corrupt, column, change);
        let read = store.read(&[id(1)]).await;
        assert_fails(read, StoreErrorKind::Corrupt, &id(1).to_string(), change);
        // The sweeps may pass over the row or report it; they must come back.
        let _ = store.reap(None, None, 10).await.is_ok();
        let _ = store.purge(None, 10).await.is_ok();
        granted(&*store, &claim(2)).await;
    }
}

/// The same for the recorded step of a running execution: no call that reads the journal hands it out, and a takeover
/// that would have to writes nothing.
///
/// # Panics
///
/// If it is not so.
pub async fn tampered_steps_are_corrupt(place: &dyn Sql, changes: &[(&str, &str)]) {
    let store = migrated(place).await;
    let empty = "DELETE FROM idempotent_step; DELETE FROM idempotent_execution";
    for (column, change) in changes {
        place.execute(empty).await;
        let Granted { token, .. } = granted(&*store, &claim(1)).await;
        let record = step_record(1, token);
        let recorded = store.record_steps(std::slice::from_ref(&record)).await;
        assert!(matches!(recorded.expect("record_steps")[..], [StepRecorded::Done { .. }]));
        place.age(Duration::from_secs(3_600)).await;
        place.execute(change).await;
        let before = store.read(&[id(1)]).await.expect("read").remove(0).map(|found| found.record);
        let journals = store.journals(&[id(1)]).await;
        assert_fails(journals, StoreErrorKind::Corrupt, column, change);
        let take_over = TakeOver {
            id: id(1),
            seen: token,
            owner: Owner([9; 16]),
            version: 1,
            limits: claim(1).limits,
            target: Target::Run,
        };
        let taken = store.take_over(&[take_over]).await;
        assert_fails(taken, StoreErrorKind::Corrupt, &id(1).to_string(), change);
        // It may be found, or missed where its name was changed; the call must come back.
        let _ = store.record_steps(&[record]).await.is_ok();
        let after = store.read(&[id(1)]).await.expect("read").remove(0).map(|found| found.record);
        assert_eq!(after, before, "{change}");
        granted(&*store, &claim(2)).await;
    }
}

/// The record of a step of what was granted to [`claim`]`(n)`.
#[must_use]
pub fn step_record(n: u8, token: Token) -> StepRecord {
    StepRecord {
        id: id(n),
        owner: Owner([n; 16]),
        token,
        name: StepName { step: "charge".to_owned(), part: String::new() },
        class: StepClass::Plain,
        version: 1,
        generation: 0,
        found: StepFound::Happened(b"\"ch_1\"".to_vec()),
        earliest: Micros(0),
    }
}

/// The start of the step that [`step_record`] records.
pub(crate) fn step_start(n: u8, token: Token) -> StepStart {
    let StepRecord { id, owner, name, class, version, generation, .. } = step_record(n, token);
    StepStart { id, owner, token, name, class, reconciles: false, version, generation, seen: None }
}

/// A relay's claim of whatever is due.
pub(crate) fn relay() -> MessageClaim {
    MessageClaim {
        namespace: "payments".to_owned(),
        topic: "receipt".to_owned(),
        owner: Owner([9; 16]),
        lease_ms: LEASE_MS,
        at_most_once: false,
        reconciles: false,
        rows_max: 10,
        since: Micros(0),
        again: false,
    }
}

/// The end of the delivery of what a relay has claimed.
pub(crate) fn delivered(message: &MessageRecord) -> DeliveryEnd {
    let MessageRecord { id, owner, token, .. } = *message;
    DeliveryEnd { id, owner, token, to: DeliveryEndTo::Delivered }
}

/// The same for text that only an execution in review shows.
///
/// # Panics
///
/// If it is not so.
pub async fn tampered_rows_in_review_are_corrupt(place: &dyn Sql, changes: &[(&str, &str)]) {
    let store = migrated(place).await;
    for (column, change) in changes {
        place.execute("DELETE FROM idempotent_execution").await;
        let Granted { token, .. } = granted(&*store, &claim(1)).await;
        let (id, owner, reason) = (id(1), Owner([1; 16]), "the bank was closed".to_owned());
        let release = Release { id, owner, token, to: ReleaseTo::Review, reason };
        assert_eq!(store.release(&[release]).await.expect("release"), [Written::Done]);
        place.execute(change).await;
        let listed = store.list_review("payments", None, 10).await;
        assert_fails(listed, StoreErrorKind::Corrupt, column, change);
    }
}

/// A row that violates a constraint which is not ours is not taken for an execution that is there.
///
/// # Panics
///
/// If it is not so.
pub async fn violation_of_another_constraint_is_no_conflict(place: &dyn Sql, constraint: &str) {
    let store = migrated(place).await;
    place.execute(constraint).await;
    granted(&*store, &claim(1)).await;
    let mut other = claim(2);
    Arc::make_mut(&mut other.identity).key.clone_from(&claim(1).identity.key);
    let answer = claimed(&*store, &other).await;
    assert_fails(answer, StoreErrorKind::Other, "claim", "a claim of the same key text");
    assert_eq!(store.read(&[id(2)]).await.expect("read"), [None]);
    granted(&*store, &claim(3)).await;
}

/// Twenty stores that find no schema bring it up to date at once.
///
/// # Panics
///
/// If one of them fails.
pub async fn twenty_stores_migrate_an_empty_place_at_once(place: &dyn Sql) {
    let mut stores = Vec::new();
    for _ in 0..20 {
        stores.push(place.open().await);
    }
    let migrations: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = Arc::clone(store);
            tokio::spawn(async move { store.migrate().await })
        })
        .collect();
    for migration in migrations {
        migration.await.expect("no panic").expect("it migrates");
    }
    for (n, store) in (1..).zip(&stores) {
        store.check_schema().await.expect("the schema is whole");
        granted(&**store, &claim(n)).await;
    }
}

/// A place without tables, or with one that lacks a column, is a matter of the schema, for every call.
///
/// # Panics
///
/// If it is not so.
pub async fn missing_schema_is_told(place: &dyn Sql) {
    let store = place.open().await;
    assert_fails(store.check_schema().await, StoreErrorKind::Schema, "migrations", "check");
    assert_fails(claimed(&*store, &claim(1)).await, StoreErrorKind::Schema, "", "claim");
    assert_fails(store.read(&[id(1)]).await, StoreErrorKind::Schema, "", "read");
    store.migrate().await.expect("it migrates");
    place.execute("ALTER TABLE idempotent_step DROP COLUMN alive_until").await;
    assert_fails(store.check_schema().await, StoreErrorKind::Schema, "alive_until", "check");
    place.execute("DROP TABLE idempotent_step").await;
    assert_fails(store.check_schema().await, StoreErrorKind::Schema, "idempotent_step", "check");
    assert_fails(store.journals(&[id(1)]).await, StoreErrorKind::Schema, "", "journals");
    place.execute("ALTER TABLE idempotent_execution DROP COLUMN crashes_max").await;
    assert_fails(store.check_schema().await, StoreErrorKind::Schema, "crashes_max", "check");
}

/// A newer schema is refused only if it says that this binary cannot read it, so a deploy can be rolled back.
///
/// # Panics
///
/// If it is not so.
pub async fn newer_schema_is_refused_only_if_it_says_so(place: &dyn Sql) {
    let store = migrated(place).await;
    place.execute("UPDATE idempotent_schema SET version = 99").await;
    store.check_schema().await.expect("a schema that only added is read");
    store.migrate().await.expect("and not touched");
    granted(&*store, &claim(1)).await;
    place.execute("UPDATE idempotent_schema SET readable_by = 99").await;
    assert_fails(store.check_schema().await, StoreErrorKind::Schema, "99", "check");
    assert_fails(store.migrate().await, StoreErrorKind::Schema, "99", "migrate");
    assert_fails(place.open().await.migrate().await, StoreErrorKind::Schema, "99", "migrate");
}
