//! How much the writer commits at once.

use std::sync::atomic::AtomicUsize;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::store::sql::bounds::{BATCH_BYTES_MAX, BATCH_MAX};
use crate::store::sqlite::runner::Db;

/// Counts the commits of the writer's connection from now on.
struct Count(Arc<AtomicUsize>);

impl Operation for Count {
    type Answer = ();

    fn is_single(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<(), StoreError> {
        let commits = Arc::clone(&self.0);
        let mut handle = db.connection.lock_handle().await.unwrap();
        handle.set_commit_hook(move || {
            commits.fetch_add(1, Ordering::SeqCst);
            true
        });
        Ok(())
    }
}

/// Keeps the writer until it is let go.
struct Gate(tokio::sync::Mutex<Option<oneshot::Receiver<()>>>);

impl Operation for Gate {
    type Answer = ();

    fn is_single(&self) -> bool {
        false
    }

    async fn apply(&self, _: &mut Db<'_>) -> Result<(), StoreError> {
        if let Some(open) = self.0.lock().await.take() {
            open.await.unwrap();
        }
        Ok(())
    }
}

/// Does nothing, and is so large.
struct Large(Load);

impl Operation for Large {
    type Answer = ();

    fn is_single(&self) -> bool {
        false
    }

    fn load(&self) -> Load {
        self.0
    }

    async fn apply(&self, _: &mut Db<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Writer {
    store: Sqlite,
    commits: Arc<AtomicUsize>,
    _bench: Bench,
}

impl Writer {
    async fn new() -> Self {
        let bench = Bench::new();
        let store = bench.open().await;
        let commits = Arc::new(AtomicUsize::new(0));
        store.shared.writer.run(Count(Arc::clone(&commits))).await.unwrap();
        // Its own.
        commits.store(0, Ordering::SeqCst);
        Self { store, commits, _bench: bench }
    }

    fn commits(&self) -> usize {
        self.commits.swap(0, Ordering::SeqCst)
    }

    /// Asks in a task of its own, which has asked when this returns.
    async fn ask<O: Operation + Sync>(
        &self,
        operation: O,
    ) -> JoinHandle<Result<O::Answer, StoreError>> {
        let shared = Arc::clone(&self.store.shared);
        let asked = tokio::spawn(async move { shared.writer.run(operation).await });
        tokio::task::yield_now().await;
        asked
    }

    /// How many commits it takes to do what waits while the writer is kept.
    async fn commits_of(&self, loads: &[Load]) -> usize {
        let (open, opened) = oneshot::channel();
        let gate = self.ask(Gate(tokio::sync::Mutex::new(Some(opened)))).await;
        while self.store.shared.writer.has_waiting() {
            tokio::task::yield_now().await;
        }
        self.commits();
        let mut asked = Vec::new();
        for load in loads {
            asked.push(self.ask(Large(*load)).await);
        }
        open.send(()).unwrap();
        gate.await.unwrap().unwrap();
        for asked in asked {
            asked.await.unwrap().unwrap();
        }
        self.commits() - 1
    }
}

#[tokio::test]
async fn what_waits_for_the_writer_is_committed_together_up_to_a_bound() {
    let writer = Writer::new().await;
    let small = Load::one(1);
    assert_eq!(writer.commits_of(&[small; 100]).await, 1);
    let quarter = Load::one(BATCH_BYTES_MAX / 4);
    assert_eq!(writer.commits_of(&[quarter; 9]).await, 3, "four, four and one");
    let huge = Load::one(2 * BATCH_BYTES_MAX);
    assert_eq!(writer.commits_of(&[small, huge, small, small]).await, 3, "it goes alone");
    let many = Load { requests: BATCH_MAX / 2, bytes: 1 };
    assert_eq!(writer.commits_of(&[many; 5]).await, 3, "two, two and one");
}

#[tokio::test]
async fn what_one_caller_asks_for_is_committed_in_pieces() {
    let writer = Writer::new().await;
    let claims: Vec<_> = (1..=8).map(|id| claim(id, 1)).collect();
    let claimed = writer.store.claim(&claims).await.unwrap();
    assert_eq!(writer.commits(), 1);
    let granted = claimed.iter().map(|claimed| match claimed {
        Claimed::Granted(granted) => *granted,
        Claimed::Found(_) | Claimed::TooOld => panic!("{claimed:?}"),
    });
    let granted: Vec<_> = (1..).zip(granted).collect();
    let renewals = granted.iter().map(|(id, granted)| Renewal {
        id: ExecutionId([*id; 16]),
        owner: Owner([1; 16]),
        token: granted.token,
    });
    let renewals: Vec<_> = renewals.collect();
    assert_eq!(writer.store.renew(&renewals).await.unwrap(), [Renewed::Renewed; 8]);
    assert_eq!(writer.commits(), 1);
    let completions = granted.iter().map(|(id, granted)| {
        let result = StoredResult::Json(vec![b'1'; BATCH_BYTES_MAX / 4]);
        Completion { result, ..completion(*id, 1, granted.token) }
    });
    let completions: Vec<_> = completions.collect();
    assert_eq!(writer.store.complete(&completions).await.unwrap(), [Written::Done; 8]);
    assert_eq!(writer.commits(), 3, "three, three and two, with what surrounds them");
}
