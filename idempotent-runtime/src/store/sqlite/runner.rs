//! The connection that writes for many.
//!
//! It lives on a thread of its own, with a queue in front. A request that is alone runs as one autocommit statement,
//! as in the [`lane`](super::lane) beside it; whatever is waiting when the writer comes back goes into one
//! transaction, at most 1,024 requests and 4 MiB, so that a busy process pays one `fsync` for many requests. Answers go out after the commit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use super::queries::Queries;
use super::{connect, error, schema};
use crate::clock::Clock;
use crate::protocol::Micros;
use crate::store::sql::bounds::{BATCH_MAX, Load, REQUEST_BYTES, batch_len};
use crate::store::sql::{ConnectOptions, jittered};
use crate::store::{StoreError, StoreErrorKind};

/// How long the writer sleeps between two tries for the file's lock; jittered down to a quarter.
pub(super) const LOCK_RETRY_US_MAX: u64 = 4_000;

/// What an operation works with.
pub(super) struct Db<'a> {
    pub(super) connection: &'a mut SqliteConnection,
    pub(super) queries: &'a Queries,
    clock: &'a dyn Clock,
}

impl<'a> Db<'a> {
    pub(super) fn new(
        connection: &'a mut SqliteConnection,
        queries: &'a Queries,
        clock: &'a dyn Clock,
    ) -> Self {
        Self { connection, queries, clock }
    }

    /// The store's time.
    pub(super) fn now(&self) -> Micros {
        Micros(self.clock.now_us())
    }
}

/// Something that the writer does. Running it again is safe.
pub(super) trait Operation: Send + 'static {
    /// Its answer.
    type Answer: Send + 'static;

    /// Whether it needs no transaction when it is alone: one write at most, of one execution.
    fn is_single(&self) -> bool;

    /// What it asks for.
    fn load(&self) -> Load {
        Load::one(REQUEST_BYTES)
    }

    /// Runs it.
    async fn apply(&self, db: &mut Db<'_>) -> Result<Self::Answer, StoreError>;
}

/// An operation with the way back to its caller.
struct Request<O: Operation> {
    operation: O,
    answer: Option<Result<O::Answer, StoreError>>,
    reply: oneshot::Sender<Result<O::Answer, StoreError>>,
}

#[async_trait(?Send)]
trait Job: Send {
    fn is_single(&self) -> bool;

    fn load(&self) -> Load;

    /// Runs the operation and keeps its answer.
    async fn run(&mut self, db: &mut Db<'_>);

    /// The failure that was kept, if it was one.
    fn failure(&self) -> Option<&StoreError>;

    /// Sends the answer that was kept.
    fn answer(self: Box<Self>);

    /// Sends a failure instead.
    fn fail(self: Box<Self>, failure: StoreError);
}

#[async_trait(?Send)]
impl<O: Operation> Job for Request<O> {
    fn is_single(&self) -> bool {
        self.operation.is_single()
    }

    fn load(&self) -> Load {
        self.operation.load()
    }

    async fn run(&mut self, db: &mut Db<'_>) {
        self.answer = Some(self.operation.apply(db).await);
    }

    fn failure(&self) -> Option<&StoreError> {
        self.answer.as_ref()?.as_ref().err()
    }

    fn answer(self: Box<Self>) {
        let Self { answer, reply, .. } = *self;
        // A caller that is gone wants no answer.
        let _ = reply.send(answer.unwrap_or_else(|| Err(error::closed())));
    }

    fn fail(self: Box<Self>, failure: StoreError) {
        let _ = self.reply.send(Err(failure));
    }
}

enum Message {
    Job(Box<dyn Job>),
    Stop(oneshot::Sender<()>),
}

/// The queue before the writer.
pub(super) struct Writer {
    queue: mpsc::Sender<Message>,
    /// Whether the thread has something to do.
    busy: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the thread and opens the connection. The thread ends when the queue is dropped.
    pub(super) async fn start(
        file: SqliteConnectOptions,
        options: &ConnectOptions,
        queries: Arc<Queries>,
    ) -> Result<Self, StoreError> {
        let (queue, messages) = mpsc::channel(BATCH_MAX);
        let (opened, open) = oneshot::channel();
        let busy = Arc::new(AtomicBool::new(false));
        let serving = Serving {
            busy: Arc::clone(&busy),
            file,
            connection: None,
            queries,
            clock: Arc::clone(&options.clock),
            lock_timeout: options.acquire_timeout,
            stopping: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(cannot_start)?;
        thread::Builder::new()
            .name("idempotent-sqlite".to_owned())
            .spawn(move || runtime.block_on(serving.start(messages, opened)))
            .map_err(cannot_start)?;
        open.await.map_err(|_| error::closed())??;
        Ok(Self { queue, busy })
    }

    /// Whether it has nothing to do, so that a request need not stand in its queue.
    pub(super) fn is_idle(&self) -> bool {
        !self.busy.load(Ordering::Acquire) && self.queue.capacity() == self.queue.max_capacity()
    }

    /// Whether a request stands in its queue.
    #[cfg(test)]
    pub(super) fn has_waiting(&self) -> bool {
        self.queue.capacity() < self.queue.max_capacity()
    }

    /// Has the writer run an operation.
    pub(super) async fn run<O: Operation>(&self, operation: O) -> Result<O::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { operation, answer: None, reply };
        let sent = self.queue.send(Message::Job(Box::new(request))).await;
        sent.map_err(|_| error::closed())?;
        answer.await.map_err(|_| error::closed())?
    }

    /// Finishes what is queued, and closes the connection.
    pub(super) async fn stop(&self) {
        let (stopped, done) = oneshot::channel();
        if self.queue.send(Message::Stop(stopped)).await.is_ok() {
            // An error means that the thread has ended already.
            let _ = done.await;
        }
    }
}

fn cannot_start(error: std::io::Error) -> StoreError {
    StoreError::with_source(
        StoreErrorKind::Unavailable,
        format!("the sqlite store could not start its thread: {error}"),
        error,
    )
}

/// The thread's side.
struct Serving {
    busy: Arc<AtomicBool>,
    file: SqliteConnectOptions,
    connection: Option<SqliteConnection>,
    queries: Arc<Queries>,
    clock: Arc<dyn Clock>,
    lock_timeout: Duration,
    stopping: Option<oneshot::Sender<()>>,
}

impl Serving {
    async fn start(
        mut self,
        messages: mpsc::Receiver<Message>,
        opened: oneshot::Sender<Result<(), StoreError>>,
    ) {
        let connected = self.connect().await;
        let failed = connected.is_err();
        if opened.send(connected).is_err() || failed {
            return;
        }
        self.serve(messages).await;
    }

    async fn serve(mut self, mut messages: mpsc::Receiver<Message>) {
        let mut waiting = Vec::new();
        let mut jobs = VecDeque::new();
        while messages.recv_many(&mut waiting, BATCH_MAX).await > 0 {
            self.busy.store(true, Ordering::Release);
            for message in waiting.drain(..) {
                match message {
                    Message::Job(job) => jobs.push_back(job),
                    Message::Stop(stopped) => {
                        messages.close();
                        self.stopping = Some(stopped);
                    }
                }
            }
            while !jobs.is_empty() {
                let len = batch_len(jobs.iter().map(|job| job.load()));
                self.run(jobs.drain(..len).collect()).await;
            }
            self.busy.store(false, Ordering::Release);
        }
        if let Some(connection) = self.connection.take() {
            // Everything that was answered is committed; a failure here loses nothing.
            let _ = connection.close().await;
        }
        if let Some(stopped) = self.stopping.take() {
            let _ = stopped.send(());
        }
    }

    /// Opens the connection, waiting for other processes that set up the same file.
    async fn connect(&mut self) -> Result<(), StoreError> {
        if self.connection.is_some() {
            return Ok(());
        }
        let file = &self.file;
        let opened = unlocked(self.lock_timeout, async || connect::writer(file).await).await?;
        self.connection = Some(opened);
        Ok(())
    }

    async fn run(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        if let Err(error) = self.connect().await {
            return jobs.into_iter().for_each(|job| job.fail(error.copy()));
        }
        if jobs.len() == 1 && jobs[0].is_single() && self.alone(&mut jobs[0]).await {
            return jobs.into_iter().for_each(Job::answer);
        }
        let Err(error) = self.together(&mut jobs).await else {
            return jobs.into_iter().for_each(Job::answer);
        };
        if jobs.len() == 1 || matches!(error.kind(), StoreErrorKind::Busy) {
            return jobs.into_iter().for_each(|job| job.fail(error.copy()));
        }
        // One of them failed in a way that undid the others: each for itself.
        for job in jobs {
            let mut job = [job];
            let done = match self.connect().await {
                Ok(()) => self.together(&mut job).await,
                Err(error) => Err(error),
            };
            let [job] = job;
            match done {
                Ok(()) => job.answer(),
                Err(error) => job.fail(error),
            }
        }
    }

    /// Runs a job without a transaction. `false`: it has to be tried in one, where the lock is waited for.
    async fn alone(&mut self, job: &mut Box<dyn Job>) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        let mut db = Db::new(connection, &self.queries, &*self.clock);
        job.run(&mut db).await;
        job.failure().is_none_or(|failure| failure.kind() == StoreErrorKind::Corrupt)
    }

    /// Runs jobs in one transaction. An error: none of them is written, or nobody knows.
    async fn together(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        let Some(connection) = &mut self.connection else { return Err(error::closed()) };
        let done =
            transaction(connection, &self.queries, &*self.clock, self.lock_timeout, jobs).await;
        if done.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Unavailable) {
            self.connection = None;
        }
        done
    }
}

async fn transaction(
    connection: &mut SqliteConnection,
    queries: &Queries,
    clock: &dyn Clock,
    lock_timeout: Duration,
    jobs: &mut [Box<dyn Job>],
) -> Result<(), StoreError> {
    // Begun under the write lock: a transaction that reads first would fail when it writes.
    unlocked(lock_timeout, async || control(connection, "BEGIN IMMEDIATE").await).await?;
    for job in jobs {
        let mut db = Db::new(connection, queries, clock);
        job.run(&mut db).await;
        let Some(failure) = job.failure() else { continue };
        if is_its_own(failure) {
            continue;
        }
        let mut failure = failure.copy();
        if failure.kind() == StoreErrorKind::Other
            && let Err(error) = schema::check(connection, queries).await
            && error.kind() == StoreErrorKind::Schema
        {
            failure = error;
        }
        return Err(undone(connection, failure).await);
    }
    match control(connection, "COMMIT").await {
        Ok(()) => Ok(()),
        Err(failure) => Err(undone(connection, failure).await),
    }
}

async fn control(
    connection: &mut SqliteConnection,
    statement: &'static str,
) -> Result<(), StoreError> {
    let done = sqlx::query(statement).execute(connection).await;
    done.map(drop).map_err(|error| error::failed(&format!("at {statement}"), error))
}

/// Rolls back after a failure. Some failures have done so already, which SQLite then calls an error.
async fn undone(connection: &mut SqliteConnection, failure: StoreError) -> StoreError {
    if let Err(error) = control(connection, "ROLLBACK").await {
        tracing::debug!(%error, "the failed transaction was over already");
    }
    failure
}

/// Whether a failure concerns one row, and leaves the transaction as it was before the statement.
fn is_its_own(failure: &StoreError) -> bool {
    matches!(failure.kind(), StoreErrorKind::Corrupt | StoreErrorKind::Schema)
}

/// Tries again while other processes hold the file's lock. SQLite's own waiting grows to 100 ms a step, which
/// starves a process among busy ones; this one stays short.
async fn unlocked<T>(
    timeout: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let retried = async {
        loop {
            match attempt().await {
                Err(error) if error.kind() == StoreErrorKind::Busy => {
                    tokio::time::sleep(jittered(LOCK_RETRY_US_MAX)).await;
                }
                done => return done,
            }
        }
    };
    match tokio::time::timeout(timeout, retried).await {
        Ok(done) => done,
        Err(_) => Err(StoreError::new(
            StoreErrorKind::Busy,
            format!("sqlite: other processes held the file's lock for {timeout:?}"),
        )),
    }
}
