//! Asking the store for an execution, and the claim as a value.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::flight::Lead;
use crate::lease::{Attempt, Entered};
use crate::metrics;
use crate::operation::Request;
use crate::protocol::{
    Claim, Claimed, Decision, Granted, Limits, Micros, Owner, Record, Release, ReleaseTo, Seen,
    Step, TakeOver, TakenOver, Target, decide,
};
use crate::random;
use crate::runtime::Runtime;
use crate::store::{StoreError, StoreErrorKind};

/// A store that is away is asked this often before the call fails.
const TRIES_MAX: u32 = 3;
/// Between two tries.
const RETRY_EVERY: Duration = Duration::from_millis(100);
/// A claimer that is outrun this often in a row tells its caller to come back.
const OUTRUN_MAX: u32 = 5;

/// What a caller was told.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The execution is the caller's.
    Granted(GrantedClaim),
    /// It was there, and not to be claimed; followers have been told.
    Found(Arc<Seen>),
}

/// What a takeover found of the attempts before.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Their steps.
    pub(crate) journal: Vec<Step>,
    /// The store's time when it was read.
    pub(crate) now: Micros,
    /// The process's time when it was asked for.
    pub(crate) asked: Duration,
    /// The process's time when it was answered.
    pub(crate) answered: Duration,
}

/// A claim that was granted and has no outcome yet. Dropped so, it is released: no key stays blocked because
/// its caller left.
#[derive(Debug)]
pub(crate) struct GrantedClaim {
    runtime: Runtime,
    attempt: Arc<Attempt>,
    taken: Option<Taken>,
    /// Kept until the claim has an outcome or is released, so that followers do not claim before. Empty only
    /// while the claim is being dropped.
    lead: Option<Lead>,
    settled: bool,
}

impl GrantedClaim {
    fn new(
        runtime: &Runtime,
        attempt: Attempt,
        taken: Option<Taken>,
        lead: Lead,
        request: &Request,
    ) -> Self {
        let attempt = Arc::new(attempt);
        runtime.attempts().insert(&attempt);
        runtime.start_heartbeat();
        lead.running(&attempt, request.fingerprint.as_ref());
        Self { runtime: runtime.clone(), attempt, taken, lead: Some(lead), settled: false }
    }

    /// What the takeover found, if it was one; once.
    pub(crate) fn taken(&mut self) -> Option<Taken> {
        self.taken.take()
    }

    pub(crate) fn attempt(&self) -> &Arc<Attempt> {
        &self.attempt
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The outcome is stored, or the execution is another's: nothing is left to release.
    pub(crate) fn settled(mut self) -> Option<Lead> {
        self.settled = true;
        self.lead.take()
    }

    /// The request that gives this claim up.
    pub(crate) fn release(&self, to: ReleaseTo, reason: &str) -> Release {
        if let Some(lead) = &self.lead {
            lead.leaving();
        }
        let Attempt { id, owner, token, .. } = *self.attempt;
        Release { id, owner, token, to, reason: reason.to_owned() }
    }
}

impl Drop for GrantedClaim {
    fn drop(&mut self) {
        self.attempt.end();
        let owner = self.attempt.owner;
        if self.settled {
            self.runtime.attempts().remove(owner);
            return;
        }
        let release =
            self.release(ReleaseTo::Retry { delay_ms: 0 }, "dropped before it had an outcome");
        // The attempt stays on the list until the release is through, so that a shutdown waits for it.
        self.runtime.queue_release(release, owner, self.lead.take());
    }
}

/// Claims the execution, or says what is there. Followers wait for the answer, even if the caller leaves.
///
/// Never dropped half-way by its caller: see [`Runtime::in_own_task`]. A shutdown waits while `_entered` lives.
pub(crate) async fn ask(
    runtime: Runtime,
    request: Arc<Request>,
    limits: Limits,
    lead: Lead,
    _entered: Entered,
) -> Result<Asked, Error> {
    let mut outrun = 0;
    loop {
        // Another attempt each time: what the one before sent may still land, and is not this one's.
        let owner = Owner(random::uuid().into_bytes());
        let claim = first_claim(&request, owner, limits);
        // Taken before the claim is sent: the local deadline must not lie behind the store's.
        let started = runtime.clock().elapsed();
        let granted = |granted: Granted, taken: Option<Taken>, lead: Lead| {
            let handler = request.handler.name();
            let attempt = Attempt::new(request.id, owner, granted, handler, limits, started);
            Ok(Asked::Granted(GrantedClaim::new(&runtime, attempt, taken, lead, &request)))
        };
        let found = |seen: Seen, lead: Lead| {
            let seen = Arc::new(seen);
            lead.found(&seen);
            Ok(Asked::Found(seen))
        };
        let seen = match claim_one(&runtime, &claim).await {
            Ok(Claimed::Granted(fresh)) => return granted(fresh, None, lead),
            Ok(Claimed::TooOld) => return Err(Error::TooOld),
            Ok(Claimed::Found(seen)) => seen,
            Err(error) => return failed(error, lead),
        };
        // What is stored is compared as it is first: most payloads are the same, and hashed once.
        let is_same = claim.fingerprint == seen.record.fingerprint;
        if !is_same && let Some(fields) = mismatch(&request, &seen)? {
            metrics::claim(request.handler, request.id, "mismatch");
            return Err(Error::PayloadMismatch { fields });
        }
        let target = match decide(&seen, owner) {
            Decision::Own { token } => {
                let Seen { record, .. } = *seen;
                // Its own first claim: a takeover whose acknowledgement is lost is sent again as one.
                let Record { attempts, crashes, generation, .. } = record;
                return granted(Granted { token, attempts, crashes, generation }, None, lead);
            }
            Decision::TakeOver => Target::Run,
            Decision::Exhausted => Target::Review,
            Decision::Replay { .. }
            | Decision::InFlight { .. }
            | Decision::NotDue { .. }
            | Decision::NeedsReview { .. } => return found(*seen, lead),
        };
        let take_over = TakeOver {
            id: request.id,
            seen: seen.record.token,
            owner,
            version: claim.version,
            limits,
            target,
        };
        let taken = match take_over_one(&runtime, &take_over).await {
            Ok(taken) => taken,
            Err(error) => return failed(error, lead),
        };
        match taken {
            TakenOver::Granted { granted: fresh, journal, now } => {
                metrics::takeover(request.handler.name(), seen.record.state);
                let answered = runtime.clock().elapsed();
                let taken = Taken { journal, now, asked: started, answered };
                return granted(fresh, Some(taken), lead);
            }
            TakenOver::Reviewed => metrics::lapse(request.handler.name(), "review"),
            TakenOver::Outrun => {
                outrun += 1;
                if outrun == OUTRUN_MAX {
                    return found(*seen, lead);
                }
            }
        }
    }
}

fn failed(error: StoreError, lead: Lead) -> Result<Asked, Error> {
    lead.failed(&error);
    Err(error.into())
}

fn first_claim(request: &Request, owner: Owner, limits: Limits) -> Claim {
    let fingerprint = request.fingerprint.as_ref();
    Claim {
        id: request.id,
        identity: Arc::clone(&request.identity),
        owner,
        version: request.handler.current_version(),
        limits,
        fingerprint: fingerprint.map(|taken| taken.stored(&request.fingerprint_key)),
        issued_at: request.issued_at,
    }
}

/// What differs between the payload and the one that the execution was claimed with.
pub(crate) fn mismatch(request: &Request, seen: &Seen) -> Result<Option<Vec<String>>, Error> {
    let (Some(stored), Some(fingerprint)) = (&seen.record.fingerprint, &request.fingerprint) else {
        return Ok(None);
    };
    fingerprint.differs(&request.fingerprint_key, stored).map_err(|corrupt| {
        let id = request.id;
        let what = format!("the fingerprint of execution {id} is not one that this crate writes");
        StoreError::with_source(StoreErrorKind::Corrupt, what, corrupt).into()
    })
}

async fn claim_one(runtime: &Runtime, claim: &Claim) -> Result<Claimed, StoreError> {
    let mut tries = Tries::new(runtime, TRIES_MAX);
    loop {
        match runtime.store().claim(slice::from_ref(claim)).await {
            Ok(answers) => return only(answers),
            Err(error) => tries.again(error).await?,
        }
    }
}

async fn take_over_one(runtime: &Runtime, request: &TakeOver) -> Result<TakenOver, StoreError> {
    let mut tries = Tries::new(runtime, TRIES_MAX);
    loop {
        match runtime.store().take_over(slice::from_ref(request)).await {
            Ok(answers) => return only(answers),
            Err(error) => tries.again(error).await?,
        }
    }
}

/// The answer to a batch of one.
pub(crate) fn only<A>(answers: Vec<A>) -> Result<A, StoreError> {
    answers.into_iter().next().ok_or_else(|| {
        StoreError::new(StoreErrorKind::Other, "the store gave no answer to a batch of one")
    })
}

/// Sends a batch of one to a store, and again while that is away and the attempt's lease holds.
pub(crate) async fn while_held<A, F>(
    runtime: &Runtime,
    attempt: &Attempt,
    mut send: impl FnMut() -> F,
) -> Result<A, StoreError>
where
    F: Future<Output = Result<Vec<A>, StoreError>>,
{
    let clock = runtime.clock();
    loop {
        match send().await {
            Err(error) if error.is_transient() && attempt.holds(clock) => {
                tracing::warn!(%error, "the store is away; asking again while the lease holds");
                clock.sleep_until(clock.elapsed() + RETRY_EVERY).await;
            }
            answered => return answered.and_then(only),
        }
    }
}

/// Asks a store again that is away: the same request is recognised.
pub(crate) struct Tries<'a> {
    runtime: &'a Runtime,
    left: u32,
}

impl<'a> Tries<'a> {
    pub(crate) fn new(runtime: &'a Runtime, tries_max: u32) -> Self {
        Self { runtime, left: tries_max }
    }

    /// Lets a little time pass before the next try, or returns the error when there is to be none.
    pub(crate) async fn again(&mut self, error: StoreError) -> Result<(), StoreError> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || !error.is_transient() {
            return Err(error);
        }
        tracing::warn!(%error, "the store is away; asking again");
        let clock = self.runtime.clock();
        clock.sleep_until(clock.elapsed() + RETRY_EVERY).await;
        Ok(())
    }
}
