//! What the properties are written with: a store on its bench, and executions in every state.

mod steps;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;

use super::{Elsewhere, Factory};
use crate::protocol::{
    Claim, Claimed, Completion, ExecutionId, Granted, Identity, Limits, Micros, Owner, Record,
    Release, ReleaseTo, Renewal, Renewed, SettleTo, Settled, Settlement, Step, StoredResult,
    TakeOver, TakenOver, Target, Token, Written,
};
use crate::store::{Execution, Store};
pub(super) use steps::*;

/// Seconds of the limits below, far enough apart that no property hinges on how long a call takes.
pub(super) const LEASE_S: u64 = 600;
pub(super) const MAX_RUNTIME_S: u64 = 6_000;
pub(super) const RETAIN_S: u64 = 60_000;
pub(super) const CRASHES_MAX: u32 = 2;

/// The limits of [`claim`].
pub(super) fn limits() -> Limits {
    Limits {
        lease_ms: LEASE_S * 1_000,
        max_runtime_ms: MAX_RUNTIME_S * 1_000,
        crashes_max: CRASHES_MAX,
        retain_ms: RETAIN_S * 1_000,
    }
}

/// The id of the `n`th execution; ids rise with `n`.
pub(super) fn id(n: u16) -> ExecutionId {
    let mut bytes = [0xA5; 16];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    ExecutionId(bytes)
}

/// The `n`th owner.
pub(super) fn owner(n: u16) -> Owner {
    let mut bytes = [0x5A; 16];
    bytes[14..].copy_from_slice(&n.to_be_bytes());
    Owner(bytes)
}

/// A claim of the `n`th execution by the owner of the same number.
pub(super) fn claim(n: u16) -> Claim {
    Claim {
        id: id(n),
        identity: Identity {
            namespace: "payments".to_owned(),
            tenant: "acme".to_owned(),
            handler: "charge".to_owned(),
            key: Some(format!("charge:{n}")),
        }
        .into(),
        owner: owner(n),
        version: 3,
        limits: limits(),
        fingerprint: Some(vec![1, 2, 3]),
        issued_at: None,
    }
}

/// JSON bytes as a result.
pub(super) fn json(text: &str) -> StoredResult {
    StoredResult::Json(text.as_bytes().to_vec())
}

/// An attempt that was granted, and the requests that it can make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) id: ExecutionId,
    pub(super) owner: Owner,
    pub(super) token: Token,
}

impl Attempt {
    pub(super) fn with_owner(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }

    pub(super) fn with_token(self, token: Token) -> Self {
        Self { token, ..self }
    }

    pub(super) fn renewal(self) -> Renewal {
        Renewal { id: self.id, owner: self.owner, token: self.token }
    }

    pub(super) fn completion(self, text: &str) -> Completion {
        Completion {
            id: self.id,
            owner: self.owner,
            token: self.token,
            failed: false,
            result: json(text),
            messages: Vec::new(),
        }
    }

    pub(super) fn failure(self, text: &str) -> Completion {
        Completion { failed: true, ..self.completion(text) }
    }

    pub(super) fn release(self, to: ReleaseTo) -> Release {
        Release {
            id: self.id,
            owner: self.owner,
            token: self.token,
            to,
            reason: "the bank was closed".to_owned(),
        }
    }

    pub(super) fn retry(self) -> Release {
        self.release(ReleaseTo::Retry { delay_ms: 0 })
    }

    /// A takeover by the owner `by` of what this attempt left behind.
    pub(super) fn taken_over_by(self, by: u16) -> TakeOver {
        TakeOver {
            id: self.id,
            seen: self.token,
            owner: owner(by),
            version: 4,
            limits: limits(),
            target: Target::Run,
        }
    }

    /// The attempt sent to review because it was one too many.
    pub(super) fn sent_to_review_by(self, by: u16) -> TakeOver {
        TakeOver { target: Target::Review, ..self.taken_over_by(by) }
    }

    pub(super) fn settlement(self, to: SettleTo) -> Settlement {
        Settlement { id: self.id, seen: self.token, to, note: "asked the bank".to_owned() }
    }

    pub(super) fn settled_completed(self, text: &str) -> Settlement {
        self.settlement(SettleTo::Completed(text.as_bytes().to_vec()))
    }
}

/// A store under test. Each method makes one request, or brings an execution into a state.
#[derive(Clone)]
pub(crate) struct Bench {
    factory: Arc<dyn Factory>,
    store: Arc<dyn Store>,
}

impl Bench {
    pub(super) async fn new(factory: Arc<dyn Factory>) -> Self {
        let store = factory.open().await;
        store.migrate().await.expect("a fresh store migrates");
        Self { factory, store }
    }

    pub(super) async fn close(&self) {
        self.store.close().await;
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Another store on the same place, as another process would open it.
    pub(super) async fn another(&self) -> Self {
        Self { factory: Arc::clone(&self.factory), store: self.factory.open().await }
    }

    /// A transaction on a connection that is no store's.
    pub(super) async fn elsewhere(&self) -> Option<Box<dyn Elsewhere>> {
        self.factory.elsewhere().await
    }

    pub(super) async fn age_s(&self, seconds: u64) {
        self.factory.age(Duration::from_secs(seconds)).await;
    }

    /// The store's time, read beside an execution that no property looks at.
    pub(super) async fn now(&self) -> Micros {
        let mut sentinel = claim(u16::MAX);
        Arc::make_mut(&mut sentinel.identity).namespace = "sentinel".to_owned();
        match self.claim(&sentinel).await {
            Claimed::Found(seen) => seen.now,
            Claimed::Granted(_) | Claimed::TooOld => self.execution(sentinel.id).await.now,
        }
    }

    pub(super) async fn claim(&self, claim: &Claim) -> Claimed {
        only(self.store.claim(std::slice::from_ref(claim)).await.expect("claim"))
    }

    pub(super) async fn take_over(&self, takeover: &TakeOver) -> TakenOver {
        only(self.store.take_over(std::slice::from_ref(takeover)).await.expect("take_over"))
    }

    pub(super) async fn renew(&self, renewal: Renewal) -> Renewed {
        only(self.store.renew(&[renewal]).await.expect("renew"))
    }

    pub(super) async fn complete(&self, completion: &Completion) -> Written {
        only(self.store.complete(std::slice::from_ref(completion)).await.expect("complete"))
    }

    pub(super) async fn release(&self, release: &Release) -> Written {
        only(self.store.release(std::slice::from_ref(release)).await.expect("release"))
    }

    pub(super) async fn settle(&self, settlement: &Settlement) -> Settled {
        only(self.store.settle(std::slice::from_ref(settlement)).await.expect("settle"))
    }

    pub(super) async fn read(&self, id: ExecutionId) -> Option<Execution> {
        only(self.store.read(&[id]).await.expect("read"))
    }

    pub(super) async fn execution(&self, id: ExecutionId) -> Execution {
        self.read(id).await.expect("the execution is there")
    }

    pub(super) async fn record(&self, id: ExecutionId) -> Record {
        self.execution(id).await.record
    }

    /// Claims what must be absent.
    pub(super) async fn grant(&self, claim: &Claim) -> Attempt {
        match self.claim(claim).await {
            Claimed::Granted(granted) => {
                Attempt { id: claim.id, owner: claim.owner, token: granted.token }
            }
            other => panic!("an absent execution is granted, not {other:?}"),
        }
    }

    /// Takes over what must be claimable.
    pub(super) async fn succeed(&self, takeover: &TakeOver) -> Attempt {
        let Granted { token, .. } = granted(self.take_over(takeover).await);
        Attempt { id: takeover.id, owner: takeover.owner, token }
    }

    pub(super) async fn running(&self, n: u16) -> Attempt {
        self.grant(&claim(n)).await
    }

    /// Running, with a lease that has lapsed. Everything else in the store ages with it.
    pub(super) async fn lapsed(&self, n: u16) -> Attempt {
        let attempt = self.running(n).await;
        self.age_s(LEASE_S + 60).await;
        attempt
    }

    pub(super) async fn retryable(&self, n: u16) -> Attempt {
        self.released(n, ReleaseTo::Retry { delay_ms: 0 }).await
    }

    pub(super) async fn in_review(&self, n: u16) -> Attempt {
        self.released(n, ReleaseTo::Review).await
    }

    pub(super) async fn released(&self, n: u16, to: ReleaseTo) -> Attempt {
        let attempt = self.running(n).await;
        assert_eq!(self.release(&attempt.release(to)).await, Written::Done);
        attempt
    }

    pub(super) async fn completed(&self, n: u16) -> Attempt {
        let attempt = self.running(n).await;
        assert_eq!(self.complete(&attempt.completion("\"paid\"")).await, Written::Done);
        attempt
    }

    pub(super) async fn failed(&self, n: u16) -> Attempt {
        let attempt = self.running(n).await;
        assert_eq!(self.complete(&attempt.failure("\"declined\"")).await, Written::Done);
        attempt
    }

    /// Runs a request that must write nothing to `id`, and hands on its answer.
    pub(super) async fn unchanged<T>(
        &self,
        id: ExecutionId,
        request: impl Future<Output = T>,
    ) -> T {
        let before = self.stored(id).await;
        let answer = request.await;
        assert_eq!(self.stored(id).await, before, "the request wrote something");
        answer
    }

    /// All that is stored of an execution.
    async fn stored(&self, id: ExecutionId) -> (Option<(Identity, Record)>, Vec<Step>) {
        let found = self.read(id).await.map(|found| (found.identity, found.record));
        (found, self.journal(id).await)
    }

    /// Starts `n` calls at once and waits for all of their answers.
    pub(super) async fn at_once<T, F>(&self, n: u16, call: impl Fn(Self, u16) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let barrier = Arc::new(Barrier::new(usize::from(n)));
        let calls: Vec<_> = (0..n)
            .map(|number| {
                let barrier = Arc::clone(&barrier);
                let answer = call(self.clone(), number);
                tokio::spawn(async move {
                    barrier.wait().await;
                    answer.await
                })
            })
            .collect();
        let mut answers = Vec::with_capacity(calls.len());
        for call in calls {
            answers.push(call.await.expect("a call does not panic"));
        }
        answers
    }
}

/// The one answer to a batch of one.
pub(super) fn only<T>(answers: Vec<T>) -> T {
    let [answer] = <[T; 1]>::try_from(answers)
        .unwrap_or_else(|answers| panic!("one request has one answer, not {}", answers.len()));
    answer
}

/// What a takeover granted.
#[expect(clippy::needless_pass_by_value, reason = "it is given what a call answers")]
pub(super) fn granted(answer: TakenOver) -> Granted {
    match answer {
        TakenOver::Granted { granted, .. } => granted,
        TakenOver::Reviewed | TakenOver::Outrun => panic!("granted, not {answer:?}"),
    }
}

/// Asserts that `instant`, moved back by `by_s`, was the store's time between `from` and `until`.
pub(super) fn assert_instant(instant: Micros, by_s: u64, from: Micros, until: Micros) {
    let (from, until) = (from.plus_ms(by_s * 1_000), until.plus_ms(by_s * 1_000));
    assert!(from <= instant && instant <= until, "{instant:?} is not in {from:?} ..= {until:?}");
}
