//! A process of a world: a tokio runtime and a runtime of ours, which can be frozen, woken and killed.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::gate::{Crossing, Gate, Identities, Kind};
use super::time::VirtualClock;
use super::watched::{Watched, hurried_end};
use crate::clock::{Clock, SystemClock};
use crate::lease::{Heartbeat, HeartbeatOn};
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::store::{Memory, Store};

/// The longest lease that a handler may have.
pub(super) const LEASE_MAX: Duration = Duration::from_hours(1);

/// Where the processes of one world live, and whose time passes there.
pub(super) enum Site<'a> {
    /// In virtual time, on a memory store of their own.
    Virtual { clock: VirtualClock, store: Arc<dyn Store> },
    /// In real time, on this runtime's store, under a namespace of their own.
    Real { runtime: &'a Runtime, namespace: String, clock: Arc<dyn Clock>, home: Handle },
}

impl<'a> Site<'a> {
    pub(super) fn virtual_time() -> Self {
        let clock = VirtualClock::new();
        let store = Arc::new(Memory::new(Arc::new(clock.clone())));
        Self::Virtual { clock, store }
    }

    pub(super) fn on(runtime: &'a Runtime) -> Self {
        let namespace = format!("world-{}", uuid::Uuid::new_v4().simple());
        let clock = Arc::new(SystemClock::new());
        Self::Real { runtime, namespace, clock, home: Handle::current() }
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::Virtual { clock, .. } => Arc::new(clock.clone()),
            Self::Real { clock, .. } => Arc::clone(clock),
        }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        match self {
            Self::Virtual { store, .. } => store,
            Self::Real { runtime, .. } => runtime.store(),
        }
    }

    /// Lets a lease lapse that was claimed by a process that is dead or frozen now.
    pub(super) async fn lapse(&self, lease: Duration) {
        match self {
            Self::Virtual { clock, .. } => {
                clock.pass(lease.min(LEASE_MAX) + Duration::from_millis(1));
            }
            Self::Real { .. } => tokio::time::sleep(hurried_end()).await,
        }
    }

    /// The namespace of all of its processes.
    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Virtual { .. } => "world",
            Self::Real { namespace, .. } => namespace,
        }
    }

    fn home(&self) -> Option<Handle> {
        match self {
            Self::Virtual { .. } => None,
            Self::Real { home, .. } => Some(home.clone()),
        }
    }

    /// Runs what is no part of a process. Where time is real, what it connects lives on with the test's tokio runtime.
    pub(super) async fn outside<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Virtual { .. } => future.await,
            Self::Real { home, .. } => On { handle: Some(home), future: pin!(future) }.await,
        }
    }

    /// Starts a process.
    pub(super) fn process(
        &self,
        identities: &Identities,
        kind: Kind,
    ) -> (Process, mpsc::UnboundedReceiver<Crossing>) {
        let (gate, crossings) = Gate::new(self.clock(), identities.clone(), kind, self.home());
        let tokio = match self {
            Self::Virtual { clock, .. } => Tokio::paused(clock),
            Self::Real { .. } => Tokio::beside(),
        };
        let runtime = self.runtime(&gate, tokio.handle());
        (Process { runtime, gate, tokio }, crossings)
    }

    /// A runtime whose writes stop at a gate.
    fn runtime(&self, gate: &Gate, tasks: Handle) -> Runtime {
        let real = matches!(self, Self::Real { .. });
        let watched = Watched::new(Arc::clone(self.store()), gate.clone(), real);
        let settings = match self {
            Self::Virtual { .. } => Settings::new(self.namespace().to_owned()),
            Self::Real { runtime, .. } => runtime.settings().under(self.namespace().to_owned()),
        };
        let heartbeat = Heartbeat::new(HeartbeatOn::Task);
        let runtime =
            Runtime::from_parts(settings, Arc::new(watched), self.clock(), tasks, heartbeat);
        runtime.be_watched(Arc::new(gate.clone()));
        runtime
    }
}

/// A process. Dropped, it is killed: no task of it is polled again.
pub(super) struct Process {
    /// Dropped first, while its tokio runtime is there to be told.
    pub(super) runtime: Runtime,
    gate: Gate,
    tokio: Tokio,
}

impl Process {
    /// Runs a future in the process; its tasks run as long.
    pub(super) async fn enter<F: Future>(&self, future: F) -> F::Output {
        match &self.tokio {
            Tokio::Paused { runtime, clock, origin } => runtime.block_on(async {
                clock.enter(*origin).await;
                let output = future.await;
                clock.leave();
                output
            }),
            Tokio::Beside(tokio) => {
                let handle = tokio.as_ref().map(runtime::Runtime::handle);
                On { handle, future: pin!(future) }.await
            }
        }
    }

    /// A second runtime, which no other one can tell from one of another process.
    pub(super) fn second(&self, site: &Site<'_>) -> Runtime {
        site.runtime(&self.gate, self.tokio.handle())
    }

    /// Drops a future where its destructors find a tokio runtime, and without running that.
    pub(super) fn drop_inside<T>(&self, future: T) {
        let handle = self.tokio.handle();
        let _entered = handle.enter();
        drop(future);
    }

    /// From here on nothing of it reaches the store.
    pub(super) fn die(&self) {
        self.gate.die();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.gate.die();
    }
}

/// The tokio runtime of a process.
enum Tokio {
    /// Its time is the world's, and it stands still while no future runs in it.
    Paused { runtime: runtime::Runtime, clock: VirtualClock, origin: Instant },
    /// Beside the test's own, in real time.
    Beside(Option<runtime::Runtime>),
}

impl Tokio {
    fn paused(clock: &VirtualClock) -> Self {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a tokio runtime starts");
        let origin = runtime.block_on(async { clock.origin() });
        Self::Paused { runtime, clock: clock.clone(), origin }
    }

    fn beside() -> Self {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a tokio runtime starts");
        Self::Beside(Some(runtime))
    }

    fn handle(&self) -> Handle {
        match self {
            Self::Paused { runtime, .. } => runtime.handle().clone(),
            Self::Beside(runtime) => {
                runtime.as_ref().map_or_else(Handle::current, |it| it.handle().clone())
            }
        }
    }
}

impl Drop for Tokio {
    fn drop(&mut self) {
        if let Self::Beside(runtime) = self
            && let Some(runtime) = runtime.take()
        {
            // Not waited for: the test's own runtime must not block.
            runtime.shutdown_background();
        }
    }
}

/// A future that spawns its tasks on another tokio runtime.
struct On<'a, F> {
    handle: Option<&'a Handle>,
    future: Pin<&'a mut F>,
}

impl<F: Future> Future for On<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.handle.map(Handle::enter);
        self.future.as_mut().poll(cx)
    }
}

/// Runs a future that waits for nothing but processes in virtual time, which run while it is polled.
pub(super) fn at_once<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}
