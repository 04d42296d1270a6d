//! The runtime: a store, its tasks, and the settings that handlers share.

mod ambient;
mod builder;
mod handlers;
mod shutdown;
mod url;

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};

use tokio::runtime::Handle;
use tokio::sync::watch;

#[cfg(feature = "cache")]
use crate::cache::Cache;
use crate::clock::Clock;
use crate::error::Error;
use crate::flight::{Flights, Lead};
use crate::lease::{Attempts, Entered, Heartbeat};
use crate::protocol::{Owner, Release};
use crate::settings::Settings;
use crate::store::{Store, StoreError, StoreErrorKind};

pub use builder::{Builder, Migrations};
pub use shutdown::Drained;

/// Executes handlers on one store under one namespace. Clones share everything; the last one dropped ends the
/// heartbeat and the reaper.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Where the store's connections and our tasks live.
    tasks: Handle,
    attempts: Arc<Attempts>,
    flights: Arc<Flights>,
    #[cfg(feature = "cache")]
    cache: Option<Cache>,
    heartbeat: Heartbeat,
    closing: AtomicBool,
    /// Tells what `closing` says.
    closed: watch::Sender<bool>,
    /// Dropped with the runtime, which ends the reaper.
    stop: watch::Sender<bool>,
    /// A test that looks at handlers while they run.
    #[cfg(feature = "testing")]
    watch: std::sync::OnceLock<Arc<dyn crate::watch::Watch>>,
}

/// A runtime that its background tasks do not keep alive.
pub(crate) struct WeakRuntime {
    inner: Weak<Inner>,
}

impl WeakRuntime {
    pub(crate) fn upgrade(&self) -> Option<Runtime> {
        self.inner.upgrade().map(|inner| Runtime { inner })
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("namespace", &self.inner.settings.namespace)
            .field("store", &self.inner.store.name())
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// Connects to the store that `url` names, brings its schema up to date, and starts the reaper.
    ///
    /// `namespace` is the application's name: two applications on one database do not share keys. The scheme
    /// picks the store: `sqlite://payments.db`, `postgres://user@host/db`, `memory:`. For settings other than the
    /// defaults see [`builder`](Self::builder).
    ///
    /// The store's connections live on the tokio runtime that this is called on.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a wrong URL or namespace, [`Error::Unsupported`] for a scheme whose feature is off or
    /// for two handlers of one name, [`Error::Schema`] for a schema that this binary cannot read, [`Error::Store`] for
    /// a database that cannot be reached or written.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves at most a schema that is up to date.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotent_runtime::{Error, Runtime};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let runtime = Runtime::connect("payments", "memory:").await?;
    /// runtime.install()?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(namespace: &str, url: &str) -> Result<Self, Error> {
        Self::builder(namespace).url(url).connect().await
    }

    /// Starts to build a runtime with settings of your own.
    pub fn builder(namespace: impl Into<String>) -> Builder {
        Builder::new(namespace.into())
    }

    pub(crate) fn from_parts(
        settings: Settings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        tasks: Handle,
        heartbeat: Heartbeat,
    ) -> Self {
        let inner = Inner {
            #[cfg(feature = "cache")]
            cache: settings.cache.map(|(bytes_max, live)| Cache::new(bytes_max, live)),
            settings,
            store,
            clock,
            tasks,
            attempts: Arc::default(),
            flights: Arc::default(),
            heartbeat,
            closing: AtomicBool::new(false),
            closed: watch::Sender::new(false),
            stop: watch::Sender::new(false),
            #[cfg(feature = "testing")]
            watch: std::sync::OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.inner.settings.namespace
    }

    /// Whether the two are clones of one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.inner.clock.as_ref()
    }

    pub(crate) fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.clock)
    }

    pub(crate) fn tasks(&self) -> &Handle {
        &self.inner.tasks
    }

    pub(crate) fn downgrade(&self) -> WeakRuntime {
        WeakRuntime { inner: Arc::downgrade(&self.inner) }
    }

    /// Turns true when a shutdown begins.
    pub(crate) fn closed(&self) -> watch::Receiver<bool> {
        self.inner.closed.subscribe()
    }

    /// Turns true at the end of a shutdown, and fails when the runtime is dropped.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.inner.stop.subscribe()
    }

    pub(crate) fn attempts(&self) -> &Attempts {
        &self.inner.attempts
    }

    pub(crate) fn flights(&self) -> &Arc<Flights> {
        &self.inner.flights
    }

    #[cfg(feature = "cache")]
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.inner.cache.as_ref()
    }

    pub(crate) fn start_heartbeat(&self) {
        let Inner { heartbeat, attempts, store, clock, tasks, .. } = &*self.inner;
        heartbeat.start(attempts, store, clock, tasks);
    }

    /// Has a test look at handlers from now on, unless one does already.
    #[cfg(feature = "testing")]
    pub(crate) fn be_watched(&self, watch: Arc<dyn crate::watch::Watch>) {
        self.inner.watch.get_or_init(|| watch);
    }

    #[cfg(feature = "testing")]
    pub(crate) fn watch(&self) -> Option<&dyn crate::watch::Watch> {
        self.inner.watch.get().map(AsRef::as_ref)
    }

    /// Fails once a shutdown has begun.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.inner.closing.load(Ordering::Acquire) { Err(Error::ShuttingDown) } else { Ok(()) }
    }

    /// Begins to claim; a shutdown waits until the answer is dropped.
    pub(crate) fn enter(&self) -> Result<Entered, Error> {
        // Entered first and checked then, while a shutdown closes first and counts then: one of the two sees
        // the other.
        let entered = Entered::new(&self.inner.attempts);
        self.check_open().map(|()| entered)
    }

    /// Runs a store call to its end, whatever becomes of the caller: a driver's future that is dropped half-way
    /// can hand its connection back inside an open transaction (sqlx 0.8.4 to 0.9.0).
    ///
    /// # Errors
    ///
    /// [`Error::RuntimeEnded`] if the tokio runtime that `connect` was called on has ended.
    pub(crate) async fn in_own_task<F>(&self, call: F) -> Result<F::Output, Error>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        if self.inner.store.answers_at_once() {
            return Ok(call.await);
        }
        self.inner.tasks.spawn(call).await.map_err(|ended| {
            if ended.is_panic() {
                let what = format!("the store `{}` panicked", self.inner.store.name());
                StoreError::new(StoreErrorKind::Other, what).into()
            } else {
                Error::RuntimeEnded
            }
        })
    }

    /// Releases a claim that nobody waits for, then forgets the attempt and lets its followers claim.
    pub(crate) fn queue_release(&self, release: Release, owner: Owner, lead: Option<Lead>) {
        let leaving = Leaving { runtime: self.clone(), owner, _lead: lead };
        let mut released = Box::pin(async move {
            let answer = leaving.runtime.inner.store.release(&[release]).await;
            if let Err(error) = answer {
                tracing::warn!(%error, "a dropped claim could not be released; its lease lapses");
            }
        });
        let mut here = Context::from_waker(Waker::noop());
        if self.inner.store.answers_at_once() && released.as_mut().poll(&mut here).is_ready() {
            return;
        }
        // On a runtime that has ended, the task is dropped and the lease lapses by itself.
        drop(self.inner.tasks.spawn(released));
    }
}

/// An attempt that is being given up: forgotten when dropped, or its lease would be renewed on for nobody where
/// the release is dropped with its tokio runtime.
struct Leaving {
    runtime: Runtime,
    owner: Owner,
    /// Dropped after the attempt is forgotten, so that its followers claim then.
    _lead: Option<Lead>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.runtime.inner.attempts.remove(self.owner);
    }
}
