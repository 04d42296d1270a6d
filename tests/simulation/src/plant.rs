//! Faults that the checker must catch.

use idempotent_runtime::Clock as _;
use idempotent_runtime::protocol::{
    Claimed, Completion, Micros, Record, Release, ReleaseTo, StepRecord, StepStarted, TakenOver,
};
use idempotent_runtime::store::{Memory, Store as _, StoreError, StoreErrorKind};

use crate::clock::StoreClock;
use crate::store::{Answer, Request, at_once};

/// A fault in the store, or in a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plant {
    /// The store completes for whoever asks.
    CompletesForAnybody,
    /// The store releases for whoever asks.
    ReleasesForAnybody,
    /// The store records steps for whoever asks.
    RecordsForAnybody,
    /// The store lets an execution be taken over whose lease has not lapsed.
    ClaimIsGrantedToTwo,
    /// The journal is lost on takeover.
    JournalIsLost,
    /// The start of a step is acknowledged and not written.
    StartIsLost,
    /// Messages are not committed with the completion.
    MessageIsLost,
    /// Messages have no order.
    OrderIsLost,
    /// A lease never ends.
    LeaseNeverEnds,
    /// The payload is not kept.
    FingerprintIsLost,
    /// The store purges what is finished at once.
    ResultIsForgotten,
    /// The store claims a message again that must not be delivered twice.
    MessageIsClaimedAgain,
    /// The store puts into review what may be retried.
    ReviewWithoutReason,
    /// The store refuses every third claim as one of another schema.
    SchemaIsAnother,
    /// A handler records a step that it did not do.
    RecordWithoutEffect,
    /// A handler leaves a task behind.
    TaskIsLeft,
    /// A handler has an effect outside of a step that must happen at most once.
    EffectOutsideAStep,
    /// A handler makes its provider key of the attempt.
    KeyOfTheAttempt,
    /// Who calls the handler has an effect after it returned.
    EffectAfterTheReturn,
}

/// Longer than any simulation, in milliseconds.
const FOR_EVER_MS: u64 = 1 << 40;

impl Plant {
    /// Does what `request` asks for as a store with this fault does.
    pub(crate) fn apply(
        self,
        request: &Request,
        store: &Memory,
        clock: &StoreClock,
    ) -> Result<Answer, StoreError> {
        let later = |ms| Micros(clock.now_us()).plus_ms(ms);
        match (self, request) {
            (Self::ClaimIsGrantedToTwo, Request::Claim(_)) => {
                seen_later(request, store, later(60_000))
            }
            (Self::ClaimIsGrantedToTwo, Request::TakeOver(_)) => {
                done_at(request, store, clock, later(60_000))
            }
            (Self::ResultIsForgotten, Request::Purge(..)) => {
                done_at(request, store, clock, later(FOR_EVER_MS))
            }
            (Self::SchemaIsAnother, Request::Claim(_)) if clock.now_us() % 3 == 0 => {
                Err(StoreError::new(StoreErrorKind::Schema, "another schema"))
            }
            (Self::StartIsLost, Request::StartSteps(starts)) => {
                let now = later(0);
                let started = StepStarted::Started { started_at: now, now };
                Ok(Answer::Started(vec![started; starts.len()]))
            }
            (Self::JournalIsLost, Request::TakeOver(_)) => {
                let mut answer = request.apply(store)?;
                if let Answer::TakenOver(taken) = &mut answer {
                    for taken in taken {
                        if let TakenOver::Granted { journal, .. } = taken {
                            journal.clear();
                        }
                    }
                }
                Ok(answer)
            }
            _ => self.bend(request, store).apply(store),
        }
    }

    /// The request as the store takes it.
    fn bend(self, request: &Request, store: &Memory) -> Request {
        let row = |id| {
            let rows = at_once(store.read(&[id])).unwrap_or_default();
            rows.into_iter().next().flatten().map(|row| row.record)
        };
        match (self, request) {
            (Self::CompletesForAnybody, Request::Complete(it)) => {
                let owned = |it: &Completion| match row(it.id) {
                    Some(Record { owner, token, .. }) => Completion { owner, token, ..it.clone() },
                    None => it.clone(),
                };
                Request::Complete(it.iter().map(owned).collect())
            }
            (Self::ReleasesForAnybody, Request::Release(it)) => {
                let owned = |it: &Release| match row(it.id) {
                    Some(Record { owner, token, .. }) => Release { owner, token, ..it.clone() },
                    None => it.clone(),
                };
                Request::Release(it.iter().map(owned).collect())
            }
            (Self::RecordsForAnybody, Request::RecordSteps(it)) => {
                let owned = |it: &StepRecord| match row(it.id) {
                    Some(Record { owner, token, .. }) => StepRecord { owner, token, ..it.clone() },
                    None => it.clone(),
                };
                Request::RecordSteps(it.iter().map(owned).collect())
            }
            (Self::MessageIsLost, Request::Complete(it)) => {
                let mut bent = it.clone();
                bent.iter_mut().for_each(|it| it.messages.clear());
                Request::Complete(bent)
            }
            (Self::OrderIsLost, Request::Complete(it)) => {
                let mut bent = it.clone();
                bent.iter_mut()
                    .flat_map(|it| &mut it.messages)
                    .for_each(|it| it.ordering_key = None);
                Request::Complete(bent)
            }
            (Self::MessageIsClaimedAgain, Request::ClaimMessages(it)) => {
                let mut bent = it.clone();
                bent.iter_mut().for_each(|it| it.at_most_once = false);
                Request::ClaimMessages(bent)
            }
            (Self::ReviewWithoutReason, Request::Release(it)) => {
                let mut bent = it.clone();
                bent.iter_mut().for_each(|it| it.to = ReleaseTo::Review);
                Request::Release(bent)
            }
            (Self::LeaseNeverEnds, Request::Claim(it)) => {
                let mut bent = it.clone();
                for claim in &mut bent {
                    claim.limits.lease_ms = FOR_EVER_MS;
                    claim.limits.max_runtime_ms = FOR_EVER_MS;
                }
                Request::Claim(bent)
            }
            (Self::FingerprintIsLost, Request::Claim(it)) => {
                let mut bent = it.clone();
                bent.iter_mut().for_each(|it| it.fingerprint = None);
                Request::Claim(bent)
            }
            (_, other) => other.clone(),
        }
    }
}

/// Applies a request as if it were `at`.
fn done_at(
    request: &Request,
    store: &Memory,
    clock: &StoreClock,
    at: Micros,
) -> Result<Answer, StoreError> {
    clock.set(Some(at.0));
    let answer = request.apply(store);
    clock.set(None);
    answer
}

/// Shows what a claim finds as if it were `at`.
fn seen_later(request: &Request, store: &Memory, at: Micros) -> Result<Answer, StoreError> {
    let mut answer = request.apply(store)?;
    if let Answer::Claimed(claimed) = &mut answer {
        for claimed in claimed {
            if let Claimed::Found(seen) = claimed {
                seen.now = at;
            }
        }
    }
    Ok(answer)
}
