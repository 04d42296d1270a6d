//! What the writes of an attempt do.

use idempotent_runtime::protocol::{self, Record, State, StepRecorded, Written};

use super::Db;
use crate::config::{Class, Config};
use crate::mutant::Mutant;
use crate::property::{Broken, Promise};
use crate::request::{self, Answer, By, Gives, ID, Request};
use crate::rules::Rules;
use crate::time::NOW;

impl Db {
    pub(super) fn write_of_an_attempt(
        &mut self,
        config: &Config,
        rules: Rules,
        request: Request,
        broken: &mut Broken,
    ) -> Answer {
        let record = self.record.as_ref();
        match request {
            Request::Renew { by } => {
                let (write, renewed) = rules.renew(record, &request::renewal(by));
                self.write(by, write, broken);
                Answer::Renewed(renewed)
            }
            Request::Start { by, generation, seen } => {
                let start = request::start(config, by, generation, seen);
                let (write, started) = rules.start_step(record, self.step.as_ref(), &start);
                self.write_step(by, write, broken);
                Answer::Started(started)
            }
            Request::Record { by, generation, value } => {
                let found = request::record(config, by, generation, value);
                let (write, recorded) = rules.record_step(record, self.step.as_ref(), &found);
                // In a transaction, what is stored already is fenced: its effects must not be added to the others.
                let recorded = match config.class {
                    Class::TransactionStep if write.is_none() => StepRecorded::Fenced,
                    _ => recorded,
                };
                let rows = u8::from(config.class == Class::TransactionStep && write.is_some());
                self.rows += rows;
                self.write_step(by, write, broken);
                Answer::Recorded(recorded)
            }
            Request::Complete { by, failed, value } => {
                let completion = request::completion(config, by, failed, value);
                let (write, written) = rules.complete(record, &completion);
                self.commit(config, !failed && write.is_some(), written, broken);
                self.write(by, write, broken);
                Answer::Written(written)
            }
            Request::Release { by, gives } => {
                let (write, written) = rules.release(record, &request::release(by, gives));
                if gives == Gives::Crash && write.is_some() {
                    self.truth.lapses += 1;
                }
                // The reaper may have been first; what needs review needs it none the less.
                let reaped = gives == Gives::Review
                    && record.is_some_and(|record| record.state == State::Retryable);
                if reaped && self.truth.last == Some(by.owner) {
                    self.record = write.or(self.record.take());
                } else {
                    self.write(by, write, broken);
                }
                Answer::Written(written)
            }
            Request::Claim { .. }
            | Request::TakeOver { .. }
            | Request::Settle { .. }
            | Request::ClaimMessage { .. }
            | Request::EndDelivery { .. }
            | Request::DecideMessage { .. }
            | Request::SendLater => Answer::Nothing,
        }
    }

    /// What is committed with a completion.
    fn commit(&mut self, config: &Config, commits: bool, written: Written, broken: &mut Broken) {
        let although_fenced =
            config.has(Mutant::CommitAlthoughFenced) && written == Written::Fenced;
        let in_transaction = config.class == Class::Transaction && !config.has(Mutant::TwoCommits);
        if in_transaction && (commits || although_fenced) {
            self.rows += 1;
        }
        if commits && config.sink.is_some() && !config.has(Mutant::MessageAfterCompletion) {
            self.send(config, broken);
        }
    }

    pub(super) fn send(&mut self, config: &Config, broken: &mut Broken) {
        // A message that is not delivered yet would be lost.
        broken.mark(Promise::MessageWithCompletion, self.undelivered());
        let by = By { owner: 0, token: protocol::Token(0) };
        let sent = request::completion(config, by, false, 0);
        let record = |message| protocol::send(message, ID, "", 1, NOW);
        self.message = sent.messages.first().map(record);
    }

    fn write(&mut self, by: By, write: Option<Record>, broken: &mut Broken) {
        let Some(write) = write else { return };
        let owns = self.is_running() && self.truth.last == Some(by.owner);
        broken.mark(Promise::OneOwner, !owns);
        self.record = Some(write);
    }

    fn write_step(&mut self, by: By, write: Option<protocol::StepWrite>, broken: &mut Broken) {
        let Some(write) = write else { return };
        self.write(by, Some(write.record), broken);
        self.step = Some(write.step);
    }
}
