//! What can happen to a call.

use std::fmt;

use super::gate::Kind;
use super::point::Point;
use crate::testing::random::next;

/// One thing that happens, in a world of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    /// One call, and nothing goes wrong.
    Once,
    /// The call is made again, in this process and in another.
    Twice,
    /// So many calls at once, in two processes; their turns follow this seed.
    AtOnce(usize, u64),
    /// Something goes wrong at a point; then the call is made again until it is answered.
    Fault(Fault, At),
    /// The process dies, and the one that goes on dies at the so-manyth point that it comes to.
    DiesAgain(At, usize),
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Dies,
    /// Frozen, overtaken, and woken.
    Zombie,
    CallerLeaves,
    LosesAnswer,
    StoreAway,
    Panics,
}

impl Fault {
    /// The process that it happens to.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Dies | Self::Zombie => Kind::Doomed,
            Self::CallerLeaves | Self::LosesAnswer | Self::StoreAway | Self::Panics => Kind::Usual,
        }
    }
}

/// Where: the so-manyth time that the process comes to the point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) stage: Stage,
    pub(super) point: Point,
    pub(super) occurrence: usize,
    /// A transaction of the process keeps every other write waiting.
    pub(super) locks: bool,
}

/// What the process does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Calling,
    Relaying,
}

/// Most points that are gone through one by one; of more, a choice that the seed makes.
const POINTS_MAX: usize = 120;
/// How often chance is tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chances {
    /// Runs with calls at once.
    at_once: u64,
    /// Runs in which the process dies, and then the one that took over.
    two_deaths: usize,
}

impl Chances {
    /// Time costs nothing.
    pub(super) const VIRTUAL: Self = Self { at_once: 8, two_deaths: 24 };
    /// A person waits.
    pub(super) const REAL: Self = Self { at_once: 2, two_deaths: 4 };
}

/// Everything that can happen to a call that came to these points.
pub(super) fn plan(visited: &[At], callers: usize, seed: u64, chances: Chances) -> Vec<Scenario> {
    let mut random = Random::new(seed);
    let mut scenarios = vec![Scenario::Twice];
    scenarios
        .extend((0..chances.at_once).map(|run| Scenario::AtOnce(callers, seed.wrapping_add(run))));
    let chosen = choose(visited, &mut random);
    for at in &chosen {
        scenarios.extend(faults(at).into_iter().map(|fault| Scenario::Fault(fault, at.clone())));
    }
    let deadly: Vec<&At> = chosen.iter().filter(|at| is_deadly(at)).collect();
    if !deadly.is_empty() {
        for _ in 0..chances.two_deaths {
            let at = deadly[random.below(deadly.len())];
            let later = random.below(visited.len().max(1));
            scenarios.push(Scenario::DiesAgain(at.clone(), later));
        }
    }
    scenarios
}

fn choose(visited: &[At], random: &mut Random) -> Vec<At> {
    let mut chosen = visited.to_vec();
    while chosen.len() > POINTS_MAX {
        chosen.remove(random.below(chosen.len()));
    }
    chosen
}

/// Whether dying there differs from dying at the point before.
fn is_deadly(at: &At) -> bool {
    at.stage == Stage::Calling && !at.point.repeats_the_one_before()
}

fn faults(at: &At) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !at.point.repeats_the_one_before() {
        faults.push(Fault::Dies);
        // Who is frozen under the store's only lock is not overtaken: all others wait for him.
        if !at.locks && !at.point.is_before_an_effect_that_must_not_repeat() {
            faults.push(Fault::Zombie);
        }
        if at.stage == Stage::Calling {
            faults.push(Fault::CallerLeaves);
        }
    }
    if at.point.write().is_some() {
        faults.extend([Fault::LosesAnswer, Fault::StoreAway]);
    }
    if at.point.is_in_an_effect() {
        faults.push(Fault::Panics);
    }
    faults
}

impl Scenario {
    /// What the turns follow from, where they are left to chance.
    pub(super) fn seed(&self) -> Option<u64> {
        match self {
            Self::AtOnce(_, seed) => Some(*seed),
            Self::Once | Self::Twice | Self::Fault(..) | Self::DiesAgain(..) => None,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once => f.write_str("the call is made once, and nothing goes wrong"),
            Self::Twice => f.write_str("the call is made again when it has been answered"),
            Self::AtOnce(callers, _) => {
                write!(f, "{callers} calls are made at once, in two processes")
            }
            Self::Fault(fault, At { point, .. }) => match fault {
                Fault::Dies => write!(f, "the process dies {point}; another one goes on"),
                Fault::Zombie => write!(
                    f,
                    "the process is frozen {point}; its lease lapses, another one goes on, and then it wakes"
                ),
                Fault::CallerLeaves => write!(f, "the caller leaves {point}, and calls again"),
                Fault::LosesAnswer => {
                    write!(f, "no answer comes from the store to what is asked {point}")
                }
                Fault::StoreAway => write!(f, "the store is away from a moment {point}"),
                Fault::Panics => write!(f, "the body panics {point}"),
            },
            Self::DiesAgain(At { point, .. }, later) => write!(
                f,
                "the process dies {point}; the one that goes on dies at point {} of its own",
                later + 1
            ),
        }
    }
}

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`; zero for zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let (number, state) = next(self.0);
        self.0 = state;
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(number % end).unwrap_or(0)
    }
}
