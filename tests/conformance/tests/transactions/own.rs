//! Bodies that write and complete in a transaction of their own. Written once; `Conn` and `Place` are those of the
//! test's root.

use std::sync::Arc;
use std::time::Duration;

use idempotent_conformance::sql::query;
use idempotent_runtime::protocol::State;
use idempotent_runtime::{
    Answer, Completion, Error, Execution, Runtime, idempotent, observe, outbox,
};
use sqlx::Executor as _;

use crate::common::{BookError, Runs, ours};
use crate::{Conn, Place};

/// What a body does besides writing a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Commit,
    RollBack,
    RollBackAndFail,
    CommitAndFail,
    CommitAndPanic,
    /// Returns another value than the committed one.
    CommitAnother,
    /// The execution becomes another attempt's.
    Lose,
    /// Returns while the transaction is open, which then ends like this.
    Leave(&'static str),
}

#[idempotent(key = "own:{line}", name = "own", runtime = runtime, fingerprint = none)]
async fn own(
    #[context] runtime: &Runtime,
    line: String,
    #[context] place: Arc<Place>,
    #[context] then: Then,
    #[context] runs: Runs,
) -> Result<u32, BookError> {
    let run = runs.note();
    outbox::send("topic", &line)?;
    let mut conn = place.own().await;
    if then == Then::Lose {
        place.pool().execute("UPDATE idempotent_execution SET token = token + 1").await?;
    }
    conn.execute("BEGIN").await?;
    write(&mut conn, &line).await?;
    let completion = Execution::current().completion(&run)?;
    complete(&mut conn, &completion).await?;
    match then {
        Then::RollBack | Then::RollBackAndFail => conn.execute("ROLLBACK").await?,
        Then::Leave(end) => {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                conn.execute(end).await.unwrap();
            });
            return Ok(run);
        }
        Then::Commit
        | Then::CommitAndFail
        | Then::CommitAndPanic
        | Then::CommitAnother
        | Then::Lose => conn.execute("COMMIT").await?,
    };
    match then {
        Then::CommitAndFail | Then::RollBackAndFail => Err(BookError::Unlucky),
        Then::CommitAndPanic => panic!("planned"),
        Then::CommitAnother => Ok(run + 100),
        Then::Commit | Then::RollBack | Then::Lose | Then::Leave(_) => Ok(run),
    }
}

pub(crate) async fn write(conn: &mut Conn, line: &str) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO ledger (line) VALUES ($1)").bind(line);
    insert.execute(conn).await.map(drop)
}

/// Runs a completion, up to the first statement that affects no row.
pub(crate) async fn complete(conn: &mut Conn, completion: &Completion) -> Result<(), BookError> {
    for statement in completion.statements() {
        let done = query(statement).execute(&mut *conn).await?;
        completion.check(done.rows_affected())?;
    }
    Ok(())
}

struct Scene {
    place: Arc<Place>,
    runtime: Runtime,
    runs: Runs,
}

impl Scene {
    async fn fresh() -> Self {
        let place = Arc::new(Place::fresh().await);
        let runtime = place.runtime().await;
        Self { place, runtime, runs: Runs::default() }
    }

    async fn call(&self, then: Then) -> Result<u32, BookError> {
        let (place, runs) = (Arc::clone(&self.place), self.runs.clone());
        own(&self.runtime, "a".to_owned(), place, then, runs).await
    }

    async fn messages(&self) -> i64 {
        let count = "SELECT count(*) FROM idempotent_outbox";
        sqlx::query_scalar(count).fetch_one(self.place.pool()).await.unwrap()
    }

    /// How often there is an effect, a message and a run, in a completed execution.
    async fn is_completed_with(&self, lines: usize, runs: u32) {
        assert_eq!(self.place.lines().await.len(), lines);
        assert_eq!(self.messages().await, 1);
        assert_eq!(self.runs.count(), runs);
        assert_eq!(self.place.execution().await, (State::Completed, 0));
    }

    async fn replays(&self, value: u32) {
        let again = observe(self.call(Then::Commit)).await;
        assert_eq!((again.output.unwrap(), again.answer), (value, Some(Answer::Replayed)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_calls_of_two_processes_have_one_effect() {
    let scene = Scene::fresh().await;
    let runtimes = [scene.runtime.clone(), scene.place.runtime().await];
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (runtime, place) = (runtimes[n % 2].clone(), Arc::clone(&scene.place));
        let runs = scene.runs.clone();
        calls.spawn(async move {
            loop {
                let (place, runs) = (Arc::clone(&place), runs.clone());
                match own(&runtime, "a".to_owned(), place, Then::Commit, runs).await {
                    Err(BookError::Idempotent(Error::InFlight { .. })) => {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    answer => return answer.unwrap(),
                }
            }
        });
    }
    assert_eq!(calls.join_all().await, [1; 8]);
    scene.is_completed_with(1, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_back_is_completed_without_the_writes() {
    let scene = Scene::fresh().await;
    assert_eq!(scene.call(Then::RollBack).await.unwrap(), 1);
    scene.is_completed_with(0, 1).await;
    scene.replays(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_back_and_failed_runs_again() {
    let scene = Scene::fresh().await;
    let failed = scene.call(Then::RollBackAndFail).await;
    assert!(matches!(failed, Err(BookError::Unlucky)), "{failed:?}");
    assert_eq!((scene.place.lines().await.len(), scene.messages().await), (0, 0));
    assert_eq!(scene.call(Then::Commit).await.unwrap(), 2);
    scene.is_completed_with(1, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_rules_over_the_end_of_the_body() {
    for then in [Then::CommitAndFail, Then::CommitAnother, Then::CommitAndPanic] {
        let scene = Arc::new(Scene::fresh().await);
        let calling = Arc::clone(&scene);
        let called = tokio::spawn(async move { calling.call(then).await }).await;
        match called {
            Err(panicked) => assert!(panicked.is_panic() && then == Then::CommitAndPanic),
            Ok(answer) => assert_eq!(answer.unwrap(), 1, "{then:?}"),
        }
        scene.is_completed_with(1, 1).await;
        scene.replays(1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_rolls_back() {
    let scene = Scene::fresh().await;
    let error = ours(scene.call(Then::Lose).await);
    assert!(matches!(error, Error::CompletionFenced), "{error}");
    assert_eq!((scene.place.lines().await.len(), scene.messages().await), (0, 0));
    assert_eq!(scene.place.execution().await, (State::Running, 0));
}

/// The ordinary completion waits for it, and then knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_left_open_is_waited_for() {
    for (end, lines) in [("COMMIT", 1), ("ROLLBACK", 0)] {
        let scene = Scene::fresh().await;
        assert_eq!(scene.call(Then::Leave(end)).await.unwrap(), 1, "{end}");
        scene.is_completed_with(lines, 1).await;
        scene.replays(1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prefix_of_the_tables_is_theirs() {
    let place = Arc::new(Place::fresh().await);
    let runtime = place.builder().table_prefix("my_").connect().await.unwrap();
    let runs = Runs::default();
    let line = "a".to_owned();
    let called = own(&runtime, line, Arc::clone(&place), Then::Commit, runs).await;
    assert_eq!(called.unwrap(), 1);
    assert_eq!(place.lines().await, ["a"]);
    let select = "SELECT count(*) FROM my_execution e, my_outbox o WHERE e.state = 3";
    let count: i64 = sqlx::query_scalar(select).fetch_one(place.pool()).await.unwrap();
    assert_eq!(count, 1);
}
