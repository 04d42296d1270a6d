//! Goes through a whole world.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use idempotent_runtime::{Clock, SystemClock};
use stateright::{Checker, DiscoveryClassification, HasDiscoveries, Model};

use crate::config::Config;
use crate::property::Promise;

/// What was found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The world's name.
    pub name: &'static str,
    /// Different states.
    pub states: usize,
    /// Transitions between them.
    pub transitions: usize,
    /// Events from the beginning to the state that is furthest away.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// What does not hold.
    pub broken: BTreeSet<Promise>,
    /// What should be reached, and is not.
    pub unreached: Vec<&'static str>,
    /// How what does not hold is broken: the events, in their order.
    pub paths: String,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, states, transitions, depth, took, .. } = self;
        let seconds = took.as_secs_f64();
        write!(
            f,
            "{name:<40} {states:>9} states {transitions:>10} transitions, depth {depth:>3}, {seconds:>6.2} s"
        )
    }
}

/// Goes through every state of a world; or until one is found that breaks `until`.
#[must_use]
pub fn check(config: Config, threads: usize, until: Option<Promise>) -> Checked {
    let clock = SystemClock::new();
    let began = clock.elapsed();
    let finish = match until {
        Some(promise) => HasDiscoveries::AnyOf(BTreeSet::from([promise.name()])),
        None => HasDiscoveries::All,
    };
    let checker = config.checker().threads(threads).finish_when(finish).spawn_bfs().join();
    let mut broken = BTreeSet::new();
    let mut paths = String::new();
    let discoveries = checker.discoveries();
    for promise in Promise::ALL {
        if let Some(path) = discoveries.get(promise.name()) {
            broken.insert(promise);
            paths += &format!("\n{} is broken:\n", promise.name());
            for action in path.clone().into_actions() {
                paths += &format!("    {action:?}\n");
            }
        }
    }
    let properties = config.properties();
    let sometimes = properties.iter().filter(|property| {
        let class = checker.discovery_classification(property.name);
        matches!(class, DiscoveryClassification::Example)
    });
    let unreached = sometimes
        .map(|property| property.name)
        .filter(|name| !discoveries.contains_key(name))
        .collect();
    Checked {
        name: config.name,
        states: checker.unique_state_count(),
        transitions: checker.state_count(),
        depth: checker.max_depth(),
        took: clock.elapsed().saturating_sub(began),
        broken,
        unreached,
        paths,
    }
}
