//! Many finished executions in a table, as many months of calls leave them.

use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::machine;

/// Rows of one statement.
const CHUNK: u64 = 250_000;

/// When the executions were made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    /// The first of all.
    pub(crate) ago: Duration,
    /// One after the other.
    pub(crate) every: Duration,
}

/// A finished execution of the runtime, of which others are copied: all columns as they are, but for its id, its key and
/// its times.
pub(crate) struct Template {
    session: PgConnection,
    insert: String,
}

impl Template {
    /// Takes the newest execution in the table.
    pub(crate) async fn take(url: &str) -> Result<Self, Box<dyn Error>> {
        let mut session = PgConnection::connect(url).await?;
        let copy = "CREATE TEMPORARY TABLE template AS SELECT * FROM idempotent_execution
                    WHERE state = 3 ORDER BY created_at DESC LIMIT 1";
        let copied = sqlx::raw_sql(copy).execute(&mut session).await?.rows_affected();
        if copied != 1 {
            return Err("there is no finished execution to copy".into());
        }
        sqlx::raw_sql("SET synchronous_commit = off").execute(&mut session).await?;
        let columns = "SELECT attname::text, atttypid = 'timestamptz'::regtype FROM pg_attribute
                       WHERE attrelid = 'idempotent_execution'::regclass AND attnum > 0 AND NOT attisdropped
                       ORDER BY attnum";
        let columns: Vec<(String, bool)> = sqlx::query_as(columns).fetch_all(&mut session).await?;
        let values: Vec<String> = columns
            .iter()
            .map(|(column, is_time)| match (column.as_str(), is_time) {
                ("id" | "owner", _) => "gen_random_uuid()".to_owned(),
                ("key", _) => "'charge:' || lpad(n::text, 12, '0')".to_owned(),
                (time, true) => format!("{time} - make_interval(secs => $1 - $2 * n)"),
                (other, false) => other.to_owned(),
            })
            .collect();
        let columns: Vec<&str> = columns.iter().map(|(column, _)| column.as_str()).collect();
        let insert = format!(
            "INSERT INTO idempotent_execution ({}) SELECT {} FROM template, generate_series($3, $4) AS n",
            columns.join(", "),
            values.join(", ")
        );
        Ok(Self { session, insert })
    }

    /// Stores the executions of these numbers, and has the table looked after as it would have been in time.
    pub(crate) async fn fill(
        &mut self,
        numbers: Range<u64>,
        made: Made,
    ) -> Result<(), Box<dyn Error>> {
        let mut begin = numbers.start;
        while begin < numbers.end {
            let end = numbers.end.min(begin + CHUNK);
            let stored = sqlx::query(AssertSqlSafe(self.insert.as_str()))
                .bind(made.ago.as_secs_f64())
                .bind(made.every.as_secs_f64())
                .bind(i64::try_from(begin)?)
                .bind(i64::try_from(end - 1)?)
                .execute(&mut self.session)
                .await?;
            assert_eq!(stored.rows_affected(), end - begin);
            progress(end, numbers.end);
            begin = end;
        }
        for done in ["VACUUM (ANALYZE) idempotent_execution", "CHECKPOINT"] {
            sqlx::raw_sql(done).execute(&mut self.session).await?;
        }
        Ok(())
    }

    /// How many of these executions are there.
    pub(crate) async fn count(&mut self, older_than: Duration) -> Result<u64, Box<dyn Error>> {
        let count = "SELECT count(*) FROM idempotent_execution
                     WHERE created_at < now() - make_interval(secs => $1)";
        let older_than = older_than.as_secs_f64();
        let rows: i64 =
            sqlx::query_scalar(count).bind(older_than).fetch_one(&mut self.session).await?;
        Ok(u64::try_from(rows)?)
    }

    /// What the server has done so far: megabytes of log, checkpoints, vacuums of the table by itself.
    pub(crate) async fn chores(&mut self) -> Result<[u64; 3], Box<dyn Error>> {
        let done = "SELECT (SELECT wal_bytes / 1e6 FROM pg_stat_wal)::bigint,
                    (SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter)::bigint,
                    (SELECT autovacuum_count FROM pg_stat_all_tables
                     WHERE relid = 'idempotent_execution'::regclass)::bigint";
        let (log, checkpoints, vacuums): (i64, i64, i64) =
            sqlx::query_as(done).fetch_one(&mut self.session).await?;
        Ok([u64::try_from(log)?, u64::try_from(checkpoints)?, u64::try_from(vacuums)?])
    }

    /// What the table takes on disk with its indexes.
    pub(crate) async fn bytes(&mut self) -> Result<u64, Box<dyn Error>> {
        let size = "SELECT pg_total_relation_size('idempotent_execution')";
        let bytes: i64 = sqlx::query_scalar(size).fetch_one(&mut self.session).await?;
        Ok(u64::try_from(bytes)?)
    }

    pub(crate) async fn close(self) -> Result<(), sqlx::Error> {
        self.session.close().await
    }
}

/// Waits until the disk has done what was written, a minute at most: until then it makes everybody wait.
pub(crate) async fn quiet(directory: &Path, usual: Duration) {
    for _ in 0..60 {
        if machine::fdatasync(directory) < usual * 3 / 2 {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[expect(clippy::print_stderr, reason = "minutes pass")]
fn progress(stored: u64, of: u64) {
    eprintln!("{stored} of {of} executions are stored");
}
