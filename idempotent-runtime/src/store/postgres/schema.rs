//! The tables, and the steps that make them.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};

use super::error::{Failure, at};
use super::queries::outbox;
use super::runner::{Db, Operation, Runner, begin};
use crate::store::sql::{
    EXECUTION, MESSAGE, Migration, Names, RECORD, STEP, Stored, check_columns, judge,
};
use crate::store::{StoreError, StoreErrorKind};

/// Processes that start at once migrate one after the other; released by the end of the transaction.
const LOCK: i64 = 0x1de3_907e_0000_0001;
/// A migration may wait for the others, and for an index.
const LIMITS: [(&str, &str); 2] = [("lock_timeout", "60s"), ("statement_timeout", "10min")];

/// All steps, the oldest first.
pub(super) fn migrations(names: &Names) -> Vec<Migration> {
    let Names { execution, step, created_at_index, .. } = names;
    vec![Migration {
        version: 1,
        readable_by: 1,
        statements: vec![
            format!(
                "CREATE TABLE IF NOT EXISTS {execution} (
  id uuid PRIMARY KEY,
  namespace text NOT NULL,
  tenant text NOT NULL,
  handler text NOT NULL,
  key text,
  version bigint NOT NULL,
  state smallint NOT NULL CHECK (state BETWEEN 1 AND 5),
  owner uuid NOT NULL,
  token bigint NOT NULL,
  lease_until timestamptz NOT NULL,
  attempt_started_at timestamptz NOT NULL,
  alive_until timestamptz NOT NULL,
  not_before timestamptz,
  attempts bigint NOT NULL,
  crashes bigint NOT NULL,
  generation bigint NOT NULL DEFAULT 0,
  open_steps bigint NOT NULL DEFAULT 0,
  blind_steps bigint NOT NULL DEFAULT 0,
  lease_ms bigint NOT NULL,
  max_runtime_ms bigint NOT NULL,
  crashes_max bigint NOT NULL,
  retain_ms bigint NOT NULL,
  fingerprint bytea,
  result bytea,
  result_format smallint,
  reason text,
  args bytea,
  created_at timestamptz NOT NULL,
  done_at timestamptz
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02)"
            ),
            // The only one: an index on state, lease or end would cost every completion its HOT update.
            format!("CREATE INDEX IF NOT EXISTS {created_at_index} ON {execution} (created_at)"),
            // No foreign key: each entry would lock the execution's row, and heartbeats make that costly.
            format!(
                "CREATE TABLE IF NOT EXISTS {step} (
  id uuid NOT NULL,
  step text COLLATE \"C\" NOT NULL,
  part text COLLATE \"C\" NOT NULL,
  class smallint NOT NULL CHECK (class BETWEEN 1 AND 4),
  reconciles boolean NOT NULL,
  state smallint NOT NULL CHECK (state BETWEEN 1 AND 3),
  generation bigint NOT NULL,
  version bigint NOT NULL,
  owner uuid NOT NULL,
  started_at timestamptz NOT NULL,
  alive_until timestamptz NOT NULL,
  value bytea,
  done_at timestamptz,
  PRIMARY KEY (id, step, part)
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02)"
            ),
        ]
        .into_iter()
        .chain(outbox::tables(names))
        .collect(),
    }]
}

fn version_table(names: &Names) -> Vec<String> {
    let table = format!(
        "CREATE TABLE IF NOT EXISTS {} (
  one smallint PRIMARY KEY CHECK (one = 1),
  version bigint NOT NULL,
  readable_by bigint NOT NULL
)",
        names.schema_version
    );
    let schema = names.namespace.as_ref();
    schema
        .map(|schema| format!("CREATE SCHEMA IF NOT EXISTS {schema}"))
        .into_iter()
        .chain([table])
        .collect()
}

/// Notes a version, and never an older one than is there.
fn note(names: &Names, step: &Migration) -> String {
    format!(
        "INSERT INTO {0} AS noted (one, version, readable_by) VALUES (1, {1}, {2})
ON CONFLICT (one) DO UPDATE SET version = excluded.version, readable_by = excluded.readable_by
WHERE noted.version < excluded.version",
        names.schema_version, step.version, step.readable_by
    )
}

/// Everything as one script.
pub(super) fn script(names: &Names) -> String {
    let mut statements = vec!["BEGIN".to_owned(), format!("SELECT pg_advisory_xact_lock({LOCK})")];
    statements.extend(version_table(names));
    for step in migrations(names) {
        let noted = note(names, &step);
        statements.extend(step.statements);
        statements.push(noted);
    }
    statements.push("COMMIT".to_owned());
    statements.join(";\n") + ";\n"
}

/// [`Store::migrate`](crate::store::Store::migrate).
pub(super) async fn migrate(runner: &Runner) -> Result<(), StoreError> {
    // A role without DDL may start, if another one has migrated.
    match runner.run(&Check).await {
        Err(error) if error.kind() == StoreErrorKind::Schema => {}
        done => return done,
    }
    let mut lease = runner.lease().await?;
    let connection = lease.connection()?;
    begin(connection, &LIMITS).await?;
    // On an error the connection is closed, which rolls back.
    steps(connection, &runner.queries().names).await?;
    run(connection, "COMMIT".to_owned()).await?;
    lease.is_idle = true;
    drop(lease);
    runner.run(&Check).await
}

async fn steps(connection: &mut PgConnection, names: &Names) -> Result<(), Failure> {
    run(connection, format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
    for statement in version_table(names) {
        run(connection, statement).await?;
    }
    let stored = stored(connection, names).await?;
    for step in migrations(names) {
        if stored.is_some_and(|stored| stored.version >= step.version) {
            continue;
        }
        let noted = note(names, &step);
        for statement in step.statements.into_iter().chain([noted]) {
            run(connection, statement).await?;
        }
    }
    Ok(())
}

async fn run(connection: &mut PgConnection, statement: String) -> Result<(), Failure> {
    let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await;
    done.map(drop).map_err(at("to migrate"))
}

/// [`Store::check_schema`](crate::store::Store::check_schema).
pub(super) struct Check;

impl Operation for Check {
    type Answer = ();

    async fn apply(&self, db: &mut Db<'_>) -> Result<(), Failure> {
        let names = &db.queries.names;
        judge(stored(db.connection, names).await?, &names.schema_version.replace('"', ""))?;
        let found = columns(db.connection, &names.execution).await?;
        check_columns(&names.execution, &found, RECORD.iter().chain(EXECUTION))?;
        let found = columns(db.connection, &names.step).await?;
        check_columns(&names.step, &found, STEP.iter())?;
        let found = columns(db.connection, &names.outbox).await?;
        check_columns(&names.outbox, &found, MESSAGE.iter())?;
        Ok(())
    }
}

/// The columns of a table, and none if it is not there.
async fn columns(connection: &mut PgConnection, table: &str) -> Result<Vec<String>, Failure> {
    sqlx::query_scalar(
        "SELECT attname::text FROM pg_attribute
         WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
    )
    .bind(table)
    .persistent(false)
    .fetch_all(connection)
    .await
    .map_err(at("to check the schema"))
}

async fn stored(connection: &mut PgConnection, names: &Names) -> Result<Option<Stored>, Failure> {
    let table = &names.schema_version;
    if columns(connection, table).await?.is_empty() {
        return Ok(None);
    }
    let select = format!("SELECT version, readable_by FROM {table}");
    let row = sqlx::query(AssertSqlSafe(select))
        .persistent(false)
        .fetch_optional(connection)
        .await
        .map_err(at("to check the schema"))?;
    let Some(row) = row else { return Ok(None) };
    let read = |column| row.try_get::<i64, _>(column).map_err(at("to check the schema"));
    Ok(Some(Stored { version: read("version")?, readable_by: read("readable_by")? }))
}
