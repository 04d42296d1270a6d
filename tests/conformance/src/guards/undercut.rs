//! What SQLite's statements about steps would notice if the file's write lock were not held since the execution was
//! read: a statement between the two is rewritten into one that changes it.

use std::sync::Arc;

use idempotent_runtime::protocol::{Owner, StepClass, StepRecord, Token};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory;

use super::plans::sqlite as plans;
use super::{Fact, Mutated};
use crate::sql::{Sql, claim, granted, id, step_record, step_start};
use crate::sqlite::SqliteFactory;

type Place = Arc<Mutated<SqliteFactory>>;

/// What may become of the execution: the guards hold each of them apart.
const CHANGES: [&str; 4] = [
    "UPDATE idempotent_execution SET owner = zeroblob(16) WHERE id = ?1",
    "UPDATE idempotent_execution SET token = token + 1 WHERE id = ?1",
    "UPDATE idempotent_execution SET state = 2 WHERE id = ?1",
    "DELETE FROM idempotent_execution WHERE id = ?1",
];

/// All of them.
pub(crate) fn facts() -> Vec<Fact<SqliteFactory>> {
    let mut facts = vec![
        Fact::new("step_of_what_changed_under_the_lock_is_not_written", step),
        Fact::new("execution_that_changed_under_the_lock_is_not_written", execution),
        Fact::new("page_reads_no_further_than_it_says", no_further),
    ];
    facts.extend(plans::facts());
    facts
}

/// Two executions of one owner and token.
async fn twins(place: &Place) -> Token {
    place.place.execute(crate::sql::EMPTY).await;
    let store = place.open().await;
    for n in [1, 2] {
        let mut claim = claim(n);
        claim.owner = Owner([1; 16]);
        granted(&*store, &claim).await;
    }
    place.place.execute("UPDATE idempotent_execution SET token = 7").await;
    store.close().await;
    Token(7)
}

/// A store that finds no entry of a step, and whose executions have been changed when it has looked; with `unguarded`,
/// its entries are written all the same.
async fn undercut(place: &Place, change: &'static str, unguarded: bool) -> Arc<dyn Store> {
    let place = place.then(move |name, sql| match name {
        "step" => format!("{change} AND ?2 IS NOT NULL AND ?3 IS NOT NULL"),
        "write_step" if unguarded => {
            let guard = "e.id = ?1 AND e.owner = ?14 AND e.token = ?15 AND e.state = ?16";
            assert!(sql.contains(guard), "{sql}");
            sql.replace(guard, "?14 + ?15 + ?16 IS NOT NULL LIMIT 1")
        }
        _ => sql,
    });
    place.open().await
}

/// The store refuses a call, and leaves nothing of it.
async fn refuses<T>(
    place: &Place,
    change: &str,
    call: impl Future<Output = Result<T, idempotent_runtime::store::StoreError>>,
) {
    assert!(call.await.is_err(), "{change}");
    let store = place.open().await;
    assert_eq!(store.journals(&[id(1)]).await.expect("journals"), [[]], "{change}");
    store.close().await;
}

async fn step(place: Place) {
    for change in CHANGES {
        let token = twins(&place).await;
        let store = undercut(&place, change, false).await;
        // It was not started, so that it changes no counter.
        let record = StepRecord { class: StepClass::AtMostOnce, ..step_record(1, token) };
        refuses(&place, change, store.record_steps(&[record])).await;
        store.close().await;
    }
}

async fn execution(place: Place) {
    for change in CHANGES {
        let token = twins(&place).await;
        let store = undercut(&place, change, true).await;
        refuses(&place, change, store.start_steps(&[step_start(1, token)])).await;
        store.close().await;
    }
}

async fn no_further(place: Place) {
    let place = place.then(|name, sql| {
        let fails = ", abs(CASE WHEN id = x'05050505050505050505050505050505'
            THEN -9223372036854775807 - 1 ELSE 1 END) FROM";
        if name == "page" { sql.replace(" FROM", fails) } else { sql }
    });
    let store = place.open().await;
    for n in 1..=5 {
        granted(&*store, &claim(n)).await;
    }
    assert!(store.purge(None, 1).await.expect("purge").next.is_some());
    store.close().await;
}
