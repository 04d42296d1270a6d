//! Annotated handlers on the real engine, over a simulated store, in simulated processes: everything that happens, and in
//! which order, comes from a seed.

mod checker;
mod clock;
mod dice;
mod drain;
mod fleet;
mod handlers;
mod history;
mod outside;
mod plant;
mod process;
mod queue;
mod scenario;
mod site;
mod store;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::testing::seed_randomness;

pub use checker::{Promise, Violation};
pub use plant::Plant;

use fleet::Fleet;
use queue::Clients;
use world::World;

/// What came of a simulation.
#[derive(Debug)]
#[non_exhaustive]
pub struct Simulated {
    /// The promises that were broken.
    pub violations: Vec<Violation>,
    /// What happened, in lines, if it was asked for.
    pub timeline: Vec<String>,
    /// What came to pass, and how often.
    pub seen: BTreeMap<String, u64>,
    /// Requests that the store applied.
    pub requests: u64,
    /// Effects outside.
    pub effects: u64,
}

/// Simulates what `seed` says, with a fault in it or none, and keeps a timeline or none.
///
/// # Panics
///
/// If the simulation itself cannot run.
#[must_use]
pub fn simulate(seed: u64, plant: Option<Plant>, timeline: bool) -> Simulated {
    seed_randomness(Some(seed));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs nothing");
    let simulated = runtime.block_on(run(seed, plant, timeline));
    drop(runtime);
    seed_randomness(None);
    simulated
}

async fn run(seed: u64, plant: Option<Plant>, timeline: bool) -> Simulated {
    let world = World::new(seed, plant, timeline);
    world.note("world", || world.scenario.words());
    let began = alive_tasks();
    if let Err(error) = live(&world).await {
        world.breaks(Promise::FittingErrors, format!("the simulation was told {error}"));
    }
    if !world.has_dead() && alive_tasks() > began {
        let what = format!("{} tasks are left", alive_tasks() - began);
        world.breaks(Promise::NothingIsLeft, what);
    }
    let violations = checker::check(&world);
    Simulated {
        violations,
        timeline: world.history.take(),
        seen: world.seen(),
        requests: world.server.applied(),
        effects: u64::try_from(world.outside.effects().len()).unwrap_or(u64::MAX),
    }
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

async fn live(world: &Arc<World>) -> Result<(), idempotent_runtime::Error> {
    let fleet = Fleet::start(world).await?;
    let keeper = tokio::spawn(Arc::clone(&fleet).keep());
    let clients = Clients::new(world);
    for delivery in &world.scenario.deliveries {
        let (clients, fleet) = (Arc::clone(&clients), Arc::clone(&fleet));
        drop(tokio::spawn(clients.deliver(fleet, *delivery)));
    }
    let mut passed = Duration::ZERO;
    for (at, blow) in &world.scenario.blows {
        tokio::time::sleep(at.saturating_sub(passed)).await;
        passed = *at;
        fleet.strike(*blow).await;
    }
    tokio::time::sleep(world.scenario.lasts.saturating_sub(passed)).await;
    // In the end others take its place.
    keeper.abort();
    drain::drain(world, &fleet, &clients).await
}
