//! The traps, and how a test shows one.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

/// Something a driver does, with what guards us against it.
#[derive(Clone, Copy)]
pub(crate) struct Trap {
    driver: &'static str,
    does: &'static str,
    /// The file of our guard.
    pub(crate) guard: &'static str,
    /// The test that fails without the guard.
    pub(crate) held_by: &'static str,
}

const fn sqlx(does: &'static str, guard: &'static str, held_by: &'static str) -> Trap {
    Trap { driver: "sqlx", does, guard, held_by }
}

pub(crate) const DROPPED_BEGIN: Trap = sqlx(
    "a dropped `Pool::begin` puts the connection back inside an open transaction",
    "idempotent-runtime/src/store/postgres/pool.rs",
    "a_call_that_is_dropped_half_way_leaves_no_transaction_open",
);
pub(crate) const ABORTED_COMMIT: Trap = sqlx(
    "`commit` of a transaction that the server has aborted answers `Ok`",
    "idempotent-runtime/src/store/postgres/transaction.rs",
    "an_error_that_the_body_ignored_is_for_a_person",
);
pub(crate) const RAW_COMMIT: Trap = sqlx(
    "a raw COMMIT or ROLLBACK through the handle ends the transaction behind its back",
    "idempotent-runtime/src/store/postgres/transaction.rs",
    "a_transaction_that_the_body_ended_is_for_a_person",
);
pub(crate) const RAW_COMMIT_SQLITE: Trap =
    Trap { guard: "idempotent-runtime/src/store/sqlite/transaction.rs", ..RAW_COMMIT };
pub(crate) const RAW_COMMIT_OF_A_STEP: Trap =
    Trap { held_by: "a_commit_behind_our_back_needs_review", ..RAW_COMMIT };
pub(crate) const DROPPED_QUERY: Trap = sqlx(
    "a statement whose future was dropped runs and commits",
    "idempotent-runtime/src/runtime.rs",
    "a_claim_whose_answer_is_lost_finds_itself",
);
pub(crate) const DROPPED_COMMIT: Trap = sqlx(
    "a `commit` whose future was dropped commits",
    "idempotent-runtime/src/execute/settle.rs",
    "a_completion_whose_answer_is_lost_is_done",
);
pub(crate) const PAUSED_TIME: Trap = sqlx(
    "under tokio's paused time a pool times out before the server can answer",
    "docs/src/cookbook.md",
    "a_long_body_under_a_short_lease_is_renewed_and_not_reaped",
);
pub(crate) const DETACHED_TASK: Trap = Trap {
    driver: "tokio",
    does: "a task whose handle is dropped goes on, a heartbeat for example",
    guard: "idempotent-runtime/src/lease.rs",
    held_by: "a_claim_that_nobody_can_release_any_more_is_not_renewed_either",
};

pub(crate) const ALL: &[Trap] = &[
    DROPPED_BEGIN,
    ABORTED_COMMIT,
    RAW_COMMIT,
    RAW_COMMIT_SQLITE,
    RAW_COMMIT_OF_A_STEP,
    DROPPED_QUERY,
    DROPPED_COMMIT,
    PAUSED_TIME,
    DETACHED_TASK,
];

impl Trap {
    /// Fails if the driver no longer does it.
    #[track_caller]
    pub(crate) fn is_there(self, is_there: bool) {
        let Self { driver, does, guard, held_by } = self;
        let version = version(driver);
        assert!(
            is_there,
            "{driver} {version} no longer has this trap ({does}): remove the guard at {guard}, which `{held_by}` holds"
        );
    }
}

/// Whether a trial shows the trap. A trial drops a future at the pending poll whose number it is given; a server that
/// answers at once leaves no such poll, so all are tried again.
pub(crate) async fn shows(mut trial: impl AsyncFnMut(u32) -> bool) -> bool {
    for _ in 0..25 {
        for pending in 1..=4 {
            if trial(pending).await {
                return true;
            }
        }
    }
    false
}

/// The version of a package in the lock file.
pub(crate) fn version(package: &str) -> &'static str {
    const LOCK: &str = include_str!("../../../../Cargo.lock");
    let found = LOCK.split_once(&format!("name = \"{package}\"\nversion = \""));
    found.and_then(|(_, behind)| behind.split('"').next()).expect("it is locked")
}

/// Polls a future until it was pending so often, and drops it there; what it came to, if it ended before.
pub(crate) async fn dropped_at<F: Future>(pending: u32, future: F) -> Option<F::Output> {
    let mut left = pending;
    let mut future = pin!(future);
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            left = left.saturating_sub(1);
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}
