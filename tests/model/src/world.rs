//! The world, and what may happen in it next.

use stateright::{Model, Property};

use crate::config::{Class, Config, Late};
use crate::db::{Db, Era, Purged};
use crate::effects::Outside;
use crate::mutant::Mutant;
use crate::operator::{Looks, decisions, sees};
use crate::property::{self, Broken};
use crate::relay::{Relay, RelayMove};
use crate::rename::{age_tokens, rename};
use crate::request::{Answer, Decides, Request};
use crate::worker::{Around, At, Attempt, Move, Worker};

/// One execution and everybody around it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub(crate) db: Db,
    /// The database without its last commit, where it may fail over to that.
    pub(crate) lost: Option<Db>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) relays: Vec<Relay>,
    /// A request that lands late.
    pub(crate) flying: Option<Request>,
    /// What a person looks at.
    pub(crate) person: Option<Looks>,
    pub(crate) outside: Outside,
    pub(crate) left: Left,
    pub(crate) broken: Broken,
    /// Owners that somebody in this world has: they are called 1, 2, ..
    pub(crate) owners: u8,
}

/// What may still happen so often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) decisions: u8,
    pub(crate) anew: u8,
    pub(crate) failovers: u8,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A millisecond passes.
    Tick,
    /// A process does something; what it asks is answered.
    Works(usize, Move),
    /// It asks, and the request lands late, without its hearing of it.
    Sends(usize, Move),
    /// A relay does something.
    Relays(usize, RelayMove),
    /// It asks, and the request lands late.
    RelaySends(usize, RelayMove),
    /// The late request lands.
    Lands,
    /// The reaper comes by.
    Reaps,
    /// The purge comes by.
    Purges,
    /// The provider forgets.
    Forgets,
    /// A person looks.
    Looks(Looks),
    /// And decides.
    Decides(Request),
    /// The decision lands late.
    DecidesLate(Request),
    /// The database loses its last commit.
    FailsOver,
}

impl Model for Config {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let left = Left { decisions: self.decisions, anew: self.anew, failovers: self.failovers };
        vec![World {
            db: Db::default(),
            lost: None,
            workers: vec![Worker::Idle; self.workers],
            relays: vec![Relay::Idle; self.relays],
            flying: None,
            person: None,
            outside: Outside::default(),
            left,
            broken: Broken::default(),
            owners: 0,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        let late = self.late != Late::Never && world.flying.is_none();
        for (place, worker) in world.workers.iter().enumerate() {
            // Two that are the same do the same.
            if place > 0 && world.workers[place - 1] == *worker {
                continue;
            }
            for taken in worker.moves(self, &world.outside, world.left.anew) {
                actions.push(Action::Works(place, taken));
                if late && self.lands_late(taken) && worker.request(taken, 1).is_some() {
                    actions.push(Action::Sends(place, taken));
                }
            }
        }
        if let Some(sink) = self.sink {
            for (place, relay) in world.relays.iter().enumerate() {
                for taken in relay.moves(sink) {
                    actions.push(Action::Relays(place, taken));
                    if late && relay.request(taken, 1).is_some() {
                        actions.push(Action::RelaySends(place, taken));
                    }
                }
            }
        }
        actions.push(Action::Reaps);
        if world.flying.is_some() {
            actions.push(Action::Lands);
        }
        if self.purges {
            actions.push(Action::Purges);
        }
        if self.forgets && !world.outside.known.is_empty() {
            actions.push(Action::Forgets);
        }
        if world.left.failovers > 0 && world.lost.is_some() {
            actions.push(Action::FailsOver);
        }
        self.a_persons(world, late, actions);
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        let changed = world.happens(self, action);
        if !changed {
            return None;
        }
        if world.left.failovers > 0 && world.db != before.db && action != Action::Tick {
            world.lost = Some(before.db.clone());
        }
        rename(self, &mut world);
        Some(world).filter(|world| world != before)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::all(self)
    }
}

impl Config {
    fn lands_late(&self, taken: Move) -> bool {
        match taken {
            Move::Renew => false,
            Move::Claim { .. } | Move::TakeOver => self.late == Late::All,
            _ => true,
        }
    }

    fn a_persons(&self, world: &World, late: bool, actions: &mut Vec<Action>) {
        if world.left.decisions == 0 {
            return;
        }
        let Some(looks) = world.person else {
            actions.extend(sees(self, &world.db).into_iter().map(Action::Looks));
            return;
        };
        for request in decisions(self, &world.db, &world.outside, world.left.anew, looks) {
            actions.push(Action::Decides(request));
            if late && !says_what_is_so(request) {
                actions.push(Action::DecidesLate(request));
            }
        }
    }
}

/// Whether a decision says something of the outside, which may be otherwise when it lands late.
fn says_what_is_so(request: Request) -> bool {
    match request {
        Request::Settle { decides, .. } => {
            matches!(decides, Decides::Happened | Decides::DidNotHappen)
        }
        _ => true,
    }
}

impl World {
    /// Lets something happen. Whether it may have changed anything.
    fn happens(&mut self, config: &Config, action: Action) -> bool {
        match action {
            Action::Tick => self.tick(config),
            Action::Works(place, taken) => self.works(config, place, taken),
            Action::Sends(place, taken) => {
                self.pay(place, taken);
                let owner = self.owners + 1;
                self.flying = self.workers[place].request(taken, owner);
                self.flying
                    .into_iter()
                    .for_each(|request| self.workers[place].sends(config, request));
            }
            Action::Relays(place, taken) => self.delivers(config, place, taken),
            Action::RelaySends(place, taken) => {
                let owner = self.owners + 1;
                self.flying = self.relays[place].request(taken, owner);
                self.flying.into_iter().for_each(|request| self.relays[place].sends(request));
            }
            Action::Lands => {
                if let Some(request) = self.flying.take() {
                    self.apply(config, request);
                }
            }
            Action::Reaps => return self.db.reap(config, &mut self.broken),
            Action::Purges => match self.db.purge(config, &mut self.broken) {
                Purged::Nothing => return false,
                Purged::Reviewed => {}
                Purged::Deleted => self.outside = Outside::default(),
            },
            Action::Forgets => return self.outside.forget(),
            Action::Looks(looks) => self.person = Some(looks),
            Action::Decides(request) => {
                self.decided(request);
                self.apply(config, request);
            }
            Action::DecidesLate(request) => {
                self.decided(request);
                self.flying = Some(request);
            }
            Action::FailsOver => {
                self.left.failovers -= 1;
                let Some(lost) = self.lost.take() else { return false };
                self.db = lost;
            }
        }
        true
    }

    fn decided(&mut self, request: Request) {
        self.person = None;
        self.left.decisions -= 1;
        let anew = Decides::DidNotHappen;
        if matches!(request, Request::Settle { decides, .. } if decides == anew) {
            self.left.anew -= 1;
        }
    }

    fn apply(&mut self, config: &Config, request: Request) -> Answer {
        let (answer, era) = self.db.apply(config, request, &mut self.broken);
        if era == Era::Reopened {
            self.outside.told = None;
        }
        answer
    }

    fn works(&mut self, config: &Config, place: usize, taken: Move) {
        self.pay(place, taken);
        let owner = self.owners + 1;
        let Some(request) = self.workers[place].request(taken, owner) else {
            if taken == Move::Act && config.class == Class::Transaction {
                self.db.rows += 1;
            }
            let Self { workers, outside, broken, .. } = self;
            workers[place].act(config, taken, outside, broken);
            return;
        };
        self.workers[place].sends(config, request);
        let answer = self.apply(config, request);
        let Self { db, workers, outside, broken, .. } = self;
        let around = &mut Around { config, truth: &db.truth, outside, broken };
        workers[place].hears(answer, around);
    }

    fn delivers(&mut self, config: &Config, place: usize, taken: RelayMove) {
        let owner = self.owners + 1;
        if let Some(request) = self.relays[place].request(taken, owner) {
            self.relays[place].sends(request);
            let answer = self.apply(config, request);
            self.relays[place].hears(&answer);
        } else if let Some(sink) = config.sink {
            let Self { relays, outside, broken, .. } = self;
            relays[place].act(sink, taken, outside, broken);
        }
    }

    fn tick(&mut self, config: &Config) {
        self.db.tick();
        self.lost.iter_mut().for_each(Db::tick);
        self.workers.iter_mut().for_each(Worker::tick);
        self.relays.iter_mut().for_each(Relay::tick);
        self.outside.tick();
        // Those that count the attempts of a row do not hang on the time.
        if !config.has(Mutant::GuardWithoutOwner) {
            age_tokens(self);
        }
    }

    /// A try anew is paid for when it is first said that the effect did not happen.
    fn pay(&mut self, place: usize, taken: Move) {
        let starts =
            matches!(self.workers[place], Worker::Runs(Attempt { at: At::Started { .. }, .. }));
        let asked_in_vain = taken == Move::Ask && self.outside.effects == 0;
        self.left.anew -= u8::from(taken == Move::Clear && starts || asked_in_vain);
    }
}
