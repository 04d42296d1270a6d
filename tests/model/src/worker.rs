//! A process that calls the handler: what it may do next, and what it makes of an answer.

mod hear;

pub(crate) use hear::Around;

use idempotent_runtime::protocol::{Micros, Step, StepClass, StepState, Token};

use crate::config::{Class, Config, Naps};
use crate::effects::Outside;
use crate::mutant::Mutant;
use crate::property::Broken;
use crate::request::{By, Gives, Request, Value, class, number, recorded};
use crate::time::{NOW, WINDOW_MS, tick};

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Worker {
    /// It does nothing, or has died.
    Idle,
    /// It has sent a claim and heard nothing.
    Asking(Caller),
    /// It has seen that the execution is claimable, or used up its crashes.
    Found { caller: Caller, seen: Token, exhausted: bool },
    /// It runs the body.
    Runs(Attempt),
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Caller {
    /// The attempt that it would be.
    pub(crate) owner: u8,
    pub(crate) payload: u8,
    /// Until when the attempt may act: counted from before the claim was sent.
    pub(crate) acts_until: Micros,
}

/// An attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub(crate) by: By,
    pub(crate) payload: u8,
    pub(crate) acts_until: Micros,
    pub(crate) at: At,
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum At {
    /// The step comes next, under this generation; `open` is the entry that an attempt before left open, `seen` its owner.
    Fresh { generation: u32, seen: Option<u8>, open: Option<Open> },
    /// The step is started: the effect may begin.
    Started { generation: u32, started_at: Micros },
    /// The effect happened.
    Acted { generation: u32, value: Value },
    /// It is known that it did not; that is sent until it is answered.
    Clearing { generation: u32 },
    /// It is noted that it did not.
    Cleared,
    /// The step is recorded.
    Recorded { value: Value },
    /// The body has returned; its outcome is sent until it is answered.
    Ending { failed: bool, value: Value },
    /// It is given up; that is sent until it is answered.
    Releasing(Gives),
    /// What only a wrong completion leaves for later.
    SendsLater,
}

/// A step that is started and not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Open {
    pub(crate) started_at: Micros,
    pub(crate) alive_until: Micros,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    Claim {
        payload: u8,
    },
    TakeOver,
    Renew,
    Start,
    Act,
    /// Asks the outside what happened.
    Ask,
    Record,
    /// The effect is refused and did not happen: that is noted.
    Clear,
    Complete {
        failed: bool,
    },
    Release(Gives),
    SendLater,
    Die,
}

impl Worker {
    /// What it may do next.
    pub(crate) fn moves(&self, config: &Config, outside: &Outside, anew: u8) -> Vec<Move> {
        match self {
            Self::Idle => (0..config.payloads).map(|payload| Move::Claim { payload }).collect(),
            Self::Asking(caller) => vec![Move::Claim { payload: caller.payload }, Move::Die],
            Self::Found { .. } => vec![Move::TakeOver, Move::Die],
            Self::Runs(attempt) => attempt.moves(config, outside, anew),
        }
    }

    /// What it asks of the store for a move, if the move is to ask.
    pub(crate) fn request(&self, taken: Move, fresh: u8) -> Option<Request> {
        Some(match (self, taken) {
            (Self::Idle, Move::Claim { payload }) => Request::Claim { owner: fresh, payload },
            (Self::Asking(Caller { owner, payload, .. }), Move::Claim { .. }) => {
                Request::Claim { owner: *owner, payload: *payload }
            }
            (Self::Found { caller, seen, exhausted }, Move::TakeOver) => {
                let Caller { owner, payload, .. } = *caller;
                Request::TakeOver { owner, payload, seen: *seen, to_review: *exhausted }
            }
            (Self::Runs(attempt), taken) => return attempt.request(taken),
            (Self::Idle | Self::Asking(_) | Self::Found { .. }, _) => return None,
        })
    }

    /// What it does by itself. Whether something has changed.
    pub(crate) fn act(
        &mut self,
        config: &Config,
        taken: Move,
        outside: &mut Outside,
        broken: &mut Broken,
    ) {
        match (&mut *self, taken) {
            (Self::Runs(attempt), Move::Act) => attempt.act(config, outside, broken),
            (Self::Runs(attempt), Move::Ask) => attempt.ask(outside),
            (_, _) => *self = Self::Idle,
        }
    }

    /// Forgets what nothing in this world depends on.
    pub(crate) fn forget(&mut self, config: &Config) {
        match self {
            Self::Idle => {}
            Self::Asking(caller) | Self::Found { caller, .. } if !config.minds_the_living() => {
                caller.acts_until = NOW;
            }
            Self::Asking(_) | Self::Found { .. } => {}
            Self::Runs(attempt) => {
                if !config.minds_the_living() {
                    attempt.acts_until = NOW;
                }
                if let At::Started { started_at, .. } = &mut attempt.at
                    && config.class != Class::Window
                {
                    *started_at = NOW;
                }
            }
        }
    }

    /// A millisecond later.
    pub(crate) fn tick(&mut self) {
        match self {
            Self::Idle => {}
            Self::Asking(caller) | Self::Found { caller, .. } => tick(&mut caller.acts_until, 0),
            Self::Runs(attempt) => {
                tick(&mut attempt.acts_until, 0);
                match &mut attempt.at {
                    At::Fresh { open: Some(open), .. } => {
                        tick(&mut open.started_at, WINDOW_MS + 1);
                        tick(&mut open.alive_until, 0);
                    }
                    At::Started { started_at, .. } => tick(started_at, WINDOW_MS + 1),
                    At::Fresh { open: None, .. }
                    | At::Acted { .. }
                    | At::Clearing { .. }
                    | At::Cleared
                    | At::Recorded { .. }
                    | At::Ending { .. }
                    | At::Releasing(_)
                    | At::SendsLater => {}
                }
            }
        }
    }
}

impl Attempt {
    fn moves(&self, config: &Config, outside: &Outside, anew: u8) -> Vec<Move> {
        let mut moves = vec![Move::Die];
        let outcome = |failed| Move::Complete { failed };
        match self.at {
            At::Ending { failed, .. } => {
                moves.push(outcome(failed));
                if config.has(Mutant::ReleaseAfterCompletion) {
                    moves.push(Move::Release(Gives::Error));
                }
                return moves;
            }
            At::Releasing(gives) => {
                moves.push(Move::Release(gives));
                return moves;
            }
            At::Clearing { .. } => {
                moves.push(Move::Clear);
                return moves;
            }
            At::SendsLater => {
                moves.push(Move::SendLater);
                return moves;
            }
            At::Fresh { open, .. } => self.before_the_step(config, outside, anew, open, &mut moves),
            At::Started { started_at, .. } => {
                if self.may_act(config, started_at) {
                    moves.push(Move::Act);
                }
                if config.class == Class::Window && !remembers(config, started_at) {
                    moves.push(Move::Release(Gives::Review));
                }
                if anew > 0 && outside.effects == 0 {
                    moves.push(Move::Clear);
                }
            }
            At::Acted { .. } if config.class == Class::Transaction => moves.push(outcome(false)),
            At::Acted { .. } => moves.push(Move::Record),
            At::Recorded { .. } => moves.push(outcome(false)),
            At::Cleared => {}
        }
        if config.fails && matches!(self.at, At::Recorded { .. } | At::Cleared) {
            moves.push(outcome(true));
        }
        moves.extend([Move::Renew, Move::Release(Gives::Error), Move::Release(Gives::Crash)]);
        moves
    }

    /// What follows from the entry of an attempt before.
    fn before_the_step(
        &self,
        config: &Config,
        outside: &Outside,
        anew: u8,
        open: Option<Open>,
        moves: &mut Vec<Move>,
    ) {
        let run = match config.class {
            Class::Transaction if !config.has(Mutant::TwoCommits) => {
                Move::Complete { failed: false }
            }
            Class::TransactionStep => Move::Record,
            Class::AtMostOnce if config.has(Mutant::AtMostOnceWithoutStart) => Move::Act,
            Class::Transaction | Class::Plain => Move::Act,
            Class::Window | Class::AtMostOnce => Move::Start,
        };
        let goes_on = match (config.class, open) {
            (_, None) => true,
            (Class::AtMostOnce, Some(_)) => config.has(Mutant::AtMostOnceGoesOn),
            (Class::Window, Some(open)) => remembers(config, open.started_at),
            (Class::Transaction | Class::TransactionStep | Class::Plain, Some(_)) => true,
        };
        moves.push(match open {
            _ if goes_on => run,
            Some(open) if config.reconciles => {
                let alive_ms = NOW.ms_until(open.alive_until);
                if alive_ms > 0 && !config.has(Mutant::AsksTooEarly) {
                    Move::Release(Gives::Wait(alive_ms))
                } else if outside.effects > 0 || anew > 0 {
                    Move::Ask
                } else {
                    // It could not tell.
                    Move::Release(Gives::Review)
                }
            }
            Some(_) | None => Move::Release(Gives::Review),
        });
        if config.fails && (open.is_none() || config.class != Class::AtMostOnce) {
            moves.push(Move::Complete { failed: true });
        }
    }

    /// Whether the effect may begin, as far as its process can know.
    fn may_act(&self, config: &Config, started_at: Micros) -> bool {
        let awake = config.naps == Naps::ForEver || NOW < self.acts_until;
        match config.class {
            Class::AtMostOnce => awake,
            Class::Window => config.naps == Naps::ForEver || awake && remembers(config, started_at),
            Class::Transaction | Class::TransactionStep | Class::Plain => true,
        }
    }

    fn request(&self, taken: Move) -> Option<Request> {
        let by = self.by;
        Some(match (taken, self.at) {
            (Move::Renew, _) => Request::Renew { by },
            (Move::Start, At::Fresh { generation, seen, .. }) => {
                Request::Start { by, generation, seen }
            }
            (Move::Clear, At::Started { generation, .. } | At::Clearing { generation }) => {
                Request::Record { by, generation, value: None }
            }
            (Move::Record, At::Acted { generation, value }) => {
                Request::Record { by, generation, value: Some(value) }
            }
            (Move::Record, At::Fresh { generation, .. }) => {
                Request::Record { by, generation, value: Some(by.owner) }
            }
            (Move::Complete { failed }, At::Ending { value, .. }) => {
                Request::Complete { by, failed, value }
            }
            (Move::Complete { failed }, _) => {
                Request::Complete { by, failed, value: self.outcome() }
            }
            (Move::Release(gives), _) => Request::Release { by, gives },
            (Move::SendLater, _) => Request::SendLater,
            _ => return None,
        })
    }

    /// What the body returns.
    fn outcome(&self) -> Value {
        match self.at {
            At::Recorded { value } | At::Acted { value, .. } => value,
            At::Fresh { .. }
            | At::Started { .. }
            | At::Clearing { .. }
            | At::Cleared
            | At::Ending { .. }
            | At::Releasing(_)
            | At::SendsLater => self.by.owner,
        }
    }

    fn act(&mut self, config: &Config, outside: &mut Outside, broken: &mut Broken) {
        let generation = match self.at {
            At::Fresh { generation, .. } | At::Started { generation, .. } => generation,
            At::Acted { .. }
            | At::Clearing { .. }
            | At::Cleared
            | At::Recorded { .. }
            | At::Ending { .. }
            | At::Releasing(_)
            | At::SendsLater => return,
        };
        let value = if config.class == Class::Window {
            outside.request(config, (generation, self.by.owner), broken)
        } else {
            outside.act(broken, config.class == Class::AtMostOnce);
            self.by.owner
        };
        self.at = At::Acted { generation, value };
    }

    /// The outside says what is so.
    fn ask(&mut self, outside: &Outside) {
        let At::Fresh { generation, seen, .. } = self.at else { return };
        self.at = if outside.effects > 0 {
            At::Acted { generation, value: self.by.owner }
        } else {
            At::Fresh { generation: generation + 1, seen, open: None }
        };
    }
}

/// Whether the provider still knows a key that was started then.
fn remembers(config: &Config, started_at: Micros) -> bool {
    config.has(Mutant::WindowIgnored) || started_at.ms_until(NOW) <= WINDOW_MS
}

/// How far an attempt is that is granted with this journal.
pub(crate) fn granted_at(config: &Config, generation: u32, step: Option<&Step>) -> At {
    let Some(step) = step else { return At::Fresh { generation, seen: None, open: None } };
    if let Some(value) = recorded(step) {
        return At::Recorded { value };
    }
    let asks = class(config) == StepClass::AtMostOnce || class(config) == StepClass::ProviderWindow;
    let open = (step.state == StepState::Started && asks)
        .then_some(Open { started_at: step.started_at, alive_until: step.alive_until });
    At::Fresh { generation: step.generation, seen: Some(number(step.owner)), open }
}
