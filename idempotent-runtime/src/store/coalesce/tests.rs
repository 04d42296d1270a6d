use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::sync::{Notify, mpsc};

use super::*;
use crate::store::sql::bounds::{BATCH_BYTES_MAX, BATCH_MAX};

/// How long a statement for many takes until it fails.
const LOCKED: Duration = Duration::from_secs(2);

/// What a request makes of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Answered at once, alone or with others.
    Usual,
    /// Answered alone.
    Unusual,
    /// Alone, never answered; with others, refused behind the lock's timeout.
    Blocked,
    /// Refused, alone or with others.
    Refused,
    /// The connection breaks.
    Breaks,
    /// No connection is to be had.
    Crowded,
    /// Behind [`LOCKED`]: alone it is busy, and with others it is refused, for whatever reason.
    Locked,
    /// The store panics.
    Panics,
    /// Does not go along with others.
    Apart,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    kind: Kind,
    bytes: usize,
}

fn request(number: u64) -> Request {
    Request { number, kind: Kind::Usual, bytes: 1 }
}

/// What the store was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    One(u64),
    Many(Vec<u64>),
}

/// Answers a request's number, when it is let.
#[derive(Clone)]
struct Fake {
    calls: mpsc::UnboundedSender<Call>,
    /// Calls from this one on wait.
    held_from: Arc<AtomicU64>,
    called: Arc<AtomicU64>,
    released: Arc<Notify>,
}

impl Fake {
    async fn called(&self, call: Call) {
        let number = self.called.fetch_add(1, Ordering::SeqCst);
        self.calls.send(call).unwrap();
        loop {
            let released = self.released.notified();
            if number < self.held_from.load(Ordering::SeqCst) {
                return;
            }
            released.await;
        }
    }
}

fn error(kind: StoreErrorKind) -> StoreError {
    StoreError::with_source(kind, "refused", "by the database")
}

impl Together for Fake {
    type Request = Request;
    type Answer = u64;

    fn goes_along(request: &Request) -> bool {
        request.kind != Kind::Apart
    }

    fn bytes(request: &Request) -> usize {
        request.bytes
    }

    async fn one(&self, request: &Request) -> Result<u64, StoreError> {
        self.called(Call::One(request.number)).await;
        match request.kind {
            Kind::Usual | Kind::Unusual | Kind::Apart => Ok(request.number),
            Kind::Blocked => std::future::pending().await,
            Kind::Refused => Err(error(StoreErrorKind::Other)),
            Kind::Breaks => Err(error(StoreErrorKind::Unavailable)),
            Kind::Locked => {
                tokio::time::sleep(LOCKED).await;
                Err(error(StoreErrorKind::Busy))
            }
            Kind::Crowded => Err(StoreError::new(StoreErrorKind::Busy, "all are in use")),
            Kind::Panics => panic!("as asked"),
        }
    }

    async fn many(&self, requests: &[Request]) -> Result<Vec<Option<u64>>, StoreError> {
        assert!(requests.len() > 1 && requests.iter().all(Self::goes_along));
        self.called(Call::Many(requests.iter().map(|it| it.number).collect())).await;
        let has = |kind| requests.iter().any(|it| it.kind == kind);
        assert!(!has(Kind::Panics), "as asked");
        if has(Kind::Breaks) {
            return Err(error(StoreErrorKind::Unavailable));
        }
        if has(Kind::Locked) {
            tokio::time::sleep(LOCKED).await;
            return Err(error(StoreErrorKind::Other));
        }
        if has(Kind::Crowded) {
            return Err(StoreError::new(StoreErrorKind::Busy, "all are in use"));
        }
        if has(Kind::Blocked) || has(Kind::Refused) {
            return Err(error(StoreErrorKind::Busy));
        }
        let answer = |it: &Request| (it.kind == Kind::Usual).then_some(it.number);
        Ok(requests.iter().map(answer).collect())
    }
}

/// A coalescer before a store that holds calls from the first on.
struct Bench {
    coalescer: Arc<Coalescer<Fake>>,
    fake: Fake,
    calls: mpsc::UnboundedReceiver<Call>,
}

type Asked = JoinHandle<Result<u64, StoreError>>;

impl Bench {
    fn new() -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let fake = Fake {
            calls: sender,
            held_from: Arc::default(),
            called: Arc::default(),
            released: Arc::default(),
        };
        Self {
            coalescer: Arc::new(Coalescer::new(fake.clone(), &Arc::new(Semaphore::new(2)))),
            fake,
            calls,
        }
    }

    /// Asks in a task of its own, which has asked when this returns.
    async fn ask(&self, request: Request) -> Asked {
        let coalescer = Arc::clone(&self.coalescer);
        let asked = tokio::spawn(async move { coalescer.one(&request).await });
        tokio::task::yield_now().await;
        asked
    }

    async fn ask_all(&self, numbers: RangeInclusive<u64>) -> Vec<Asked> {
        let mut asked = Vec::new();
        for number in numbers {
            asked.push(self.ask(request(number)).await);
        }
        asked
    }

    /// The next call that reaches the store.
    async fn call(&mut self) -> Call {
        self.calls.recv().await.unwrap()
    }

    /// Lets all calls through but those from this one on, counted from the first of all.
    fn release(&self, held_from: u64) {
        self.fake.held_from.store(held_from, Ordering::SeqCst);
        self.fake.released.notify_waiters();
    }

    /// Takes the way past the lanes and both lanes, with requests 1 to 3.
    async fn busy(&mut self) -> Vec<Asked> {
        let asked = self.ask_all(1..=3).await;
        for number in 1..=3 {
            assert_eq!(self.call().await, Call::One(number));
        }
        asked
    }
}

async fn answers(asked: Vec<Asked>) -> Vec<Result<u64, StoreErrorKind>> {
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(asked.await.unwrap().map_err(|error| error.kind()));
    }
    answers
}

#[tokio::test]
async fn a_request_goes_at_once_and_alone_when_none_is_under_way() {
    let mut bench = Bench::new();
    bench.release(u64::MAX);
    for number in 1..=3 {
        assert_eq!(bench.coalescer.one(&request(number)).await.unwrap(), number);
        assert_eq!(bench.call().await, Call::One(number));
    }
}

#[tokio::test]
async fn what_comes_while_the_lanes_are_taken_goes_together_in_its_order() {
    let mut bench = Bench::new();
    let mut asked = bench.busy().await;
    asked.extend(bench.ask_all(4..=9).await);
    assert!(bench.calls.is_empty(), "it waits for a lane");
    bench.release(u64::MAX);
    assert_eq!(bench.call().await, Call::Many((4..=9).collect()));
    assert_eq!(answers(asked).await, (1..=9).map(Ok).collect::<Vec<_>>());
    // Nothing is under way any more.
    assert_eq!(bench.coalescer.one(&request(10)).await.unwrap(), 10);
    assert_eq!(bench.call().await, Call::One(10));
}

#[tokio::test]
async fn a_batch_is_bounded_in_requests_and_bytes() {
    let mut bench = Bench::new();
    let mut asked = bench.busy().await;
    let last = 3 + u64::try_from(BATCH_MAX).unwrap();
    asked.extend(bench.ask_all(4..=last + 1).await);
    let large = |number, bytes| Request { bytes, ..request(number) };
    for (number, bytes) in [(2_001, BATCH_BYTES_MAX - 1), (2_002, 2), (2_003, BATCH_BYTES_MAX + 1)]
    {
        asked.push(bench.ask(large(number, bytes)).await);
    }
    bench.release(u64::MAX);
    assert_eq!(bench.call().await, Call::Many((4..=last).collect()));
    assert_eq!(bench.call().await, Call::Many(vec![last + 1, 2_001]));
    assert_eq!(bench.call().await, Call::One(2_002));
    assert_eq!(bench.call().await, Call::One(2_003));
    assert!(answers(asked).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn what_does_not_go_along_waits_for_nobody() {
    let mut bench = Bench::new();
    let asked = bench.busy().await;
    let apart = bench.ask(Request { kind: Kind::Apart, ..request(4) }).await;
    assert_eq!(bench.call().await, Call::One(4));
    bench.release(u64::MAX);
    assert_eq!(answers(vec![apart]).await, [Ok(4)]);
    answers(asked).await;
}

#[tokio::test]
async fn what_a_batch_says_nothing_of_goes_alone() {
    let mut bench = Bench::new();
    let mut asked = bench.busy().await;
    for kind in [Kind::Usual, Kind::Unusual, Kind::Usual] {
        let number = 1 + u64::try_from(asked.len()).unwrap();
        asked.push(bench.ask(Request { kind, ..request(number) }).await);
    }
    bench.release(u64::MAX);
    assert_eq!(bench.call().await, Call::Many(vec![4, 5, 6]));
    assert_eq!(bench.call().await, Call::One(5));
    assert_eq!(answers(asked).await, (1..=6).map(Ok).collect::<Vec<_>>());
}

#[tokio::test]
async fn those_of_whom_nothing_is_said_are_asked_for_together_once_more() {
    let mut bench = Bench::new();
    let mut asked = bench.busy().await;
    for number in 4..=8 {
        let kind = if number % 2 == 0 { Kind::Unusual } else { Kind::Usual };
        asked.push(bench.ask(Request { kind, ..request(number) }).await);
    }
    // The batch and its rest are let through, and what goes alone is not: there is room for two.
    bench.release(5);
    assert_eq!(bench.call().await, Call::Many(vec![4, 5, 6, 7, 8]));
    assert_eq!(bench.call().await, Call::Many(vec![4, 6, 8]));
    assert_eq!(bench.call().await, Call::One(4));
    assert_eq!(bench.call().await, Call::One(6));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(bench.calls.is_empty(), "the third waits for room");
    bench.release(u64::MAX);
    assert_eq!(bench.call().await, Call::One(8));
    assert_eq!(answers(asked).await, (1..=8).map(Ok).collect::<Vec<_>>());
}

/// A table is locked: each statement fails behind two seconds.
#[tokio::test(start_paused = true)]
async fn what_fails_for_long_is_not_asked_for_in_ever_smaller_parts() {
    let mut bench = Bench::new();
    let busy = bench.busy().await;
    let mut asked = Vec::new();
    for number in 4..=131 {
        asked.push(bench.ask(Request { kind: Kind::Locked, ..request(number) }).await);
    }
    bench.release(u64::MAX);
    let began = Instant::now();
    assert_eq!(answers(asked).await, [Err(StoreErrorKind::Busy); 128]);
    assert_eq!(began.elapsed(), LOCKED * 3);
    answers(busy).await;
    assert_eq!(bench.coalescer.one(&request(200)).await.unwrap(), 200);
}

/// A task of a runtime that ends asks once more: the lane that it opens is dropped where it is spawned.
#[test]
fn a_runtime_that_has_ended_leaves_nobody_waiting() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle().clone();
    let (bench, mut waker) = (Bench::new(), Context::from_waker(Waker::noop()));
    let (one, two) = (request(1), request(2));
    let mut direct = Box::pin(bench.coalescer.one(&one));
    assert!(direct.as_mut().poll(&mut waker).is_pending());
    drop(runtime);
    let _entered = handle.enter();
    let mut waits = Box::pin(bench.coalescer.one(&two));
    let Poll::Ready(answer) = waits.as_mut().poll(&mut waker) else { panic!("it waits") };
    assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::Other);
    assert_eq!(bench.coalescer.shared.state().lanes, 0);
}

#[tokio::test]
async fn one_that_fails_is_found_and_the_others_are_answered() {
    let mut bench = Bench::new();
    answers_of_a_batch_with(&mut bench, Kind::Refused).await;
}

async fn answers_of_a_batch_with(bench: &mut Bench, kind: Kind) {
    let busy = bench.busy().await;
    let mut asked = bench.ask_all(4..=7).await;
    let odd = bench.ask(Request { kind, ..request(8) }).await;
    asked.extend(bench.ask_all(9..=11).await);
    bench.release(u64::MAX);
    let many = |numbers: RangeInclusive<u64>| Call::Many(numbers.collect());
    assert_eq!(bench.call().await, many(4..=11));
    assert_eq!(bench.call().await, many(4..=7));
    assert_eq!(bench.call().await, many(8..=11));
    assert_eq!(bench.call().await, many(8..=9));
    assert_eq!(bench.call().await, Call::One(8));
    assert_eq!(bench.call().await, Call::One(9));
    assert_eq!(bench.call().await, many(10..=11));
    let numbers = (4..=7).chain(9..=11);
    assert_eq!(answers(asked).await, numbers.map(Ok).collect::<Vec<_>>());
    if kind == Kind::Blocked {
        assert!(!odd.is_finished(), "it waits, and nobody for it");
    } else {
        assert_eq!(answers(vec![odd]).await, [Err(StoreErrorKind::Other)]);
    }
    answers(busy).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_blocked_leaves_its_lane_to_the_others() {
    let mut bench = Bench::new();
    answers_of_a_batch_with(&mut bench, Kind::Blocked).await;
}

#[tokio::test]
async fn what_concerns_all_fails_the_whole_batch_and_no_more() {
    for (kind, told) in
        [(Kind::Breaks, StoreErrorKind::Unavailable), (Kind::Crowded, StoreErrorKind::Busy)]
    {
        let mut bench = Bench::new();
        let busy = bench.busy().await;
        let mut asked = bench.ask_all(4..=5).await;
        asked.push(bench.ask(Request { kind, ..request(6) }).await);
        bench.release(u64::MAX);
        assert_eq!(bench.call().await, Call::Many(vec![4, 5, 6]));
        assert_eq!(answers(asked).await, [Err(told); 3]);
        answers(busy).await;
        assert!(bench.calls.is_empty(), "fewer of them would fail alike");
        assert_eq!(bench.coalescer.one(&request(7)).await.unwrap(), 7);
    }
}

#[tokio::test]
async fn a_store_that_panics_fails_those_who_wait_and_blocks_nobody() {
    let mut bench = Bench::new();
    let busy = bench.busy().await;
    let mut asked = bench.ask_all(4..=5).await;
    asked.push(bench.ask(Request { kind: Kind::Panics, ..request(6) }).await);
    bench.release(u64::MAX);
    assert_eq!(answers(asked).await, [Err(StoreErrorKind::Other); 3]);
    answers(busy).await;
    for number in 7..=9 {
        assert_eq!(bench.coalescer.one(&request(number)).await.unwrap(), number);
    }
}

#[tokio::test]
async fn a_caller_that_is_gone_costs_the_others_nothing() {
    let mut bench = Bench::new();
    let busy = bench.busy().await;
    let gone = bench.ask(request(4)).await;
    let stays = bench.ask(request(5)).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    bench.release(u64::MAX);
    // What was asked for is done: whoever asks through the runtime waits for it in a task of its own.
    assert_eq!(bench.call().await, Call::Many(vec![4, 5]));
    assert_eq!(answers(vec![stays]).await, [Ok(5)]);
    answers(busy).await;
}

#[tokio::test]
async fn a_batch_of_a_callers_own_is_answered_in_its_order() {
    let mut bench = Bench::new();
    bench.release(u64::MAX);
    let of = |kind, number| Request { kind, ..request(number) };
    let requests = [request(1), of(Kind::Unusual, 2), of(Kind::Apart, 3), request(4), request(5)];
    assert_eq!(bench.coalescer.all(&requests).await.unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(bench.call().await, Call::Many(vec![1, 2]));
    assert_eq!(bench.call().await, Call::One(2));
    assert_eq!(bench.call().await, Call::One(3));
    assert_eq!(bench.call().await, Call::Many(vec![4, 5]));
    assert!(bench.coalescer.all(&[]).await.unwrap().is_empty());
    let refused = bench.coalescer.all(&[request(6), of(Kind::Refused, 7)]).await;
    assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Other);
}
