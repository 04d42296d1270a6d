//! The store's connections.
//!
//! The driver's own pool asks the server at each release whether the connection still lives: a second round trip
//! for each of ours. Here a connection goes back at once, or is closed if it is not known to be idle; one that broke
//! while it was idle shows at its next use, and the call then takes another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

use super::error;
use crate::store::sql::ConnectOptions;
use crate::store::{StoreError, StoreErrorKind};

/// A connection is replaced when it is this old: servers keep memory for each, and addresses change.
const AGE_MAX: Duration = Duration::from_mins(30);
/// A connection is not used again after this long: what stands between may have forgotten it.
const IDLE_MAX: Duration = Duration::from_mins(10);
/// Between two tries to reach a server that is starting.
const CONNECT_AGAIN: Duration = Duration::from_millis(50);

/// At most so many connections, opened when they are needed.
#[derive(Debug)]
pub(super) struct Pool {
    server: PgConnectOptions,
    size: u32,
    acquire_timeout: Duration,
    permits: Arc<Semaphore>,
    shelf: Arc<Shelf>,
}

/// The connections that nobody uses; the last one used is used next.
#[derive(Debug, Default)]
struct Shelf {
    idle: Mutex<Vec<Open>>,
    closed: AtomicBool,
}

/// An open connection.
#[derive(Debug)]
struct Open {
    connection: PgConnection,
    opened_at: Instant,
    used_at: Instant,
}

impl Pool {
    pub(super) fn new(server: PgConnectOptions, options: &ConnectOptions) -> Self {
        let size = options.pool_size.max(1);
        Self {
            server,
            size,
            acquire_timeout: options.acquire_timeout,
            permits: Arc::new(Semaphore::new(usize::try_from(size).unwrap_or(usize::MAX))),
            shelf: Arc::default(),
        }
    }

    /// The most connections that it opens.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if self.shelf.closed.load(Ordering::Acquire) { Err(error::closed()) } else { Ok(()) }
    }

    /// A connection, waiting for one if all are in use.
    pub(super) async fn lease(&self) -> Result<Lease, StoreError> {
        self.check_open()?;
        let deadline = Instant::now() + self.acquire_timeout;
        let permit = timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(permit) = permit else {
            let what = "all connections were in use";
            return Err(self.timed_out(StoreErrorKind::Busy, what));
        };
        let permit = permit.map_err(|_| error::closed())?;
        let open = match self.shelf.take() {
            Some(open) => open,
            None => self.open(deadline).await?,
        };
        Ok(Lease {
            open: Some(open),
            is_idle: false,
            shelf: Arc::clone(&self.shelf),
            _permit: permit,
        })
    }

    /// Opens a connection; waits for a server that is starting.
    async fn open(&self, deadline: Instant) -> Result<Open, StoreError> {
        loop {
            match timeout_at(deadline, PgConnection::connect_with(&self.server)).await {
                Ok(Ok(connection)) => {
                    let now = Instant::now();
                    return Ok(Open { connection, opened_at: now, used_at: now });
                }
                Ok(Err(error)) if error::is_starting(&error) && Instant::now() < deadline => {
                    sleep(CONNECT_AGAIN).await;
                }
                Ok(Err(error)) => return Err(error::failed("to connect", error)),
                Err(_) => {
                    let what = "no connection could be opened";
                    return Err(self.timed_out(StoreErrorKind::Unavailable, what));
                }
            }
        }
    }

    fn timed_out(&self, kind: StoreErrorKind, what: &str) -> StoreError {
        StoreError::new(kind, format!("postgres: {what} for {:?}", self.acquire_timeout))
    }

    /// Closes the connections that nobody uses: calls from now on open new ones.
    pub(super) fn forget_idle(&self) {
        let idle = std::mem::take(&mut *self.shelf.idle());
        drop(idle);
    }

    /// Lets the calls under way finish, and closes the connections.
    pub(super) async fn close(&self) {
        self.shelf.closed.store(true, Ordering::Release);
        // Fails only when another call has closed it.
        let all = self.permits.acquire_many(self.size).await;
        self.permits.close();
        drop(all);
        let idle = std::mem::take(&mut *self.shelf.idle());
        for open in idle {
            // The server ends the session in any case.
            let _ = open.connection.close().await;
        }
    }
}

impl Shelf {
    fn idle(&self) -> MutexGuard<'_, Vec<Open>> {
        // No code that may panic runs under the lock.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection used last; those that are too old are closed on the way.
    fn take(&self) -> Option<Open> {
        let now = Instant::now();
        loop {
            let open = self.idle().pop()?;
            if now - open.opened_at < AGE_MAX && now - open.used_at < IDLE_MAX {
                return Some(open);
            }
        }
    }
}

/// A connection in use.
///
/// It goes back only if it is known to be idle. The driver does not know: it puts back a connection inside a
/// transaction whose `begin` was dropped, and the next claim on it would be seen by nobody else.
pub(super) struct Lease {
    open: Option<Open>,
    pub(super) is_idle: bool,
    shelf: Arc<Shelf>,
    /// Given back behind the connection.
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    pub(super) fn connection(&mut self) -> Result<&mut PgConnection, StoreError> {
        self.open.as_mut().map(|open| &mut open.connection).ok_or_else(error::closed)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(mut open) = self.open.take()
            && self.is_idle
        {
            open.used_at = Instant::now();
            self.shelf.idle().push(open);
        }
    }
}
