//! Plays one scenario in a world of its own.

mod calls;
mod faults;
mod pace;
mod reply;
mod running;

use std::collections::BTreeMap;
use std::time::Duration;

use super::Check;
use super::gate::{Identities, Kind};
use super::point::{Name, Point, Side, What, Write};
use super::process::Site;
use super::scenario::{At, Fault, Random, Scenario, Stage};
use crate::error::ErrorKind;
use crate::protocol::{ExecutionId, State, StepClass, StepState};
use crate::store::{Execution, Store};
use crate::testing::seed_randomness;
use pace::Pace;
use reply::Reply;
use running::Running;

/// What was seen of a scenario.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) events: Vec<Event>,
    /// How often each effect happened, in the order in which they are declared.
    pub(super) counts: Vec<u64>,
    pub(super) rises: Vec<Rise>,
    /// What callers were answered with, each once.
    pub(super) answers: Vec<Reply>,
    /// The points that the first process came to.
    pub(super) visited: Vec<At>,
    /// The executions that there are, by handler: their keys.
    pub(super) keys: BTreeMap<String, Vec<String>>,
    pub(super) ends: Vec<End>,
    /// An attempt ran past its `max_runtime`.
    pub(super) overran: bool,
}

/// A line of the timeline.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) at: Duration,
    /// Nobody, for what happens to the world.
    pub(super) process: Option<usize>,
    pub(super) text: String,
    /// Effects that happened since the event before: which, and how often by then.
    pub(super) rose: Vec<(usize, u64)>,
    /// How often it happened again directly behind that, and when for the last time.
    pub(super) again: Option<(usize, Duration)>,
}

/// An effect happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rise {
    pub(super) effect: usize,
    pub(super) spot: Spot,
}

/// Where an effect happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    BeforeHandler,
    Body,
    Step(Name, StepClass),
    /// With the commit of the body's transaction.
    Commit,
    BehindBody,
    Delivery(String),
}

/// What did not end as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A person has to decide.
    Review {
        handler: String,
        reason: String,
        /// Steps that were started and have no record.
        open: Vec<Name>,
    },
    /// Nobody can go on with it.
    Blocked { handler: String, state: State },
    /// A call was refused again and again.
    Refused { error: String, kind: Option<ErrorKind> },
    /// A call never ended.
    Hangs,
    /// A call panicked.
    Panicked(String),
    /// Messages that are not delivered.
    Messages { topic: String, dead: u64, review: u64, left: u64 },
}

/// A scenario that is being played.
pub(super) struct Play<'p, 'f, W> {
    check: &'p Check<'f, W>,
    site: Site<'p>,
    world: &'p W,
    pace: Pace,
    identities: Identities,
    played: Played,
    random: Random,
    /// Calls at once take their turns by chance.
    shuffle: bool,
    processes: usize,
    trigger: Option<Trigger>,
    /// The world makes the body panic, or has just done so.
    made_to_panic: bool,
}

/// Where a process is stopped.
enum Trigger {
    At(At),
    /// At the so-manyth point that it comes to.
    Nth(usize),
}

/// Plays a scenario.
pub(super) async fn play<W>(check: &Check<'_, W>, scenario: &Scenario) -> Played {
    let seed = scenario.seed().unwrap_or(check.seed);
    let (site, pace) = match &check.runtime {
        None => {
            // This thread is the world's alone.
            seed_randomness(Some(seed));
            (Site::virtual_time(), Pace::VIRTUAL)
        }
        Some(runtime) => (Site::on(runtime), Pace::REAL),
    };
    let identities = Identities::default();
    let (outside, _) = site.process(&identities, Kind::Outside);
    let making = outside.runtime.scope(check.make.make());
    let world = outside.enter(site.outside(making)).await;
    let mut play = Play {
        check,
        site,
        world: &world,
        pace,
        identities,
        played: Played { counts: vec![0; check.effects.len()], ..Played::default() },
        random: Random::new(seed),
        shuffle: false,
        processes: 0,
        trigger: None,
        made_to_panic: false,
    };
    play.scenario(scenario).await;
    let played = play.played;
    // What the world holds may want to end in a tokio runtime.
    outside.drop_inside(world);
    played
}

impl<W> Play<'_, '_, W> {
    async fn scenario(&mut self, scenario: &Scenario) {
        let last = match scenario {
            Scenario::Once => {
                let mut first = self.start(Kind::Usual).await;
                self.until_answered(&mut first).await;
                first
            }
            Scenario::Twice => self.twice().await,
            Scenario::AtOnce(callers, _) => self.at_once(*callers).await,
            Scenario::Fault(fault, at) => {
                self.trigger = Some(Trigger::At(at.clone()));
                match at.stage {
                    Stage::Calling => self.fault(*fault, None).await,
                    Stage::Relaying => self.relay_fault(*fault).await,
                }
            }
            Scenario::DiesAgain(at, later) => {
                self.trigger = Some(Trigger::At(at.clone()));
                self.fault(Fault::Dies, Some(*later)).await
            }
        };
        self.end(last).await;
    }

    async fn twice(&mut self) -> Running {
        let mut first = self.start(Kind::Usual).await;
        self.until_answered(&mut first).await;
        self.until_answered(&mut first).await;
        let mut second = self.start(Kind::Usual).await;
        self.until_answered(&mut second).await;
        second
    }

    /// Delivers what is to be delivered, and lets whatever was left behind come to its end.
    async fn end(&mut self, mut last: Running) {
        self.relay(&mut last).await;
        self.idle(&mut last).await;
        self.judge().await;
    }

    /// Lets a lease lapse whose process is dead or frozen.
    async fn lapse(&mut self) {
        let left =
            self.records().await.iter().map(|it| it.now.ms_until(it.record.lease_until)).max();
        self.pass(Duration::from_millis(left.unwrap_or(0).max(1_000))).await;
    }

    async fn pass(&mut self, time: Duration) {
        self.site.lapse(time).await;
        self.happens(None, "its lease has lapsed");
    }

    /// The executions of this world.
    async fn records(&self) -> Vec<Execution> {
        records(self.site.store().as_ref(), &self.identities).await
    }

    fn ends(&mut self, end: End) {
        if !self.played.ends.contains(&end) {
            self.played.ends.push(end);
        }
    }

    /// Looks at what is left.
    async fn judge(&mut self) {
        for execution in self.records().await {
            let handler = execution.identity.handler.clone();
            let key = execution.identity.key.clone().unwrap_or_default();
            let keys = self.played.keys.entry(handler.clone()).or_default();
            keys.push(key);
            keys.sort();
            let state = execution.record.state;
            if state == State::Review {
                let reason = execution.record.reason.unwrap_or_default();
                let open = self.open_steps(execution.record.id).await;
                self.ends(End::Review { handler, reason, open });
            } else if !state.is_finished() {
                self.ends(End::Blocked { handler, state });
            }
        }
        if self.check.relay.is_none() {
            return;
        }
        let counts = self.site.store().messages().count_messages(self.site.namespace()).await;
        for it in counts.unwrap_or_default() {
            let (dead, review, left) = (it.dead, it.review, it.pending + it.sending);
            if dead + review + left > 0 {
                self.ends(End::Messages { topic: it.topic, dead, review, left });
            }
        }
    }

    /// Steps that were started and have no record.
    async fn open_steps(&self, id: ExecutionId) -> Vec<Name> {
        let journals = self.site.store().journals(&[id]).await.unwrap_or_default();
        let steps = journals.into_iter().flatten();
        steps.filter(|it| it.state == StepState::Started).map(|it| Name::from(&it.name)).collect()
    }
}

/// The executions that were asked for, as they are now.
async fn records(store: &dyn Store, identities: &Identities) -> Vec<Execution> {
    let ids: Vec<_> = identities.all().into_keys().collect();
    let found = store.read(&ids).await.unwrap_or_default();
    found.into_iter().flatten().collect()
}

/// Where a process is that comes from `last` to `now`.
fn spot(inside: Option<&Spot>, last: Option<&Point>, now: Option<&Point>) -> Spot {
    if let Some(inside) = inside {
        return inside.clone();
    }
    if let Some(Point { side: Side::After, what: What::Write(Write::Commit) }) = now {
        return Spot::Commit;
    }
    match (last, now) {
        (None, _) => Spot::BeforeHandler,
        (Some(Point { what: What::Body(_) | What::Write(Write::Complete(_)), .. }), _)
        | (_, None) => Spot::BehindBody,
        _ => Spot::Body,
    }
}
