//! Requests of one kind, gathered while others of it are on their way.
//!
//! A request that finds none of its kind under way goes at once, alone. Whatever comes meanwhile waits for a lane, and a
//! lane that is free takes all that waits and asks for it in one statement: batches grow with the load, and nobody waits
//! for a timer.

use std::collections::VecDeque;
use std::error::Error as _;
use std::future::Future;
use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::sql::bounds::{self, Load};
use super::{StoreError, StoreErrorKind};

/// Statements under way at once.
const LANES_MAX: usize = 2;
/// A request that is alone in its lane leaves it to the others after this long: it waits for somebody else's row.
const ALONE_MAX: Duration = Duration::from_millis(100);
/// So long a batch is asked for in parts; who is left then is told why. One that waits for a row fails ten times 100 ms; what
/// takes longer concerns more than a row.
const HALVING_MAX: Duration = Duration::from_secs(5);

/// How a store answers requests of one kind, alone and together.
pub(super) trait Together: Send + Sync + 'static {
    /// What is asked.
    type Request: Clone + Send + Sync + 'static;
    /// What is answered.
    type Answer: Send + 'static;

    /// Whether it is one that others can go along with.
    fn goes_along(request: &Self::Request) -> bool;

    /// About what it carries, in bytes.
    fn bytes(request: &Self::Request) -> usize;

    /// Answers one.
    fn one(
        &self,
        request: &Self::Request,
    ) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;

    /// Answers many in one commit. `None` where that says nothing: such a request goes alone. Most errors
    /// may be those of any one of them.
    fn many(
        &self,
        requests: &[Self::Request],
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, StoreError>> + Send;
}

/// Gathers requests of one kind.
pub(super) struct Coalescer<T: Together> {
    shared: Arc<Shared<T>>,
}

struct Shared<T: Together> {
    store: T,
    state: Mutex<State<T>>,
    /// For what goes alone past the lanes, so that it does not take all connections.
    alone: Arc<Semaphore>,
}

struct State<T: Together> {
    /// A request is under way that found nothing else under way.
    is_direct: bool,
    lanes: usize,
    waiting: VecDeque<(T::Request, Reply<T>)>,
}

type Reply<T> = oneshot::Sender<Result<<T as Together>::Answer, StoreError>>;
type Answer<T> = oneshot::Receiver<Result<<T as Together>::Answer, StoreError>>;

impl<T: Together> Coalescer<T> {
    /// As many requests as `alone` has permits for go alone past the lanes at once.
    pub(super) fn new(store: T, alone: &Arc<Semaphore>) -> Self {
        let state = State { is_direct: false, lanes: 0, waiting: VecDeque::new() };
        let (state, alone) = (Mutex::new(state), Arc::clone(alone));
        Self { shared: Arc::new(Shared { store, state, alone }) }
    }

    /// Answers requests in their order.
    pub(super) async fn all(&self, requests: &[T::Request]) -> Result<Vec<T::Answer>, StoreError> {
        if let [request] = requests {
            return Ok(vec![self.one(request).await?]);
        }
        let mut answers = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while let Some(first) = rest.first() {
            let len = if T::goes_along(first) { batch_len::<T>(rest.iter()) } else { 1 };
            let (batch, behind) = rest.split_at(len);
            Box::pin(self.shared.together(batch, &mut answers)).await?;
            rest = behind;
        }
        Ok(answers)
    }

    /// What asks the store is boxed: it is kilobytes, and most callers under load only wait.
    async fn one(&self, request: &T::Request) -> Result<T::Answer, StoreError> {
        if !T::goes_along(request) {
            return Box::pin(self.shared.store.one(request)).await;
        }
        let answer = match self.shared.enter(request) {
            Entered::Direct(_direct) => return Box::pin(self.shared.store.one(request)).await,
            Entered::Waiting(answer) => answer,
        };
        // A lane has ended without an answer only if the store panicked, or the runtime has ended.
        answer.await.unwrap_or_else(|_| Err(lost()))
    }
}

fn lost() -> StoreError {
    StoreError::new(StoreErrorKind::Other, "the store panicked in a batch, or its runtime ends")
}

/// How many of these go in one batch: one at least.
fn batch_len<'a, T: Together>(requests: impl Iterator<Item = &'a T::Request>) -> usize {
    let alike = requests.take_while(|it| T::goes_along(it));
    bounds::batch_len(alike.map(|request| Load::one(T::bytes(request))))
}

enum Entered<T: Together> {
    /// To be asked at once, by the caller.
    Direct(Direct<T>),
    /// A lane asks.
    Waiting(Answer<T>),
}

/// A request that is under way past the lanes.
struct Direct<T: Together>(Arc<Shared<T>>);

impl<T: Together> Drop for Direct<T> {
    fn drop(&mut self) {
        self.0.state().is_direct = false;
    }
}

impl<T: Together> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // No code that may panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, request: &T::Request) -> Entered<T> {
        let mut state = self.state();
        if !state.is_direct && state.lanes == 0 {
            state.is_direct = true;
            return Entered::Direct(Direct(Arc::clone(self)));
        }
        let (reply, answer) = oneshot::channel();
        state.waiting.push_back((request.clone(), reply));
        let opens = state.lanes < LANES_MAX;
        state.lanes += usize::from(opens);
        // A runtime that has ended drops the lane here, which takes the lock.
        drop(state);
        if opens {
            let lane = Lane { shared: Arc::clone(self), is_open: true };
            drop(tokio::spawn(lane.serve()));
        }
        Entered::Waiting(answer)
    }

    /// Answers a caller's own batch.
    async fn together(
        &self,
        requests: &[T::Request],
        answers: &mut Vec<T::Answer>,
    ) -> Result<(), StoreError> {
        if let [request] = requests {
            answers.push(self.store.one(request).await?);
            return Ok(());
        }
        let found = match self.store.many(requests).await {
            Ok(found) => found,
            Err(error) if concerns_all(&error) => return Err(error),
            Err(_) => iter::repeat_with(|| None).take(requests.len()).collect(),
        };
        for (request, found) in requests.iter().zip(found) {
            answers.push(match found {
                Some(answer) => answer,
                None => self.store.one(request).await?,
            });
        }
        Ok(())
    }

    /// Asks for one in a task of its own.
    fn alone(self: &Arc<Self>, request: T::Request, reply: Reply<T>) -> JoinHandle<()> {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            // A caller that is gone wants no answer.
            let _ = reply.send(shared.store.one(&request).await);
        })
    }

    /// The same past the lanes, when there is room.
    fn aside(self: &Arc<Self>, request: T::Request, reply: Reply<T>) {
        let shared = Arc::clone(self);
        drop(tokio::spawn(async move {
            // It is never closed.
            let _room = shared.alone.acquire().await;
            let _ = reply.send(shared.store.one(&request).await);
        }));
    }
}

/// Whether an error concerns all requests alike, so that it is of no use to ask for fewer of them.
fn concerns_all(error: &StoreError) -> bool {
    match error.kind() {
        StoreErrorKind::Unavailable
        | StoreErrorKind::ReadOnly
        | StoreErrorKind::Full
        | StoreErrorKind::Schema
        | StoreErrorKind::Config
        | StoreErrorKind::Closed => true,
        // Of a row the database says so itself; else no connection was to be had.
        StoreErrorKind::Busy => error.source().is_none(),
        StoreErrorKind::Corrupt | StoreErrorKind::Other => false,
    }
}

/// Asks for what waits, until nothing does.
struct Lane<T: Together> {
    shared: Arc<Shared<T>>,
    is_open: bool,
}

/// Requests, and the ways back to their callers.
struct Batch<T: Together> {
    requests: Vec<T::Request>,
    replies: Vec<Reply<T>>,
    /// They were asked for before, and nothing was said of them.
    is_again: bool,
}

impl<T: Together> Lane<T> {
    async fn serve(mut self) {
        while let Some(batch) = self.take() {
            self.ask(batch).await;
        }
    }

    /// What waits, or nothing; then the lane is closed.
    fn take(&mut self) -> Option<Batch<T>> {
        let mut state = self.shared.state();
        if state.waiting.is_empty() {
            state.lanes -= 1;
            self.is_open = false;
            return None;
        }
        let len = batch_len::<T>(state.waiting.iter().map(|(request, _)| request));
        let (requests, replies) = state.waiting.drain(..len).unzip();
        Some(Batch { requests, replies, is_again: false })
    }

    /// Asks for a batch; for halves of it, where it fails for one of them; and for that one alone.
    async fn ask(&self, batch: Batch<T>) {
        let began = Instant::now();
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            if part.requests.len() == 1 {
                for (request, reply) in part.pairs() {
                    // What takes longer is answered by its own task, in any case.
                    let _ = timeout(ALONE_MAX, self.shared.alone(request, reply)).await;
                }
                continue;
            }
            match self.shared.store.many(&part.requests).await {
                Ok(found) => parts.extend(self.answer(part, found)),
                Err(error) if concerns_all(&error) => return fail(part, parts, &error),
                Err(error) if began.elapsed() >= HALVING_MAX => {
                    // It may be that of one of them: the others can be asked again.
                    let text =
                        format!("a batch was asked for in parts for {HALVING_MAX:?}: {error}");
                    return fail(part, parts, &StoreError::new(StoreErrorKind::Busy, text));
                }
                Err(error) => {
                    let requests = part.requests.len();
                    tracing::debug!(%error, requests, "a batch failed; its halves are asked for");
                    parts.extend(part.halves());
                }
            }
        }
    }

    /// Answers, and returns those of whom nothing was said, to be asked for together once more: their rows may have
    /// been locked, or claimed by others of the batch.
    fn answer(&self, batch: Batch<T>, found: Vec<Option<T::Answer>>) -> Option<Batch<T>> {
        let is_again = batch.is_again;
        let mut again = Batch { requests: Vec::new(), replies: Vec::new(), is_again: true };
        for ((request, reply), found) in batch.pairs().zip(found) {
            if let Some(answer) = found {
                // A caller that is gone wants no answer.
                let _ = reply.send(Ok(answer));
            } else if is_again {
                self.shared.aside(request, reply);
            } else {
                again.requests.push(request);
                again.replies.push(reply);
            }
        }
        (!again.requests.is_empty()).then_some(again)
    }
}

/// Tells an error to all whom it concerns.
fn fail<T: Together>(part: Batch<T>, parts: Vec<Batch<T>>, error: &StoreError) {
    parts.into_iter().chain([part]).for_each(|part| part.fail(error));
}

impl<T: Together> Drop for Lane<T> {
    /// A lane that did not close itself: the store panicked, or the runtime ends. Whoever waits is told so.
    fn drop(&mut self) {
        if self.is_open {
            let mut state = self.shared.state();
            state.lanes -= 1;
            if state.lanes == 0 {
                state.waiting.clear();
            }
        }
    }
}

impl<T: Together> Batch<T> {
    fn pairs(self) -> impl Iterator<Item = (T::Request, Reply<T>)> {
        self.requests.into_iter().zip(self.replies)
    }

    fn fail(self, error: &StoreError) {
        for reply in self.replies {
            let _ = reply.send(Err(error.copy()));
        }
    }

    /// The first half comes last, to be asked for first.
    fn halves(mut self) -> [Self; 2] {
        let middle = self.requests.len() / 2;
        let requests = self.requests.split_off(middle);
        let replies = self.replies.split_off(middle);
        [Self { requests, replies, is_again: self.is_again }, self]
    }
}

#[cfg(test)]
mod tests;
