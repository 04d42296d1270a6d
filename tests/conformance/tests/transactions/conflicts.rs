//! Transactions that lose to one another run again, and count once.

use std::sync::Arc;

use idempotent_runtime::{Runtime, idempotent};
use sqlx::Executor as _;
use tokio::sync::Barrier;

use crate::common::{BookError, Runs};
use crate::{Conn, Place};

/// What two handlers do to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clash {
    /// Each reads what the other then writes: found in a statement.
    Update,
    /// Each reads what the other then adds to: found at the completion or at the commit.
    Skew,
    /// Each waits for the row that the other has.
    Deadlock,
}

#[idempotent(key = "clash:{me}", runtime = runtime)]
async fn clash(
    #[context] runtime: &Runtime,
    me: String,
    #[context] how: Clash,
    #[context] both: Arc<Barrier>,
    #[context] runs: Runs,
    #[transaction] tx: &mut Conn,
) -> Result<u32, BookError> {
    let run = runs.note();
    if how != Clash::Deadlock {
        tx.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").await?;
    }
    let add = "UPDATE account SET amount = amount + 1 WHERE name = $1";
    match how {
        Clash::Update => {
            tx.execute("SELECT amount FROM account WHERE name = 'a'").await?;
            meet(run, &both).await;
            sqlx::query(add).bind("a").execute(&mut *tx).await?;
        }
        Clash::Skew => {
            tx.execute("SELECT count(*) FROM ledger").await?;
            meet(run, &both).await;
        }
        Clash::Deadlock => {
            let other = if me == "a" { "b" } else { "a" };
            sqlx::query(add).bind(&me).execute(&mut *tx).await?;
            meet(run, &both).await;
            sqlx::query(add).bind(other).execute(&mut *tx).await?;
        }
    }
    sqlx::query("INSERT INTO ledger (line) VALUES ($1)").bind(&me).execute(tx).await?;
    Ok(run)
}

/// Both are so far, in their first run; the second one is alone.
async fn meet(run: u32, both: &Barrier) {
    if run == 1 {
        both.wait().await;
    }
}

async fn both_count_once(how: Clash) -> i64 {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let both = Arc::new(Barrier::new(2));
    let runs = [Runs::default(), Runs::default()];
    let call = |me: &str, runs: &Runs| {
        let (runtime, me, both, runs) =
            (runtime.clone(), me.to_owned(), Arc::clone(&both), runs.clone());
        tokio::spawn(async move { clash(&runtime, me, how, both, runs).await })
    };
    let (a, b) = tokio::join!(call("a", &runs[0]), call("b", &runs[1]));
    a.unwrap().unwrap();
    b.unwrap().unwrap();
    let (a, b) = (runs[0].count(), runs[1].count());
    assert!(a + b >= 3, "{how:?}: they met without a conflict: {a} and {b} runs");
    assert_eq!(place.lines().await, ["a", "b"]);
    let states: Vec<i64> = sqlx::query_scalar("SELECT state::int8 FROM idempotent_execution")
        .fetch_all(place.pool())
        .await
        .unwrap();
    assert_eq!(states, [3, 3]);
    let sum = "SELECT sum(amount)::int8 FROM account";
    sqlx::query_scalar(sum).fetch_one(place.pool()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serialization_failure_in_a_statement() {
    assert_eq!(both_count_once(Clash::Update).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serialization_failure_behind_the_body() {
    assert_eq!(both_count_once(Clash::Skew).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock() {
    assert_eq!(both_count_once(Clash::Deadlock).await, 4);
}
