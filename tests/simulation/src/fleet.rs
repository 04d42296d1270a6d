//! The processes: they start, are struck, and others take their place.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idempotent_runtime::outbox::{Delivery, Relay, Route};
use idempotent_runtime::{Error, Runtime};

use crate::clock::ProcessClock;
use crate::handlers::Kind;
use crate::process::Process;
use crate::scenario::Blow;
use crate::site::Site;
use crate::store::SimStore;
use crate::world::World;

/// Callers of one operation in one process: the one who claims, and one who follows him. Tokio wakes several followers
/// in an order that no seed decides.
const CALLERS_MAX: u32 = 2;

/// The topics; a process relays one of them.
const TOPICS: [&str; 3] = ["mail", "sms", "page"];

/// A process that runs handlers.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) process: Arc<Process>,
    pub(crate) runtime: Runtime,
    pub(crate) site: Site,
    open: AtomicBool,
    callers: Mutex<HashMap<String, u32>>,
}

impl Member {
    /// Takes a place among the callers of an operation, if there is one.
    pub(crate) fn enter(&self, key: &str) -> bool {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let entered = callers.entry(key.to_owned()).or_default();
        let free = *entered < CALLERS_MAX;
        *entered += u32::from(free);
        free
    }

    /// Leaves it.
    pub(crate) fn leave(&self, key: &str) {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entered) = callers.get_mut(key) {
            *entered = entered.saturating_sub(1);
        }
    }

    fn takes_calls(&self) -> bool {
        self.open.load(Ordering::SeqCst) && !self.process.is_dead()
    }
}

/// All processes.
#[derive(Debug)]
pub(crate) struct Fleet {
    world: Arc<World>,
    /// Those that take calls, or did before they fell.
    places: Mutex<Vec<Arc<Member>>>,
    all: Mutex<Vec<Arc<Member>>>,
    started: AtomicU32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    pub(crate) async fn start(world: &Arc<World>) -> Result<Arc<Self>, Error> {
        let (places, all) = (Mutex::default(), Mutex::default());
        let fleet = Self { world: Arc::clone(world), places, all, started: AtomicU32::new(0) };
        for _ in 0..world.scenario.processes {
            let member = fleet.launch().await?;
            lock(&fleet.places).push(member);
        }
        Ok(Arc::new(fleet))
    }

    /// Starts a process.
    pub(crate) async fn launch(&self) -> Result<Arc<Member>, Error> {
        let world = &self.world;
        let number = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        let drift_ppm = i64::from(world.dice.small(0..4_000)) - 2_000;
        let process = Process::new(number, world, drift_ppm);
        world.note(process.name(), || "starts".to_owned());
        let runtime = Runtime::builder("simulation")
            .store(SimStore::new(&process))
            .clock(ProcessClock(Arc::clone(&process)))
            .heartbeat_task()
            .reaper(world.scenario.reaps)
            .reaper_interval(Duration::from_secs(3))
            .connect()
            .await?;
        let site = Site::new(&process);
        if world.scenario.operations.iter().any(|it| it.kind == Kind::Announce) {
            let topic = TOPICS[usize::try_from(number).unwrap_or(0) % TOPICS.len()];
            drop(tokio::spawn(relay(&runtime, topic, &site).run()));
        }
        let member = Arc::new(Member {
            process,
            runtime,
            site,
            open: AtomicBool::new(true),
            callers: Mutex::default(),
        });
        lock(&self.all).push(Arc::clone(&member));
        Ok(member)
    }

    /// Some process that takes calls, if there is one.
    pub(crate) fn any(&self) -> Option<Arc<Member>> {
        let places = lock(&self.places);
        let open: Vec<_> = places.iter().filter(|it| it.takes_calls()).collect();
        self.world.dice.pick(&open).map(|it| Arc::clone(it))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        lock(&self.all).clone()
    }

    /// Starts a process in the place of one that fell.
    async fn replace(&self, fallen: &Arc<Member>) {
        // In the end others have been started already, and nobody would stop this one.
        if self.world.is_calm() {
            return;
        }
        // A process that cannot start is as one that never came back.
        if let Ok(member) = self.launch().await {
            let mut places = lock(&self.places);
            if let Some(place) = places.iter_mut().find(|it| Arc::ptr_eq(it, fallen)) {
                *place = member;
            }
        }
    }

    /// Starts a process for each one that has died.
    pub(crate) async fn keep(self: Arc<Self>) {
        loop {
            self.world.died.notified().await;
            tokio::time::sleep(self.world.dice.ms(0..2_000)).await;
            let dead: Vec<_> =
                lock(&self.places).iter().filter(|it| it.process.is_dead()).cloned().collect();
            for fallen in dead {
                self.replace(&fallen).await;
            }
        }
    }

    /// Has something happen.
    pub(crate) async fn strike(self: &Arc<Self>, blow: Blow) {
        let world = Arc::clone(&self.world);
        match blow {
            Blow::Jump { by_us } => {
                world.note("world", || format!("the store's clock moves by {} ms", by_us / 1_000));
                world.saw(if by_us < 0 { "clock back" } else { "clock forward" });
                world.server.clock.jump(by_us);
            }
            Blow::Outage { lasts } => {
                world.note("world", || format!("the store is away for {} ms", lasts.as_millis()));
                world.saw("outage");
                world.set_away(true);
                drop(tokio::spawn(async move {
                    tokio::time::sleep(lasts).await;
                    world.set_away(false);
                }));
            }
            Blow::FailOver { lost } => {
                world.saw("failover");
                let lost = world.server.fail_over(lost);
                world.note("world", || format!("a failover: the last {lost} writes are lost"));
            }
            Blow::Kill | Blow::Freeze { .. } | Blow::ShutDown { .. } | Blow::Sweep => {
                if let Some(member) = self.any() {
                    self.strike_one(member, blow);
                }
            }
        }
    }

    fn strike_one(self: &Arc<Self>, member: Arc<Member>, blow: Blow) {
        let (world, process) = (Arc::clone(&self.world), Arc::clone(&member.process));
        let fleet = Arc::clone(self);
        match blow {
            Blow::Kill => process.kill(),
            Blow::Freeze { lasts, suspended } => process.freeze_for(lasts, suspended),
            Blow::ShutDown { grace } => {
                world
                    .note(process.name(), || format!("shuts down within {} ms", grace.as_millis()));
                member.open.store(false, Ordering::SeqCst);
                drop(tokio::spawn(async move {
                    process.edge().await;
                    world.saw("shutdown");
                    let drained = member.runtime.shutdown(grace).await;
                    world.note(process.name(), || {
                        format!("has shut down, {} cancelled", drained.cancelled)
                    });
                    fleet.replace(&member).await;
                }));
            }
            Blow::Sweep => {
                drop(tokio::spawn(async move {
                    process.edge().await;
                    let swept = member.runtime.sweep().await;
                    world.note(process.name(), || format!("swept: {swept:?}"));
                }));
            }
            Blow::Jump { .. } | Blow::Outage { .. } | Blow::FailOver { .. } => {}
        }
    }
}

fn relay(runtime: &Runtime, topic: &str, site: &Site) -> Relay {
    let (taker, asker) = (site.clone(), site.clone());
    let sink = move |delivery: Delivery| {
        let site = taker.clone();
        async move { site.deliver(delivery).await }
    };
    let route = match topic {
        "sms" => Route::new(sink).at_most_once(),
        "page" => Route::new(sink).reconcile(move |delivery: Delivery| {
            let site = asker.clone();
            async move { site.came(delivery).await }
        }),
        _ => Route::new(sink),
    };
    let route = route
        .lease(Duration::from_secs(1))
        .backoff(Duration::from_millis(100), Duration::from_secs(2))
        .max_attempts(1_000)
        .concurrency(2);
    Relay::new(runtime)
        .sink(topic, route)
        .poll_every(Duration::from_millis(800))
        .grace(Duration::from_secs(2))
}
