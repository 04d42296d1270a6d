//! Rows that another program changed: whatever a column holds, the store answers or says what is wrong, and never panics.

use std::sync::{Arc, LazyLock};

use idempotent_conformance::model::Place as _;
use idempotent_conformance::sql::{self, completion};
use idempotent_conformance::sqlite::SqliteFactory;
use idempotent_runtime::protocol::{
    Message, MessageClaim, MessageId, MessageListing, MessageState, Micros, Owner,
};
use idempotent_runtime::store::{Store, StoreError, StoreErrorKind};
use proptest::prelude::any;
use proptest::strategy::{BoxedStrategy, Just, Strategy as _, Union};
use sqlx::{AssertSqlSafe, SqlitePool};

use crate::{bytes, in_tests, soak, thousand};

/// One column of one row, and what is written there.
#[derive(Clone, Debug)]
struct Change {
    table: u8,
    column: u8,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    Null,
    Small(i8),
    Integer(i64),
    Float(u8),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

const TABLES: [&str; 3] = ["idempotent_execution", "idempotent_step", "idempotent_outbox"];

struct Bench {
    tokio: tokio::runtime::Runtime,
    place: SqliteFactory,
    store: Arc<dyn Store>,
    columns: [Vec<String>; 3],
}

static BENCH: LazyLock<Bench> = LazyLock::new(|| {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let tokio = tokio.expect("a tokio runtime starts");
    let (place, store, columns) = tokio.block_on(async {
        let place = SqliteFactory::fresh_in_memory();
        let store = place.empty_store().await;
        let mut columns = TABLES.map(|_| Vec::new());
        for (table, columns) in TABLES.iter().zip(&mut columns) {
            let names = format!("SELECT name FROM pragma_table_info('{table}')");
            let names = sqlx::query_scalar(AssertSqlSafe(names)).fetch_all(place.pool()).await;
            *columns = names.expect("the columns");
            assert!(columns.len() > 5, "{table}: {columns:?}");
        }
        (place, store, columns)
    });
    Bench { tokio, place, store, columns }
});

impl Change {
    fn any() -> BoxedStrategy<Self> {
        let value = Union::new([
            Just(Value::Null).boxed(),
            any::<i8>().prop_map(Value::Small).boxed(),
            any::<i64>().prop_map(Value::Integer).boxed(),
            any::<u8>().prop_map(Value::Float).boxed(),
            bytes("stored").prop_map(Value::Text).boxed(),
            bytes("stored").prop_map(Value::Blob).boxed(),
        ]);
        let change = (any::<u8>(), any::<u8>(), value);
        change.prop_map(|(table, column, value)| Self { table, column, value }).boxed()
    }

    /// Writes it; what the table's own constraints refuse is not written.
    async fn write(&self, pool: &SqlitePool, columns: &[Vec<String>; 3]) -> String {
        let table = usize::from(self.table) % 3;
        let column = &columns[table][usize::from(self.column) % columns[table].len()];
        let statement = format!("UPDATE {} SET {column} = ?1", TABLES[table]);
        let update = sqlx::query(AssertSqlSafe(statement.clone()));
        let update = match &self.value {
            Value::Null => update.bind(None::<i64>),
            Value::Small(number) => update.bind(i64::from(*number)),
            Value::Integer(number) => update.bind(*number),
            Value::Float(number) => update.bind(f64::from(*number) / 3.0),
            Value::Text(bytes) => update.bind(String::from_utf8_lossy(bytes).into_owned()),
            Value::Blob(bytes) => update.bind(bytes.clone()),
        };
        drop(update.execute(pool).await);
        statement
    }
}

/// A claimed execution with a recorded step, a completed one with a message.
async fn rows(store: &dyn Store) {
    let granted = sql::granted(store, &sql::claim(1)).await;
    let recorded = store.record_steps(&[sql::step_record(1, granted.token)]).await;
    recorded.expect("it records");
    let granted = sql::granted(store, &sql::claim(2)).await;
    let message = Message {
        id: MessageId([3; 16]),
        topic: "receipt".into(),
        ordering_key: Some("k".into()),
        headers: vec![("a".into(), "b".into())],
        body: b"{}".to_vec(),
        delay_ms: 0,
    };
    let completion = idempotent_runtime::protocol::Completion {
        messages: vec![message],
        ..completion(2, granted)
    };
    store.complete(&[completion]).await.expect("it completes");
}

/// Every call that reads a row.
async fn read(store: &dyn Store) -> Vec<StoreError> {
    let ids = [sql::id(1), sql::id(2)];
    let mut errors = Vec::new();
    let mut note = |error: Option<StoreError>| errors.extend(error);
    note(store.read(&ids).await.err());
    note(store.journals(&ids).await.err());
    for n in [1, 2] {
        let mut claim = sql::claim(n);
        claim.owner = Owner([9; 16]);
        note(store.claim(&[claim]).await.err());
    }
    let listing = MessageListing {
        namespace: sql::claim(2).identity.namespace.clone(),
        topic: None,
        state: MessageState::Pending,
        after: None,
        rows_max: 10,
    };
    note(store.messages().list_messages(&listing).await.err());
    let claim = MessageClaim {
        namespace: listing.namespace.clone(),
        topic: "receipt".into(),
        owner: Owner([8; 16]),
        lease_ms: 1_000,
        at_most_once: false,
        reconciles: false,
        rows_max: 10,
        since: Micros(0),
        again: true,
    };
    note(store.messages().claim_messages(&[claim]).await.err());
    note(store.reap(None, None, 10).await.err());
    note(store.purge(None, 10).await.err());
    errors
}

fn run(seed: u64) {
    thousand(seed, &Change::any(), |change| {
        let bench = &*BENCH;
        bench.tokio.block_on(async {
            bench.place.empty_store().await;
            rows(&*bench.store).await;
            let statement = change.write(bench.place.pool(), &bench.columns).await;
            for error in read(&*bench.store).await {
                assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{statement}: {error}");
                assert!(!error.to_string().is_empty(), "{statement}");
            }
        });
    });
}

#[test]
fn are_answered_or_corrupt() {
    in_tests("rows", run);
}

#[test]
#[ignore = "soak: a million inputs"]
fn a_million() {
    soak("fuzz-rows", run);
}
