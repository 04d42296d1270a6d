//! What a process makes of an answer, and of none.

use idempotent_runtime::protocol::{
    Claimed, Decision, Granted, Micros, Renewed, Seen, StepRecorded, StepStarted, TakenOver, Token,
    Written,
};

use super::{At, Attempt, Caller, Worker, granted_at};
use crate::config::{Config, Naps};
use crate::db::{Truth, is_lost};
use crate::effects::Outside;
use crate::mutant::Mutant;
use crate::property::{Broken, Promise};
use crate::request::{Answer, By, Request, owner, result_of};
use crate::rules::Rules;
use crate::time::{LEASE_MS, NOW};

/// What surrounds a process that hears an answer.
pub(crate) struct Around<'a> {
    pub(crate) config: &'a Config,
    pub(crate) truth: &'a Truth,
    pub(crate) outside: &'a mut Outside,
    pub(crate) broken: &'a mut Broken,
}

/// Until when an attempt may act that asks now.
fn acts_until(config: &Config) -> Micros {
    NOW.plus_ms(match config.naps {
        Naps::WhileItHolds => LEASE_MS,
        Naps::WhileAlive | Naps::ForEver => config.limits().alive_ms(),
    })
}

impl Worker {
    /// It sends a request, and has not heard of it yet.
    pub(crate) fn sends(&mut self, config: &Config, request: Request) {
        match (&mut *self, request) {
            (Self::Idle, Request::Claim { owner, payload }) => {
                *self = Self::Asking(Caller { owner, payload, acts_until: acts_until(config) });
            }
            (Self::Runs(attempt), Request::Complete { failed, value, .. }) => {
                attempt.at = At::Ending { failed, value };
            }
            (Self::Runs(attempt), Request::Release { gives, .. }) => {
                attempt.at = At::Releasing(gives);
            }
            (Self::Runs(attempt), Request::Record { generation, value: None, .. }) => {
                attempt.at = At::Clearing { generation };
            }
            _ => {}
        }
    }

    /// It hears what became of a request that it sent.
    pub(crate) fn hears(&mut self, answer: Answer, around: &mut Around<'_>) {
        *self = match (*self, answer) {
            (Self::Asking(caller), Answer::Claimed(claimed)) => caller.claimed(claimed, around),
            (Self::Found { caller, .. }, Answer::TakenOver(taken)) => {
                caller.taken(around.config, taken)
            }
            (Self::Runs(attempt), answer) => attempt.hears(answer, around),
            (Self::Idle | Self::Asking(_) | Self::Found { .. }, _) => Self::Idle,
        };
    }
}

impl Caller {
    fn runs(self, token: Token, at: At) -> Worker {
        let Self { owner, payload, acts_until } = self;
        Worker::Runs(Attempt { by: By { owner, token }, payload, acts_until, at })
    }

    fn claimed(self, claimed: Claimed, around: &mut Around<'_>) -> Worker {
        let seen = match claimed {
            Claimed::Granted(Granted { token, generation, .. }) => {
                // A journal that the purge left would be found.
                return self.runs(token, granted_at(around.config, generation, None));
            }
            Claimed::TooOld => return Worker::Idle,
            Claimed::Found(seen) => *seen,
        };
        let same = seen.record.fingerprint == Some(vec![self.payload]);
        if !same && !around.config.has(Mutant::FingerprintIgnored) {
            return Worker::Idle;
        }
        self.decides(&seen, around)
    }

    fn decides(self, seen: &Seen, around: &mut Around<'_>) -> Worker {
        let rules = Rules::of(around.config);
        let found = |exhausted| Worker::Found { caller: self, seen: seen.record.token, exhausted };
        match rules.decide(seen, owner(self.owner)) {
            Decision::Own { token } => {
                let generation = seen.record.generation;
                self.runs(token, granted_at(around.config, generation, None))
            }
            Decision::Replay { failed } => {
                let other = around.truth.payload != Some(self.payload);
                around.broken.mark(Promise::OnePayload, other);
                let told = (failed, result_of(seen.record.result.as_ref()).unwrap_or(u8::MAX));
                around.outside.tell(told, around.truth.finished, around.broken);
                Worker::Idle
            }
            Decision::TakeOver => found(false),
            Decision::Exhausted => found(true),
            Decision::InFlight { .. } | Decision::NotDue { .. } | Decision::NeedsReview { .. } => {
                Worker::Idle
            }
        }
    }

    fn taken(self, config: &Config, taken: TakenOver) -> Worker {
        match taken {
            TakenOver::Granted { granted, journal, .. } => {
                let at = granted_at(config, granted.generation, journal.first());
                self.runs(granted.token, at)
            }
            TakenOver::Reviewed => Worker::Idle,
            // It claims again, as another attempt: what it sent before may still land.
            TakenOver::Outrun if config.has(Mutant::OutrunKeepsOwner) => {
                Worker::Asking(Self { acts_until: acts_until(config), ..self })
            }
            TakenOver::Outrun => Worker::Idle,
        }
    }
}

impl Attempt {
    fn hears(self, answer: Answer, around: &mut Around<'_>) -> Worker {
        let on = |at| Worker::Runs(Self { at, ..self });
        match (answer, self.at) {
            (Answer::Renewed(renewed), _) if is_lost(renewed) => Worker::Idle,
            (Answer::Renewed(Renewed::Renewed), at) if around.config.naps == Naps::WhileItHolds => {
                Worker::Runs(Self { acts_until: acts_until(around.config), at, ..self })
            }
            (Answer::Renewed(_), at) => on(at),
            (Answer::Started(StepStarted::Started { started_at, .. }), at) => match at {
                At::Fresh { generation, .. } => on(At::Started { generation, started_at }),
                _ => on(at),
            },
            // Somebody else's entry: the body ends, and the attempt is given up.
            (Answer::Started(StepStarted::Found(_)), at) => on(at),
            (Answer::Recorded(StepRecorded::Done { .. }), At::Clearing { .. }) => on(At::Cleared),
            (Answer::Recorded(StepRecorded::Done { .. }), at) => {
                let value = match at {
                    At::Acted { value, .. } => value,
                    _ => self.by.owner,
                };
                around.broken.mark(Promise::StepStays, around.truth.step != Some(value));
                on(At::Recorded { value })
            }
            (Answer::Written(Written::Done), At::Ending { failed, value }) => {
                let told = (failed, value);
                around.outside.tell(told, around.truth.finished, around.broken);
                if around.config.has(Mutant::MessageAfterCompletion) {
                    return on(At::SendsLater);
                }
                Worker::Idle
            }
            _ => Worker::Idle,
        }
    }
}
