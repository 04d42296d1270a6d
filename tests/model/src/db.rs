//! The database: what is stored, what a request does to it, and what is true of it whatever is stored.

mod attempt;
mod state;

use idempotent_runtime::protocol::{
    self, Claimed, MessageRecord, MessageState, Record, Renewed, SettleTo, Settled, State, Step,
    TakenOver,
};

use crate::config::{Class, Config};
use crate::mutant::Mutant;
use crate::property::{Broken, Promise};
use crate::request::{self, Answer, Decides, OF_A_PERSON, Request, Value, recorded, result_of};
use crate::rules::Rules;
use crate::time::NOW;

/// What is stored, and what is true of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Db {
    pub(crate) record: Option<Record>,
    pub(crate) step: Option<Step>,
    pub(crate) message: Option<MessageRecord>,
    /// Rows that the effect of a transaction has written.
    pub(crate) rows: u8,
    pub(crate) truth: Truth,
}

/// What has happened to the record, told by what was granted and written, not by what is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Truth {
    /// The attempt that was granted last, unless a person has decided since.
    pub(crate) last: Option<u8>,
    /// The payload of the first claim.
    pub(crate) payload: Option<u8>,
    /// Whether it is finished, with an error, and the result.
    pub(crate) finished: Option<(bool, Value)>,
    /// What is recorded of the step.
    pub(crate) step: Option<Value>,
    /// Attempts that ended without an outcome.
    pub(crate) lapses: u8,
}

/// What becomes of what callers were told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Stays,
    /// It is run again because a person wants so.
    Reopened,
}

impl Db {
    pub(crate) fn is_running(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.state == State::Running)
    }

    /// Whether an attempt completed it, without an error.
    pub(crate) fn completed_by_an_attempt(&self) -> bool {
        self.record.as_ref().is_some_and(|record| {
            record.state == State::Completed
                && result_of(record.result.as_ref()) != Some(OF_A_PERSON)
        })
    }

    pub(crate) fn undelivered(&self) -> bool {
        self.message.as_ref().is_some_and(protocol::holds_back)
    }

    /// What a request does.
    pub(crate) fn apply(
        &mut self,
        config: &Config,
        request: Request,
        broken: &mut Broken,
    ) -> (Answer, Era) {
        let rules = Rules::of(config);
        let mut era = Era::Stays;
        let answer = match request {
            Request::Claim { owner, payload } => self.claim(rules, owner, payload, broken),
            Request::TakeOver { owner, payload, seen, to_review } => {
                self.take_over(rules, (owner, payload), seen, to_review, broken)
            }
            Request::Settle { seen, decides } => {
                let settled = self.settle(config, rules, seen, decides, broken);
                if decides == Decides::Reopen && settled == Settled::Done {
                    era = Era::Reopened;
                }
                Answer::Settled
            }
            Request::ClaimMessage { owner, again } => {
                self.claim_message(config, rules, owner, again)
            }
            Request::EndDelivery { by, delivers } => {
                let end = request::delivery_end(by, delivers);
                let (write, written) = rules.end_delivery(self.message.as_ref(), &end);
                self.write_message(write, broken);
                Answer::Written(written)
            }
            Request::DecideMessage { seen, delivered } => {
                let decision = request::message_decision(seen, delivered);
                let (write, _) = protocol::decide_message(self.message.as_ref(), &decision, NOW);
                self.write_message(write, broken);
                Answer::Settled
            }
            Request::SendLater => {
                self.send(config, broken);
                Answer::Nothing
            }
            Request::Renew { .. }
            | Request::Start { .. }
            | Request::Record { .. }
            | Request::Complete { .. }
            | Request::Release { .. } => self.write_of_an_attempt(config, rules, request, broken),
        };
        self.look(broken, era);
        (answer, era)
    }

    fn claim(&mut self, rules: Rules, owner: u8, payload: u8, broken: &mut Broken) -> Answer {
        let (write, answer) =
            rules.claim(self.record.as_ref(), &request::claim(rules.limits, owner, payload));
        if let Some(write) = write {
            self.overtaken(broken);
            self.truth.last = Some(owner);
            self.truth.payload = Some(payload);
            self.record = Some(write);
        }
        Answer::Claimed(answer)
    }

    fn take_over(
        &mut self,
        rules: Rules,
        (owner, payload): (u8, u8),
        seen: protocol::Token,
        to_review: bool,
        broken: &mut Broken,
    ) -> Answer {
        let journal: Vec<Step> = self.step.iter().cloned().collect();
        let request = request::take_over(rules.limits, owner, seen, to_review);
        let (write, answer) = rules.take_over(self.record.as_ref(), &journal, &request);
        let Some(write) = write else { return Answer::TakenOver(answer) };
        self.overtaken(broken);
        if self.is_running() {
            self.truth.lapses += 1;
        }
        if matches!(answer, TakenOver::Granted { .. }) {
            let before = self.record.as_ref().map(|record| record.token);
            broken.mark(Promise::TokensRise, before.is_some_and(|before| write.token <= before));
            broken.mark(Promise::OnePayload, self.truth.payload != Some(payload));
            self.truth.last = Some(owner);
        }
        self.record = Some(write);
        Answer::TakenOver(answer)
    }

    /// What runs is about to be taken from the attempt that runs it.
    fn overtaken(&self, broken: &mut Broken) {
        let holds = |record: &Record| record.state == State::Running && record.lease_until >= NOW;
        broken.mark(Promise::LeaseHolds, self.record.as_ref().is_some_and(holds));
    }

    fn settle(
        &mut self,
        config: &Config,
        rules: Rules,
        seen: protocol::Token,
        decides: Decides,
        broken: &mut Broken,
    ) -> Settled {
        let request = request::settlement(seen, decides);
        let record = self.record.as_ref();
        let other = record.is_some_and(|record| record.token != seen);
        let settled = if let SettleTo::Step { found, .. } = &request.to {
            let (write, settled) = rules.settle_step(record, self.step.as_ref(), &request, found);
            if let Some(write) = write {
                self.record = Some(write.record);
                self.step = Some(write.step);
            }
            settled
        } else {
            let (write, settled) = rules.settle(record, &request);
            self.record = write.or(self.record.take());
            settled
        };
        if settled == Settled::Done {
            broken.mark(Promise::DecidedAsSeen, other);
            self.truth.last = None;
            if self.record.as_ref().is_some_and(|record| record.state == State::Retryable) {
                self.truth.lapses = 0;
            }
            if decides == Decides::Reopen {
                self.truth.finished = None;
                if config.class == Class::Transaction {
                    self.rows = 0;
                }
            }
        }
        settled
    }

    fn claim_message(&mut self, config: &Config, rules: Rules, owner: u8, again: bool) -> Answer {
        let (Some(sink), Some(message)) = (config.sink, &self.message) else {
            return Answer::Message(None);
        };
        let claim = request::message_claim(sink, owner, again);
        if protocol::claimed_before(message, &claim) {
            return Answer::Message(Some(message.clone()));
        }
        let write = rules.claim_message(message, &claim);
        if let Some(write) = &write {
            self.message = Some(write.clone());
        }
        Answer::Message(write.filter(|write| write.state == MessageState::Sending))
    }

    fn write_message(&mut self, write: Option<MessageRecord>, broken: &mut Broken) {
        let Some(write) = write else { return };
        let was = self.message.as_ref().map(|message| message.state);
        let undone = was == Some(MessageState::Delivered) && write.state != MessageState::Delivered;
        broken.mark(Promise::DeliveredStays, undone);
        self.message = Some(write);
    }

    /// The reaper comes by. Whether it wrote.
    pub(crate) fn reap(&mut self, config: &Config, broken: &mut Broken) -> bool {
        let rules = Rules::of(config);
        let Some(write) = self.record.as_ref().and_then(|record| rules.reap(record)) else {
            return false;
        };
        self.overtaken(broken);
        self.truth.lapses += 1;
        self.record = Some(write);
        self.look(broken, Era::Stays);
        true
    }

    /// The purge comes by. What it did.
    pub(crate) fn purge(&mut self, config: &Config, broken: &mut Broken) -> Purged {
        let rules = Rules::of(config);
        let Some(record) = &self.record else { return Purged::Nothing };
        if let Some(write) = rules.abandoned(record) {
            self.record = Some(write);
            self.look(broken, Era::Stays);
            return Purged::Reviewed;
        }
        if !rules.purges(record, self.undelivered()) {
            return Purged::Nothing;
        }
        self.overtaken(broken);
        broken.mark(Promise::MessageWithCompletion, self.undelivered());
        let step = self.step.take().filter(|_| config.has(Mutant::PurgeLeavesSteps));
        *self = Self { step, ..Self::default() };
        Purged::Deleted
    }

    /// Compares what is stored with what was before.
    fn look(&mut self, broken: &mut Broken, era: Era) {
        let finished = self.record.as_ref().filter(|record| record.state.is_finished());
        let finished = finished.map(|record| {
            (record.state == State::Failed, result_of(record.result.as_ref()).unwrap_or(u8::MAX))
        });
        let before = self.truth.finished;
        broken.mark(
            Promise::ResultStays,
            before.is_some() && before != finished && era == Era::Stays,
        );
        self.truth.finished = finished;
        let step = self.step.as_ref().and_then(recorded);
        let before = self.truth.step;
        broken.mark(Promise::StepStays, before.is_some() && before != step);
        self.truth.step = step;
    }
}

/// What a purge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purged {
    Nothing,
    Reviewed,
    Deleted,
}

/// Whether the lease of one that asks for it was prolonged, or it is told that it has lost it.
pub(crate) fn is_lost(renewed: Renewed) -> bool {
    renewed == Renewed::Lost
}

/// What a claim was granted, if it was.
pub(crate) fn granted(claimed: &Claimed) -> Option<protocol::Granted> {
    match claimed {
        Claimed::Granted(granted) => Some(*granted),
        Claimed::Found(_) | Claimed::TooOld => None,
    }
}
