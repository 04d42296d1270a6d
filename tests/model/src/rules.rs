//! The functions of the protocol, each as it is, or with the deviation of a mutant.

use idempotent_runtime::protocol::{
    self, Claim, Claimed, Completion, Decision, DeliveryEnd, Limits, MessageClaim, MessageRecord,
    MessageState, Micros, Owner, Record, Release, Renewal, Renewed, Seen, Settled, Settlement,
    State, Step, StepFound, StepRecord, StepRecorded, StepStart, StepStarted, StepWrite, TakeOver,
    TakenOver, Token, Written,
};

use crate::config::Config;
use crate::mutant::Mutant;
use crate::time::NOW;

/// What a store does in this world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) mutant: Option<Mutant>,
    pub(crate) limits: Limits,
}

impl Rules {
    pub(crate) fn of(config: &Config) -> Self {
        Self { mutant: config.mutant, limits: config.limits() }
    }

    fn has(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(crate) fn claim(self, record: Option<&Record>, claim: &Claim) -> (Option<Record>, Claimed) {
        let record = record.filter(|_| !self.has(Mutant::ClaimOverwrites));
        let (mut write, mut answer) = protocol::claim(record, claim, NOW);
        if self.has(Mutant::GuardWithoutOwner)
            && let (Some(write), Claimed::Granted(granted)) = (&mut write, &mut answer)
        {
            (write.token, granted.token) = (Token(1), Token(1));
        }
        (write, answer)
    }

    pub(crate) fn decide(self, seen: &Seen, me: Owner) -> Decision {
        if self.has(Mutant::TakeoverIgnoresLease) {
            let record = lapsed(&seen.record);
            return protocol::decide(&Seen { record, now: seen.now }, me);
        }
        protocol::decide(seen, me)
    }

    pub(crate) fn take_over(
        self,
        record: Option<&Record>,
        journal: &[Step],
        request: &TakeOver,
    ) -> (Option<Record>, TakenOver) {
        let mut request = request.clone();
        let mut forged = None;
        match (self.mutant, record) {
            (Some(Mutant::TakeoverUnconditional), Some(record)) => request.seen = record.token,
            (Some(Mutant::TakeoverIgnoresLease), Some(record)) => forged = Some(lapsed(record)),
            _ => {}
        }
        let seen = forged.as_ref().or(record);
        let (mut write, mut answer) = protocol::take_over(seen, journal, &request, NOW);
        if let (Some(write), Some(record)) = (&mut write, record) {
            match self.mutant {
                Some(Mutant::TakeoverKeepsOwner) => {
                    (write.owner, write.token) = (record.owner, record.token);
                }
                Some(Mutant::TakeoverKeepsToken) => {
                    write.token = record.token;
                    if let TakenOver::Granted { granted, .. } = &mut answer {
                        granted.token = record.token;
                    }
                }
                Some(Mutant::CrashesUncounted) => write.crashes = record.crashes,
                _ => {}
            }
        }
        (write, answer)
    }

    /// The record as a write that leaves out parts of the guard sees it.
    fn seen_by_a_write(
        self,
        record: Option<&Record>,
        owner: Owner,
        token: Token,
        unguarded: Mutant,
    ) -> Option<Record> {
        let mut record = record?.clone();
        match self.mutant {
            Some(mutant) if mutant == unguarded => {
                (record.owner, record.token, record.state) = (owner, token, State::Running);
            }
            Some(Mutant::GuardWithoutOwner | Mutant::GuardWithoutOwnerFailover) => {
                record.owner = owner;
            }
            Some(Mutant::GuardWithoutToken) => record.token = token,
            Some(Mutant::GuardWithoutState) => record.state = State::Running,
            _ => {}
        }
        Some(record)
    }

    pub(crate) fn renew(
        self,
        record: Option<&Record>,
        request: &Renewal,
    ) -> (Option<Record>, Renewed) {
        let mut seen = record.cloned();
        if let Some(seen) = seen.as_mut().filter(|_| self.has(Mutant::RenewalUncapped)) {
            seen.limits.max_runtime_ms = u64::from(u32::MAX);
        }
        let (write, answer) = protocol::renew(seen.as_ref(), request, NOW);
        (write.map(|write| Record { limits: self.limits, ..write }), answer)
    }

    pub(crate) fn complete(
        self,
        record: Option<&Record>,
        request: &Completion,
    ) -> (Option<Record>, Written) {
        let Completion { owner, token, .. } = *request;
        let seen = self.seen_by_a_write(record, owner, token, Mutant::UnguardedCompletion);
        let (write, answer) = protocol::complete(seen.as_ref(), request, NOW);
        (write.map(|write| unforged(write, record)), answer)
    }

    pub(crate) fn release(
        self,
        record: Option<&Record>,
        request: &Release,
    ) -> (Option<Record>, Written) {
        let Release { owner, token, .. } = *request;
        let mut seen = self.seen_by_a_write(record, owner, token, Mutant::UnguardedCompletion);
        if let Some(seen) = seen.as_mut().filter(|_| self.has(Mutant::ReleaseAfterCompletion)) {
            seen.state = State::Running;
        }
        let (write, answer) = protocol::release(seen.as_ref(), request, NOW);
        (write.map(|write| unforged(write, record)), answer)
    }

    pub(crate) fn start_step(
        self,
        record: Option<&Record>,
        step: Option<&Step>,
        request: &StepStart,
    ) -> (Option<StepWrite>, StepStarted) {
        let StepStart { owner, token, .. } = *request;
        let seen = self.seen_by_a_write(record, owner, token, Mutant::UnguardedRecord);
        let (write, answer) = protocol::start_step(seen.as_ref(), step, request, NOW);
        (write.map(|write| unforged_step(write, record)), answer)
    }

    pub(crate) fn record_step(
        self,
        record: Option<&Record>,
        step: Option<&Step>,
        request: &StepRecord,
    ) -> (Option<StepWrite>, StepRecorded) {
        let StepRecord { owner, token, .. } = *request;
        let unguarded = match self.mutant {
            Some(Mutant::RecordOverwrites) => Mutant::RecordOverwrites,
            _ => Mutant::UnguardedRecord,
        };
        let seen = self.seen_by_a_write(record, owner, token, unguarded);
        let step = step.filter(|_| !self.has(Mutant::RecordOverwrites));
        let (write, answer) = protocol::record_step(seen.as_ref(), step, request, NOW);
        (write.map(|write| unforged_step(write, record)), answer)
    }

    pub(crate) fn reap(self, record: &Record) -> Option<Record> {
        let seen = match self.mutant {
            Some(Mutant::ReaperIgnoresLease) => lapsed(record),
            _ => record.clone(),
        };
        let mut write = protocol::reap(&seen, NOW)?;
        match self.mutant {
            Some(Mutant::ReaperFails) => write.state = State::Failed,
            Some(Mutant::CrashesUncounted) => write.crashes = record.crashes,
            _ => {}
        }
        Some(write)
    }

    pub(crate) fn abandoned(self, record: &Record) -> Option<Record> {
        protocol::abandoned(record, NOW)
    }

    /// Whether the purge deletes it, given whether a message of it is not delivered.
    pub(crate) fn purges(self, record: &Record, undelivered: bool) -> bool {
        let running = self.has(Mutant::PurgesRunning) && record.state == State::Running;
        let kept = undelivered && !self.has(Mutant::PurgesUndelivered);
        (running || protocol::expired(record, NOW)) && !kept
    }

    fn seen_by_a_person(self, record: Option<&Record>, request: &Settlement) -> Option<Record> {
        let mut seen = record.cloned()?;
        match self.mutant {
            Some(Mutant::SettlesUnseen) => seen.token = request.seen,
            Some(Mutant::DecidesTooEarly) => seen.alive_until = NOW,
            _ => {}
        }
        Some(seen)
    }

    pub(crate) fn settle(
        self,
        record: Option<&Record>,
        request: &Settlement,
    ) -> (Option<Record>, Settled) {
        let seen = self.seen_by_a_person(record, request);
        protocol::settle(seen.as_ref(), request, NOW)
    }

    pub(crate) fn settle_step(
        self,
        record: Option<&Record>,
        step: Option<&Step>,
        request: &Settlement,
        found: &StepFound,
    ) -> (Option<StepWrite>, Settled) {
        let seen = self.seen_by_a_person(record, request);
        protocol::settle_step(seen.as_ref(), step, request, found, NOW)
    }

    pub(crate) fn claim_message(
        self,
        message: &MessageRecord,
        claim: &MessageClaim,
    ) -> Option<MessageRecord> {
        let mut claim = claim.clone();
        let mut seen = message.clone();
        if self.has(Mutant::RedeliversBlindly) {
            (seen.at_most_once, claim.at_most_once) = (false, false);
        }
        protocol::claim_message(&seen, false, &claim, NOW)
    }

    pub(crate) fn end_delivery(
        self,
        message: Option<&MessageRecord>,
        request: &DeliveryEnd,
    ) -> (Option<MessageRecord>, Written) {
        let mut seen = message.cloned();
        if let Some(seen) = seen.as_mut().filter(|_| self.has(Mutant::UnguardedDeliveryEnd)) {
            (seen.owner, seen.token) = (request.owner, request.token);
            seen.state = MessageState::Sending;
        }
        protocol::end_delivery(seen.as_ref(), request, NOW)
    }
}

/// The record as one whose lease is over.
fn lapsed(record: &Record) -> Record {
    Record { lease_until: Micros(NOW.0 - 1), ..record.clone() }
}

/// What a statement writes that left out parts of its guard: it does not set the columns that it did not look at.
fn unforged(write: Record, record: Option<&Record>) -> Record {
    match record {
        Some(Record { owner, token, .. }) => Record { owner: *owner, token: *token, ..write },
        None => write,
    }
}

fn unforged_step(write: StepWrite, record: Option<&Record>) -> StepWrite {
    let mut write = write;
    if let Some(record) = record {
        (write.record.owner, write.record.token) = (record.owner, record.token);
        write.record.state = record.state;
    }
    write
}
