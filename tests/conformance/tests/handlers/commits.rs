//! Commits of whole handlers, counted in the database.

use std::time::Duration;

use idempotent_runtime::{Error, Runtime, idempotent, outbox, step};

/// What a handler does, besides returning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
struct Work {
    plain: u32,
    started: u32,
    messages: u32,
}

#[idempotent(key = "count:{id}", name = "commits-works")]
async fn works(id: u8, work: Work) -> Result<u8, Error> {
    for part in 0..work.plain {
        step("plain").part(&part).run(async |_effect| Ok::<_, Error>(())).await?;
    }
    let hour = Duration::from_hours(1);
    for part in 0..work.started {
        let step = step("started").part(&part).provider_window(hour);
        step.run(async |_effect| Ok::<_, Error>(())).await?;
    }
    for number in 0..work.messages {
        outbox::send("receipt", &number)?;
    }
    Ok(id)
}

/// A handler with `n` plain steps makes `n + 2` commits and one with `n` started ones `2n + 2`; messages go with the
/// completion.
const EXPECTED: [(Work, i64); 5] = [
    (Work { plain: 0, started: 0, messages: 0 }, 2),
    (Work { plain: 5, started: 0, messages: 0 }, 7),
    (Work { plain: 0, started: 5, messages: 0 }, 12),
    (Work { plain: 2, started: 3, messages: 0 }, 10),
    (Work { plain: 0, started: 0, messages: 4 }, 2),
];

/// Runs each handler once, and again; the replay commits nothing.
async fn count(runtime: &Runtime, mut commits: impl AsyncFnMut() -> i64) {
    let mut before = commits().await;
    for (id, (work, expected)) in (1..).zip(EXPECTED) {
        for (run, expected) in [("first run", expected), ("replay", 0)] {
            assert_eq!(runtime.scope(works(id, work)).await.unwrap(), id);
            let after = commits().await;
            assert_eq!(after - before, expected, "the {run} of {work:?}");
            before = after;
        }
    }
}

/// Counts the commits of one call, and of another that replays it.
async fn count_of<T>(
    mut call: impl AsyncFnMut() -> Result<T, Error>,
    mut commits: impl AsyncFnMut() -> i64,
) -> [i64; 2] {
    let mut counted = [0; 2];
    for counted in &mut counted {
        let before = commits().await;
        assert!(call().await.is_ok());
        *counted = commits().await - before;
    }
    counted
}

#[cfg(feature = "sqlite")]
mod on_sqlite {
    use idempotent_conformance::sqlite::SqliteFactory;
    use idempotent_runtime::{Error, Runtime, idempotent, step};
    use sqlx::SqliteConnection;

    use super::{count, count_of};

    const NOTE: &str = "INSERT INTO note (id) VALUES ($1)";

    #[idempotent(key = "count:{id}", name = "commits-sqlite-whole")]
    async fn whole(id: i64, #[transaction] tx: &mut SqliteConnection) -> Result<i64, Error> {
        sqlx::query(NOTE).bind(id).execute(&mut *tx).await.unwrap();
        sqlx::query(NOTE).bind(id).execute(tx).await.unwrap();
        Ok(id)
    }

    #[idempotent(key = "count:{id}", name = "commits-sqlite-parts")]
    async fn parts(id: i64) -> Result<i64, Error> {
        for part in 0..3 {
            let step = step("note").part(&part);
            let wrote = step.transaction(async |tx: &mut SqliteConnection| {
                sqlx::query(NOTE).bind(id).execute(tx).await.unwrap();
                Ok::<_, Error>(())
            });
            wrote.await?;
        }
        Ok(id)
    }

    #[tokio::test]
    async fn commits_are_as_few_as_promised() {
        let file = SqliteFactory::fresh();
        let builder = Runtime::builder("handlers").reaper(false).url(file.url());
        let runtime = builder.connect().await.unwrap();
        let create = "CREATE TABLE note (id INTEGER NOT NULL)";
        sqlx::query(create).execute(file.pool()).await.unwrap();
        let commits = async || commits_in_wal(&file);
        count(&runtime, commits).await;
        let whole = count_of(async || runtime.scope(whole(1)).await, commits).await;
        assert_eq!(whole, [2, 0], "a handler in a transaction, and its replay");
        let parts = count_of(async || runtime.scope(parts(1)).await, commits).await;
        assert_eq!(parts, [5, 0], "three steps in transactions, and their replay");
    }

    /// Commits in the file's write-ahead log: frames that say how large the database is after them.
    fn commits_in_wal(file: &SqliteFactory) -> i64 {
        let url = file.url();
        let path = url.strip_prefix("sqlite://").unwrap().split('?').next().unwrap();
        let log = std::fs::read(format!("{path}-wal")).unwrap();
        let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
        let page_bytes = usize::try_from(number(8)).unwrap();
        // Frames of an older log behind the newest have other salts.
        let salts = &log[16..24];
        let frames = (32..log.len()).step_by(24 + page_bytes);
        let live = frames.take_while(|&at| log.len() >= at + 24 && log[at + 8..at + 16] == *salts);
        i64::try_from(live.filter(|&at| number(at + 4) != 0).count()).unwrap()
    }
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use idempotent_conformance::PostgresOptions;
    use idempotent_runtime::{Error, Runtime, idempotent, step};
    use sqlx::{Connection, PgConnection};
    use tokio::sync::Mutex;

    use super::{count, count_of};

    const NOTE: &str = "INSERT INTO note (id) VALUES ($1)";

    #[idempotent(key = "count:{id}", name = "commits-postgres-whole")]
    async fn whole(id: i64, #[transaction] tx: &mut PgConnection) -> Result<i64, Error> {
        sqlx::query(NOTE).bind(id).execute(&mut *tx).await.unwrap();
        sqlx::query(NOTE).bind(id).execute(tx).await.unwrap();
        Ok(id)
    }

    #[idempotent(key = "count:{id}", name = "commits-postgres-parts")]
    async fn parts(id: i64) -> Result<i64, Error> {
        for part in 0..3 {
            let step = step("note").part(&part);
            let wrote = step.transaction(async |tx: &mut PgConnection| {
                sqlx::query(NOTE).bind(id).execute(tx).await.unwrap();
                Ok::<_, Error>(())
            });
            wrote.await?;
        }
        Ok(id)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn commits_are_as_few_as_promised() {
        // A server of its own, on which nobody else writes: each transaction that does takes the next number.
        let server = PostgresOptions::default().setting("autovacuum", "off").start().unwrap();
        server.execute("postgres", "CREATE TABLE note (id bigint NOT NULL)").unwrap();
        let builder = Runtime::builder("handlers").reaper(false).url(server.url());
        let runtime = builder.connect().await.unwrap();
        let session = Mutex::new(PgConnection::connect(&server.url()).await.unwrap());
        let commits = async || {
            let read = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
            sqlx::query_scalar(read).fetch_one(&mut *session.lock().await).await.unwrap()
        };
        count(&runtime, commits).await;
        let whole = count_of(async || runtime.scope(whole(1)).await, commits).await;
        assert_eq!(whole, [2, 0], "a handler in a transaction, and its replay");
        let parts = count_of(async || runtime.scope(parts(1)).await, commits).await;
        assert_eq!(parts, [5, 0], "three steps in transactions, and their replay");
    }
}
