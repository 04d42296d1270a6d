//! What only this store has; the contract itself is the conformance suite's.

mod bounds;

use std::path::PathBuf;
use std::slice;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::*;
use crate::clock::Clock;
use crate::protocol::{
    Granted, Identity, Limits, Micros, Owner, ReleaseTo, State, StepClass, StepFound, StepName,
    StoredResult, Target, Token,
};

#[derive(Debug)]
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// A folder that is removed at the end, and a clock that is moved by hand.
struct Bench {
    folder: PathBuf,
    clock: Arc<Hand>,
}

impl Bench {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("idempotent-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        Self { folder, clock: Arc::new(Hand(AtomicI64::new(1_000_000))) }
    }

    fn url(&self) -> String {
        format!("sqlite:{}/store.db", self.folder.display())
    }

    fn options(&self) -> ConnectOptions {
        ConnectOptions::new(self.url(), Arc::<Hand>::clone(&self.clock) as Arc<dyn Clock>)
    }

    async fn open(&self) -> Sqlite {
        let store = Sqlite::open(&self.options()).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    async fn raw(&self, statement: &str) -> Result<(), sqlx::Error> {
        let mut connection = SqliteConnection::connect(&self.url()).await?;
        let statement = AssertSqlSafe(statement.to_owned());
        sqlx::raw_sql(statement).execute(&mut connection).await?;
        connection.close().await
    }

    fn pass_ms(&self, ms: i64) {
        self.clock.0.fetch_add(ms * 1_000, Ordering::SeqCst);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn limits() -> Limits {
    Limits { lease_ms: 1_000, max_runtime_ms: 10_000, crashes_max: 2, retain_ms: 60_000 }
}

fn claim(id: u8, owner: u8) -> Claim {
    Claim {
        id: ExecutionId([id; 16]),
        identity: Identity {
            namespace: "payments".to_owned(),
            tenant: String::new(),
            handler: "charge".to_owned(),
            key: Some("charge:1".to_owned()),
        }
        .into(),
        owner: Owner([owner; 16]),
        version: 1,
        limits: limits(),
        fingerprint: Some(vec![1, 2]),
        issued_at: None,
    }
}

fn completion(id: u8, owner: u8, token: Token) -> Completion {
    Completion {
        id: ExecutionId([id; 16]),
        owner: Owner([owner; 16]),
        token,
        failed: false,
        result: StoredResult::Json(b"\"\\u0000\"".to_vec()),
        messages: Vec::new(),
    }
}

async fn granted(store: &Sqlite, claim: &Claim) -> Granted {
    let answers = store.claim(slice::from_ref(claim)).await.unwrap();
    let [Claimed::Granted(granted)] = answers[..] else { panic!("{answers:?}") };
    granted
}

#[tokio::test]
async fn a_claim_is_granted_once_and_its_result_is_found() {
    let bench = Bench::new();
    let store = bench.open().await;
    let first = granted(&store, &claim(1, 1)).await;
    let expected = Granted { token: Token(1_000_000), attempts: 1, crashes: 0, generation: 0 };
    assert_eq!(first, expected);
    let done = completion(1, 1, first.token);
    assert_eq!(store.complete(slice::from_ref(&done)).await.unwrap(), [Written::Done]);
    assert_eq!(store.complete(slice::from_ref(&done)).await.unwrap(), [Written::Done]);
    let answers = store.claim(&[claim(1, 2), claim(2, 2)]).await.unwrap();
    let [Claimed::Found(seen), Claimed::Granted(_)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(seen.record.state, State::Completed);
    assert_eq!(seen.record.result, Some(done.result));
    assert_eq!(seen.record.fingerprint.as_deref(), Some(&[1, 2][..]));
}

#[tokio::test]
async fn a_zombie_is_fenced_off() {
    let bench = Bench::new();
    let store = bench.open().await;
    let first = granted(&store, &claim(1, 1)).await;
    bench.pass_ms(1_001);
    let takeover = TakeOver {
        id: ExecutionId([1; 16]),
        seen: first.token,
        owner: Owner([2; 16]),
        version: 1,
        limits: limits(),
        target: Target::Run,
    };
    let taken = store.take_over(slice::from_ref(&takeover)).await.unwrap();
    let [TakenOver::Granted { granted: second, .. }] = taken[..] else { panic!("{taken:?}") };
    assert_eq!((second.attempts, second.crashes), (2, 1));
    assert!(second.token > first.token);
    assert_eq!(store.take_over(&[takeover]).await.unwrap(), taken);
    assert_eq!(store.complete(&[completion(1, 1, first.token)]).await.unwrap(), [Written::Fenced]);
    let release = Release {
        id: ExecutionId([1; 16]),
        owner: Owner([1; 16]),
        token: first.token,
        to: ReleaseTo::Crash,
        reason: "late".to_owned(),
    };
    assert_eq!(store.release(&[release]).await.unwrap(), [Written::Fenced]);
    let renewal = Renewal { id: ExecutionId([1; 16]), owner: Owner([1; 16]), token: first.token };
    assert_eq!(store.renew(&[renewal]).await.unwrap(), [Renewed::Lost]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stores_of_one_file_migrate_and_claim_at_once() {
    let bench = Bench::new();
    let mut tasks = tokio::task::JoinSet::new();
    for opener in 0..20 {
        let options = bench.options();
        tasks.spawn(async move {
            let store = Sqlite::open(&options).await?;
            store.migrate().await?;
            let mut won = 0;
            for id in 0..10 {
                let answers = store.claim(&[claim(id, opener)]).await?;
                won += usize::from(matches!(answers[..], [Claimed::Granted(_)]));
            }
            store.close().await;
            Ok::<usize, StoreError>(won)
        });
    }
    let won = tasks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(won.iter().sum::<usize>(), 10, "{won:?}");
}

#[tokio::test]
async fn requests_that_share_a_transaction_fail_alone() {
    let bench = Bench::new();
    let store = bench.open().await;
    granted(&store, &claim(1, 1)).await;
    bench
        .raw(
            "CREATE TRIGGER refuse BEFORE INSERT ON idempotent_execution
             WHEN NEW.id = x'07070707070707070707070707070707' BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .await
        .unwrap();
    let answers = futures(&store, (2..12).map(|id| claim(id, 1))).await;
    for (id, answer) in (2..12).zip(answers) {
        match answer {
            Ok(answer) => assert!(matches!(answer[..], [Claimed::Granted(_)]), "{id}"),
            Err(error) => {
                assert_eq!((id, error.kind()), (7, StoreErrorKind::Other), "{error}");
            }
        }
    }
}

/// Sends all claims before the first is answered.
async fn futures(
    store: &Sqlite,
    claims: impl Iterator<Item = Claim>,
) -> Vec<Result<Vec<Claimed>, StoreError>> {
    let shared = &store.shared;
    let mut tasks = Vec::new();
    for claim in claims {
        let shared = Arc::clone(shared);
        tasks.push(tokio::spawn(async move { shared.writer.run(Items(vec![claim])).await }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

#[tokio::test]
async fn a_writer_waits_for_another_process_and_then_reads_the_clock() {
    let bench = Bench::new();
    let store = bench.open().await;
    let mut other = SqliteConnection::connect(&bench.url()).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let claim = claim(1, 1);
    let claims = [claim];
    let mut waiting = std::pin::pin!(store.claim(&claims));
    let timeout = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(timeout.is_err(), "{timeout:?}");
    bench.pass_ms(5_000);
    sqlx::query("COMMIT").execute(&mut other).await.unwrap();
    let answers = waiting.await.unwrap();
    let [Claimed::Granted(granted)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(granted.token, Token(6_000_000));
}

#[tokio::test]
async fn a_lock_that_is_never_released_is_busy() {
    let bench = Bench::new();
    bench.open().await.close().await;
    let mut options = bench.options();
    // Bounds the opening and the claim below, too: long enough for those on a busy machine.
    options.acquire_timeout = Duration::from_secs(1);
    let store = Sqlite::open(&options).await.unwrap();
    let mut other = SqliteConnection::connect(&bench.url()).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let error = store.claim(&[claim(1, 1)]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    granted(&store, &claim(1, 1)).await;
}

#[tokio::test]
async fn a_tampered_row_is_corrupt_and_named() {
    let bench = Bench::new();
    let store = bench.open().await;
    granted(&store, &claim(1, 1)).await;
    let cases = [
        (
            "state",
            "PRAGMA ignore_check_constraints = ON; UPDATE idempotent_execution SET state = 9",
        ),
        ("owner", "UPDATE idempotent_execution SET state = 1, owner = x'00'"),
        ("attempts", "UPDATE idempotent_execution SET owner = randomblob(16), attempts = -1"),
        ("retain_ms", "UPDATE idempotent_execution SET attempts = 1, retain_ms = -5"),
        ("result_format", "UPDATE idempotent_execution SET retain_ms = 5, state = 3"),
        ("result_format", "UPDATE idempotent_execution SET result_format = 7"),
        ("result", "UPDATE idempotent_execution SET done_at = 1, result_format = 1"),
        ("reason", "UPDATE idempotent_execution SET result_format = 0"),
        ("reason", "UPDATE idempotent_execution SET reason = CAST(x'ff' AS TEXT)"),
    ];
    for (column, statement) in cases {
        bench.raw(statement).await.unwrap();
        let error = store.claim(&[claim(1, 2)]).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{statement}: {error}");
        let place =
            format!("table idempotent_execution, row {}, column {column}:", ExecutionId([1; 16]));
        assert!(error.to_string().starts_with(&place), "{statement}: {error}");
    }
}

#[tokio::test]
async fn a_schema_is_refused_only_if_it_says_so() {
    let bench = Bench::new();
    let store = Sqlite::open(&bench.options()).await.unwrap();
    let missing = store.check_schema().await.unwrap_err();
    assert_eq!(missing.kind(), StoreErrorKind::Schema, "{missing}");
    let missing = store.claim(&[claim(1, 1)]).await.unwrap_err();
    assert_eq!(missing.kind(), StoreErrorKind::Schema, "{missing}");
    assert!(missing.to_string().contains("run the migrations"), "{missing}");
    bench.raw(&migrations_sql("idempotent_").unwrap()).await.unwrap();
    bench.raw(&migrations_sql("idempotent_").unwrap()).await.unwrap();
    store.check_schema().await.unwrap();
    bench.raw("UPDATE idempotent_schema SET version = 9, readable_by = 1").await.unwrap();
    store.migrate().await.unwrap();
    granted(&store, &claim(1, 1)).await;
    bench.raw("UPDATE idempotent_schema SET readable_by = 2").await.unwrap();
    let newer = store.migrate().await.unwrap_err();
    assert_eq!(newer.kind(), StoreErrorKind::Schema, "{newer}");
    bench.raw("UPDATE idempotent_schema SET readable_by = 1").await.unwrap();
    bench.raw("ALTER TABLE idempotent_execution DROP COLUMN lease_ms").await.unwrap();
    let lost = store.complete(&[completion(1, 1, Token(1))]).await;
    assert_eq!(lost.unwrap(), [Written::Fenced]);
    let lost = store.claim(&[claim(2, 1)]).await.unwrap_err();
    assert_eq!(lost.kind(), StoreErrorKind::Schema, "{lost}");
    assert!(lost.to_string().contains("lease_ms"), "{lost}");
}

#[tokio::test]
async fn files_that_cannot_be_opened_say_why() {
    let bench = Bench::new();
    let open = async |url: String| {
        let options = ConnectOptions { url, ..bench.options() };
        Sqlite::open(&options).await.unwrap_err()
    };
    for url in ["sqlite::memory:", "sqlite://:memory:", "sqlite:x?mode=memory", "sqlite:", "redis:"]
    {
        let error = open(url.to_owned()).await;
        assert_eq!(error.kind(), StoreErrorKind::Config, "{url}: {error}");
    }
    let error = open(format!("sqlite:{}/missing/store.db", bench.folder.display())).await;
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
    assert!(error.to_string().contains("missing/store.db"), "{error}");
    std::fs::write(
        bench.folder.join("text.db"),
        "not a database, but long enough to be read".repeat(99),
    )
    .unwrap();
    let error = open(format!("sqlite:{}/text.db", bench.folder.display())).await;
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
    bench.open().await.close().await;
    let error = open(format!("{}?mode=ro", bench.url())).await;
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
}

#[tokio::test]
async fn prefixes_are_identifiers() {
    let bench = Bench::new();
    let long = "x".repeat(49);
    for prefix in ["", "1a", "a b", "a\"b", "a;b", "ä", &long] {
        let options = ConnectOptions { table_prefix: prefix.to_owned(), ..bench.options() };
        let error = Sqlite::open(&options).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Config, "{prefix:?}: {error}");
        assert!(error.to_string().contains(&format!("{prefix:?}")), "{error}");
    }
    let options = ConnectOptions { table_prefix: "order".to_owned(), ..bench.options() };
    let store = Sqlite::open(&options).await.unwrap();
    store.migrate().await.unwrap();
    granted(&store, &claim(1, 1)).await;
}

#[tokio::test]
async fn calls_after_close_say_so() {
    let bench = Bench::new();
    let store = bench.open().await;
    let heartbeat = store.heartbeat_handle().await.unwrap();
    heartbeat.close().await;
    assert_eq!(heartbeat.renew(&[]).await.unwrap_err().kind(), StoreErrorKind::Closed);
    let first = granted(&store, &claim(1, 1)).await;
    store.close().await;
    store.close().await;
    for error in [
        store.claim(&[claim(1, 1)]).await.unwrap_err(),
        store.complete(&[completion(1, 1, first.token)]).await.unwrap_err(),
        store.read(&[ExecutionId([1; 16])]).await.unwrap_err(),
        store.purge(None, 1).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Closed, "{error}");
    }
}

#[tokio::test]
async fn every_commit_is_synced() {
    let bench = Bench::new();
    let file = connect::file(&bench.options()).unwrap();
    let mut connection = connect::writer(&file).await.unwrap();
    let synchronous: i64 =
        sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut connection).await.unwrap();
    assert_eq!(synchronous, 2);
}

#[tokio::test]
async fn a_takeover_whose_commit_fails_is_not_granted() {
    let bench = Bench::new();
    let store = bench.open().await;
    let Granted { token: seen, .. } = granted(&store, &claim(1, 1)).await;
    bench.pass_ms(1_001);
    // A foreign key that is checked at the commit only, as a disk that is full shows itself there.
    bench
        .raw(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (parent INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER orphan AFTER UPDATE ON idempotent_execution
             BEGIN INSERT INTO child VALUES (1); END",
        )
        .await
        .unwrap();
    let take_over = TakeOver {
        id: ExecutionId([1; 16]),
        seen,
        owner: Owner([2; 16]),
        version: 1,
        limits: limits(),
        target: Target::Run,
    };
    let taken = store.take_over(&[take_over]).await;
    let row = store.read(&[ExecutionId([1; 16])]).await.unwrap().remove(0).unwrap();
    assert_eq!(row.record.owner, Owner([1; 16]));
    assert!(taken.is_err(), "{taken:?}");
    store.close().await;
}

fn start(id: u8, owner: u8, token: Token) -> StepStart {
    StepStart {
        id: ExecutionId([id; 16]),
        owner: Owner([owner; 16]),
        token,
        name: StepName { step: "charge".to_owned(), part: String::new() },
        class: StepClass::AtMostOnce,
        reconciles: false,
        version: 1,
        generation: 0,
        seen: None,
    }
}

#[tokio::test]
async fn a_step_and_its_execution_are_written_both_or_neither() {
    let bench = Bench::new();
    let store = bench.open().await;
    let Granted { token, .. } = granted(&store, &claim(1, 1)).await;
    bench
        .raw(
            "CREATE TRIGGER refuse BEFORE UPDATE OF open_steps ON idempotent_execution
             BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .await
        .unwrap();
    let refused = store.start_steps(&[start(1, 1, token)]).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(store.journals(&[ExecutionId([1; 16])]).await.unwrap(), [[]]);
    bench.raw("DROP TRIGGER refuse").await.unwrap();
    let started = store.start_steps(&[start(1, 1, token)]).await.unwrap();
    assert!(matches!(started[..], [StepStarted::Started { .. }]), "{started:?}");
    let row = store.read(&[ExecutionId([1; 16])]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.open_steps, row.record.blind_steps), (1, 1));
}

#[tokio::test]
async fn a_step_whose_commit_fails_is_not_started() {
    let bench = Bench::new();
    let store = bench.open().await;
    let Granted { token, .. } = granted(&store, &claim(1, 1)).await;
    bench
        .raw(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (parent INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER orphan AFTER INSERT ON idempotent_step
             BEGIN INSERT INTO child VALUES (1); END",
        )
        .await
        .unwrap();
    let started = store.start_steps(&[start(1, 1, token)]).await;
    assert!(started.is_err(), "{started:?}");
    let record = StepRecord {
        id: ExecutionId([1; 16]),
        owner: Owner([1; 16]),
        token,
        name: StepName { step: "reserve".to_owned(), part: String::new() },
        class: StepClass::Plain,
        version: 1,
        generation: 0,
        found: StepFound::Happened(b"1".to_vec()),
        earliest: Micros(0),
    };
    let recorded = store.record_steps(&[record]).await;
    assert!(recorded.is_err(), "{recorded:?}");
    assert_eq!(store.journals(&[ExecutionId([1; 16])]).await.unwrap(), [[]]);
    let row = store.read(&[ExecutionId([1; 16])]).await.unwrap().remove(0).unwrap();
    assert_eq!(row.record.open_steps, 0);
    store.close().await;
}

#[tokio::test]
async fn steps_are_found_and_ordered_by_their_key() {
    let bench = Bench::new();
    let store = bench.open().await;
    let mut connection = SqliteConnection::connect(&bench.url()).await.unwrap();
    let Queries { journal, step, record_step, write_step, purge_steps, .. } =
        &*store.shared.queries;
    for statement in [journal, step, record_step, write_step, purge_steps] {
        let statement = statement.text();
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(explain).fetch_all(&mut connection).await.unwrap();
        let plan: Vec<_> = plan.into_iter().map(|(.., text)| text).collect();
        let bad = |line: &String| line.contains("SCAN") || line.contains("TEMP B-TREE");
        assert!(!plan.iter().any(bad), "{statement}: {plan:?}");
    }
}
