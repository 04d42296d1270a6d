//! Where a process waits at a point until the world lets it go on.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::point::{Name, Point, What};
use crate::clock::Clock;
use crate::protocol::{ExecutionId, Identity};
use crate::store::{StoreError, StoreErrorKind};
use crate::watch::{Place, Watch};

/// What a body panics with that the world made panic.
pub(super) const MADE_TO_PANIC: &str = "the world made the body panic";

/// What a process does at a point that it was let go from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// What it was about to do.
    On,
    /// It does the write, and never hears of it.
    LoseAnswer,
    /// From now on the store does not answer, for this long.
    Away(Duration),
    /// It panics.
    Panic,
}

/// A process at a point.
#[derive(Debug)]
pub(super) struct Crossing {
    pub(super) point: Point,
    /// A transaction of the process keeps every other write waiting.
    pub(super) locks: bool,
    /// Dropped, the process stands there for ever.
    pub(super) go: oneshot::Sender<Go>,
}

/// The gate of one process; clones are the same gate.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    crossings: mpsc::UnboundedSender<Crossing>,
    clock: Arc<dyn Clock>,
    kind: Kind,
    /// Where the store's connections live, where time is real.
    home: Option<Handle>,
    state: Mutex<State>,
    /// What was claimed in this world, by whatever process.
    identities: Identities,
}

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It makes the world, and stops nowhere.
    Outside,
    Usual,
    /// It is going to die or to be frozen. Where time is real it gets a short lease, so that nobody waits long for
    /// its end.
    Doomed,
}

#[derive(Debug, Default)]
struct State {
    dead: bool,
    away_until: Duration,
    /// Open transactions that keep every other write waiting.
    locks: usize,
}

/// The executions that the processes of a world asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Identities(Arc<Mutex<BTreeMap<ExecutionId, Identity>>>);

impl Identities {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<ExecutionId, Identity>> {
        // No code that may panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, id: ExecutionId, identity: &Identity) {
        self.entries().entry(id).or_insert_with(|| identity.clone());
    }

    pub(super) fn all(&self) -> BTreeMap<ExecutionId, Identity> {
        self.entries().clone()
    }

    /// The handler of an execution.
    pub(super) fn handler(&self, id: ExecutionId) -> String {
        self.entries().get(&id).map(|it| it.handler.clone()).unwrap_or_default()
    }
}

impl Gate {
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        identities: Identities,
        kind: Kind,
        home: Option<Handle>,
    ) -> (Self, mpsc::UnboundedReceiver<Crossing>) {
        let (crossings, receiver) = mpsc::unbounded_channel();
        let shared = Shared { crossings, clock, kind, home, state: Mutex::default(), identities };
        (Self { shared: Arc::new(shared) }, receiver)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that may panic runs under the lock.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn identities(&self) -> &Identities {
        &self.shared.identities
    }

    pub(super) fn kind(&self) -> Kind {
        self.shared.kind
    }

    /// The process is dead: what is left of it asks the store for nothing any more.
    pub(super) fn die(&self) {
        self.state().dead = true;
    }

    /// A transaction begins that keeps every other write waiting, until what is returned is dropped.
    pub(super) fn lock(&self) -> Lock {
        self.state().locks += 1;
        Lock { gate: self.clone() }
    }

    /// Waits at a point. A process that is dead, or is never let go, waits for ever.
    pub(super) async fn cross(&self, point: Point) -> Go {
        if self.shared.kind == Kind::Outside {
            return Go::On;
        }
        let (go, gone) = oneshot::channel();
        let (dead, locks) = {
            let state = self.state();
            (state.dead, state.locks > 0)
        };
        if dead || self.shared.crossings.send(Crossing { point, locks, go }).is_err() {
            return std::future::pending().await;
        }
        match gone.await {
            Ok(Go::Away(how_long)) => {
                self.state().away_until = self.shared.clock.elapsed() + how_long;
                Go::On
            }
            Ok(go) => go,
            Err(_) => std::future::pending().await,
        }
    }

    /// Runs a call of the store to its end, whatever becomes of the process: its connections are not the process's.
    pub(super) async fn at_home<A: Send + 'static>(
        &self,
        call: impl Future<Output = A> + Send + 'static,
    ) -> A {
        match &self.shared.home {
            None => call.await,
            Some(home) => match home.spawn(call).await {
                Ok(answer) => answer,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The test is over.
                    Err(_) => std::future::pending().await,
                },
            },
        }
    }

    /// Asks the store, unless it is away.
    pub(super) async fn ask<A: Send + 'static>(
        &self,
        call: impl Future<Output = Result<A, StoreError>> + Send + 'static,
    ) -> Result<A, StoreError> {
        if self.state().dead {
            return std::future::pending().await;
        }
        if self.shared.clock.elapsed() < self.state().away_until {
            return Err(away());
        }
        self.at_home(call).await
    }

    /// Writes, and stops before and behind that.
    pub(super) async fn write<A: Send + 'static>(
        &self,
        what: What,
        call: impl Future<Output = Result<A, StoreError>> + Send + 'static,
    ) -> Result<A, StoreError> {
        self.write_unless(what, call, |_| None).await
    }

    /// Writes, and stops before and behind that; behind it as the answer says, where it says something else.
    pub(super) async fn write_unless<A: Send + 'static>(
        &self,
        what: What,
        call: impl Future<Output = Result<A, StoreError>> + Send + 'static,
        otherwise: impl FnOnce(&A) -> Option<What>,
    ) -> Result<A, StoreError> {
        let go = self.cross(Point::before(what.clone())).await;
        let answer = self.ask(call).await?;
        if go == Go::LoseAnswer {
            return Err(away());
        }
        let came_to = otherwise(&answer).unwrap_or(what);
        let _ = self.cross(Point::after(came_to)).await;
        Ok(answer)
    }
}

/// A transaction that keeps every other write waiting.
pub(super) struct Lock {
    gate: Gate,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.gate.state().locks -= 1;
    }
}

fn away() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the store does not answer")
}

impl Watch for Gate {
    fn comes_to(&self, place: Place) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let point = match place {
            Place::EffectBegins(name, class) => {
                Point::before(What::Effect(Name::from(&name), class))
            }
            Place::EffectEnded(name, class) => Point::after(What::Effect(Name::from(&name), class)),
            Place::Returned(handler) => Point::after(What::Body(handler.to_owned())),
            Place::Named(name, true) => Point::before(What::Named(name)),
            Place::Named(name, false) => Point::after(What::Named(name)),
            Place::Delivers(topic, once) => Point::before(What::Delivery(topic, once)),
            Place::Delivered(topic, once) => Point::after(What::Delivery(topic, once)),
        };
        Box::pin(async move {
            if self.cross(point).await == Go::Panic {
                // Without the panic hook: nobody needs to read of a panic that the world made.
                std::panic::resume_unwind(Box::new(MADE_TO_PANIC));
            }
        })
    }
}
