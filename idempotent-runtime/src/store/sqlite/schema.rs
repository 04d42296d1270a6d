//! The tables, and the steps that make them.

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::error::failed;
use super::queries::{Queries, outbox};
use super::runner::{Db, Operation};
use crate::store::StoreError;
use crate::store::sql::{
    EXECUTION, MESSAGE, Migration, Names, RECORD, STEP, Stored, check_columns, judge,
};

/// All steps, the oldest first.
pub(super) fn migrations(names: &Names) -> Vec<Migration> {
    let Names { execution, step, created_at_index, .. } = names;
    vec![Migration {
        version: 1,
        readable_by: 1,
        statements: vec![
            format!(
                "CREATE TABLE IF NOT EXISTS {execution} (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  namespace TEXT NOT NULL,
  tenant TEXT NOT NULL,
  handler TEXT NOT NULL,
  key TEXT,
  version INTEGER NOT NULL,
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
  owner BLOB NOT NULL,
  token INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  attempt_started_at INTEGER NOT NULL,
  alive_until INTEGER NOT NULL,
  not_before INTEGER,
  attempts INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  generation INTEGER NOT NULL DEFAULT 0,
  open_steps INTEGER NOT NULL DEFAULT 0,
  blind_steps INTEGER NOT NULL DEFAULT 0,
  lease_ms INTEGER NOT NULL,
  max_runtime_ms INTEGER NOT NULL,
  crashes_max INTEGER NOT NULL,
  retain_ms INTEGER NOT NULL,
  fingerprint BLOB,
  result BLOB,
  result_format INTEGER,
  reason TEXT,
  args BLOB,
  created_at INTEGER NOT NULL,
  done_at INTEGER
) STRICT"
            ),
            format!("CREATE INDEX IF NOT EXISTS {created_at_index} ON {execution} (created_at)"),
            // One tree, in the order of the names: a step that is recorded writes one page, a journal is read in a row.
            format!(
                "CREATE TABLE IF NOT EXISTS {step} (
  id BLOB NOT NULL CHECK (length(id) = 16),
  step TEXT NOT NULL,
  part TEXT NOT NULL,
  class INTEGER NOT NULL CHECK (class BETWEEN 1 AND 4),
  reconciles INTEGER NOT NULL CHECK (reconciles IN (0, 1)),
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 3),
  generation INTEGER NOT NULL,
  version INTEGER NOT NULL,
  owner BLOB NOT NULL,
  started_at INTEGER NOT NULL,
  alive_until INTEGER NOT NULL,
  value BLOB,
  done_at INTEGER,
  PRIMARY KEY (id, step, part)
) STRICT, WITHOUT ROWID"
            ),
        ]
        .into_iter()
        .chain(outbox::tables(names))
        .collect(),
    }]
}

fn version_table(names: &Names) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL,
  readable_by INTEGER NOT NULL
) STRICT",
        names.schema_version
    )
}

/// Notes a version, and never an older one than is there.
fn note(names: &Names, step: &Migration) -> String {
    format!(
        "INSERT INTO {0} (one, version, readable_by) VALUES (1, {1}, {2})
ON CONFLICT (one) DO UPDATE SET version = excluded.version, readable_by = excluded.readable_by
WHERE {0}.version < excluded.version",
        names.schema_version, step.version, step.readable_by
    )
}

/// Everything as one script.
pub(super) fn script(names: &Names) -> String {
    let mut script = format!("BEGIN IMMEDIATE;\n{};\n", version_table(names));
    for step in migrations(names) {
        for statement in &step.statements {
            script.push_str(statement);
            script.push_str(";\n");
        }
        script.push_str(&note(names, &step));
        script.push_str(";\n");
    }
    script.push_str("COMMIT;\n");
    script
}

/// [`Store::migrate`](crate::store::Store::migrate).
pub(super) struct Migrate;

impl Operation for Migrate {
    type Answer = ();

    fn is_single(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<(), StoreError> {
        let names = &db.queries.names;
        let run = async |connection: &mut SqliteConnection, statement: String| {
            let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await;
            done.map(drop).map_err(|error| failed("to migrate", error))
        };
        run(db.connection, version_table(names)).await?;
        let stored = stored(db.connection, db.queries).await?;
        for step in migrations(names) {
            if stored.is_some_and(|stored| stored.version >= step.version) {
                continue;
            }
            for statement in &step.statements {
                run(db.connection, statement.clone()).await?;
            }
            run(db.connection, note(names, &step)).await?;
        }
        check(db.connection, db.queries).await
    }
}

/// [`Store::check_schema`](crate::store::Store::check_schema).
pub(super) struct Check;

impl Operation for Check {
    type Answer = ();

    fn is_single(&self) -> bool {
        true
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<(), StoreError> {
        check(db.connection, db.queries).await
    }
}

/// Checks the version, and that the columns are there.
pub(super) async fn check(
    connection: &mut SqliteConnection,
    queries: &Queries,
) -> Result<(), StoreError> {
    judge(stored(connection, queries).await?, &queries.names.schema_version.replace('"', ""))?;
    let Names { execution, step, outbox, .. } = &queries.names;
    let found = columns(connection, &queries.table).await?;
    check_columns(execution, &found, RECORD.iter().chain(EXECUTION))?;
    let found = columns(connection, &step.replace('"', "")).await?;
    check_columns(step, &found, STEP.iter())?;
    let found = columns(connection, &outbox.replace('"', "")).await?;
    check_columns(outbox, &found, MESSAGE.iter())
}

async fn columns(
    connection: &mut SqliteConnection,
    table: &str,
) -> Result<Vec<String>, StoreError> {
    sqlx::query_scalar("SELECT name FROM pragma_table_info(?1)")
        .bind(table.to_owned())
        .fetch_all(connection)
        .await
        .map_err(|error| failed("to check the schema", error))
}

async fn stored(
    connection: &mut SqliteConnection,
    queries: &Queries,
) -> Result<Option<Stored>, StoreError> {
    let table = &queries.names.schema_version;
    if columns(connection, &table.replace('"', "")).await?.is_empty() {
        return Ok(None);
    }
    let select = format!("SELECT version, readable_by FROM {table}");
    let row: Option<(i64, i64)> = sqlx::query_as(AssertSqlSafe(select))
        .fetch_optional(connection)
        .await
        .map_err(|error| failed("to check the schema", error))?;
    Ok(row.map(|(version, readable_by)| Stored { version, readable_by }))
}
