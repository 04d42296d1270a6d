//! The far end of the store: applies requests when their time has come, and forgets some of them in a failover.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idempotent_runtime::Clock as _;
use idempotent_runtime::protocol::{ExecutionId, Renewed, Step};
use idempotent_runtime::store::{Execution, Memory, Store as _, StoreError, StoreErrorKind};
use tokio::sync::{Notify, oneshot};

use super::words::Names;
use super::{Answer, Auditor, Request, at_once};
use crate::clock::StoreClock;
use crate::process::Process;
use crate::world::World;

/// The store that all processes share.
#[derive(Debug)]
pub(crate) struct Server {
    memory: Mutex<Memory>,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) names: Names,
    pub(crate) auditor: Auditor,
    /// What was applied, and when on the store's clock.
    log: Mutex<Vec<(i64, Request)>>,
    sent: AtomicU64,
    applied: AtomicU64,
    /// Requests that are still to be applied.
    outstanding: AtomicU64,
    commits: AtomicU64,
    committed: Notify,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// Applied, and its sender is told that the store is away.
    AnswerLost,
    /// Not applied.
    Refused,
    /// Its sender is told that the store is away, and so much later it is applied.
    Late(Duration),
    /// A renewal that finds a locked row.
    Skipped,
}

impl Server {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(StoreClock::new());
        Self {
            memory: Mutex::new(Memory::new(Arc::clone(&clock) as _)),
            clock,
            names: Names::default(),
            auditor: Auditor::default(),
            log: Mutex::default(),
            sent: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            committed: Notify::new(),
        }
    }

    /// Sends a request. It goes its way, whatever becomes of the process.
    pub(crate) fn send(
        world: &Arc<World>,
        process: &Process,
        request: Request,
    ) -> oneshot::Receiver<Result<Answer, StoreError>> {
        let (answered, answer) = oneshot::channel();
        let server = &world.server;
        let number = server.sent.fetch_add(1, Ordering::SeqCst) + 1;
        server.outstanding.fetch_add(1, Ordering::SeqCst);
        server.names.learn(&request);
        let fate = world.fate(&request);
        let (before, after) = (world.delay(), world.delay());
        let who = process.name();
        world.note(&who, || format!("#{number} {}", server.names.request(&request)));
        let world = Arc::clone(world);
        drop(tokio::spawn(async move {
            tokio::time::sleep(before).await;
            for _ in 0..world.dice.small(0..3) {
                tokio::task::yield_now().await;
            }
            let away = || Err(StoreError::new(StoreErrorKind::Unavailable, "no answer"));
            let answer = match fate {
                Fate::Answered => world.server.apply(&world, number, &request),
                Fate::AnswerLost => {
                    world.saw("answer lost");
                    let _ = world.server.apply(&world, number, &request);
                    away()
                }
                Fate::Refused | Fate::Late(_) => away(),
                Fate::Skipped => Ok(skipped(&request)),
            };
            tokio::time::sleep(after).await;
            match (fate, &answer) {
                (Fate::Late(_), _) => {
                    world.note(&who, || format!("#{number} no answer; it is still on its way"))
                }
                (Fate::Skipped, _) => world.note(&who, || format!("#{number} skipped")),
                (_, Ok(_)) => {}
                (_, Err(error)) => world.note(&who, || format!("#{number} {error}")),
            }
            // A process that is dead takes no answer.
            let _ = answered.send(answer);
            if let Fate::Late(by) = fate {
                tokio::time::sleep(by).await;
                world.saw("applied late");
                let _ = world.server.apply(&world, number, &request);
            }
            world.server.outstanding.fetch_sub(1, Ordering::SeqCst);
        }));
        answer
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executions as they are, with their journals.
    pub(crate) fn look(&self, ids: &[ExecutionId]) -> Vec<(Option<Execution>, Vec<Step>)> {
        let memory = self.memory();
        let rows = at_once(memory.read(ids)).unwrap_or_default();
        let journals = at_once(memory.journals(ids)).unwrap_or_default();
        rows.into_iter().zip(journals).collect()
    }

    /// Every execution, oldest first.
    pub(crate) fn executions(&self) -> Vec<Execution> {
        self.memory().executions().unwrap_or_default()
    }

    /// Every message, in the order of commit.
    pub(crate) fn messages(&self) -> Vec<idempotent_runtime::protocol::MessageRecord> {
        self.memory().all_messages().unwrap_or_default()
    }

    fn apply(&self, world: &World, number: u64, request: &Request) -> Result<Answer, StoreError> {
        let applied = self.applied.fetch_add(1, Ordering::SeqCst) + 1;
        let ids = if matches!(request, Request::Reap(..) | Request::Purge(..)) {
            self.executions().iter().map(|it| it.record.id).collect()
        } else {
            request.executions()
        };
        let before = self.look(&ids);
        let answer = match &world.plant {
            Some(plant) => plant.apply(request, &self.memory(), &self.clock),
            None => request.apply(&self.memory()),
        };
        let after = self.look(&ids);
        if let Ok(answer) = &answer {
            answer.outcomes().into_iter().for_each(|what| world.saw(what));
        }
        let now = self.clock.now_us();
        self.auditor.audit(&self.names, (applied, now), request, &before, &after);
        if request.writes() && world.scenario.forgets {
            self.log.lock().unwrap_or_else(PoisonError::into_inner).push((now, request.clone()));
        }
        if let Request::Complete(completions) = request
            && completions.iter().any(|it| !it.messages.is_empty())
        {
            self.commits.fetch_add(1, Ordering::SeqCst);
            self.committed.notify_waiters();
        }
        world.note("store", || match &answer {
            Ok(answer) => format!("#{number} applied: {}", self.names.answer(answer)),
            Err(error) => format!("#{number} failed: {error}"),
        });
        answer
    }

    /// Another server takes over, and knows nothing of the last `lost` writes.
    pub(crate) fn fail_over(&self, lost: usize) -> usize {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = lost.min(log.len());
        let kept = log.len() - lost;
        log.truncate(kept);
        let memory = Memory::new(Arc::clone(&self.clock) as _);
        for (at, request) in &*log {
            self.clock.set(Some(*at));
            // As it was answered then.
            let _ = request.apply(&memory);
        }
        self.clock.set(None);
        *self.memory() = memory;
        self.auditor.forget();
        lost
    }

    /// How many requests were applied.
    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::SeqCst)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.outstanding.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Completes when messages were committed beside these.
    pub(crate) async fn committed_since(&self, seen: u64) {
        loop {
            let committed = self.committed.notified();
            if self.commits() != seen {
                return;
            }
            committed.await;
        }
    }
}

impl World {
    fn fate(&self, request: &Request) -> Fate {
        let Some(rates) = self.rates() else { return Fate::Answered };
        let dice = &self.dice;
        if self.is_away() {
            return if dice.chance(300) { Fate::AnswerLost } else { Fate::Refused };
        }
        if matches!(request, Request::Renew(_) | Request::RenewMessages(_))
            && dice.chance(rates.skipped)
        {
            return Fate::Skipped;
        }
        if dice.chance(rates.answer_lost) {
            return Fate::AnswerLost;
        }
        if dice.chance(rates.refused) {
            return Fate::Refused;
        }
        if dice.chance(rates.late) {
            let most = if dice.chance(200) { 20_000 } else { 1_500 };
            return Fate::Late(dice.ms(0..most));
        }
        Fate::Answered
    }

    /// How long a request or an answer is on its way.
    pub(crate) fn delay(&self) -> Duration {
        let slow = self.rates().map_or(0, |rates| rates.slow);
        if !self.dice.chance(slow) {
            return self.dice.ms(0..4);
        }
        if self.dice.chance(150) { self.dice.ms(1_000..4_000) } else { self.dice.ms(10..400) }
    }
}

fn skipped(request: &Request) -> Answer {
    let all = |count| Answer::Renewed(vec![Renewed::Skipped; count]);
    if let Request::Renew(it) = request {
        return all(it.len());
    }
    all(if let Request::RenewMessages(it) = request { it.len() } else { 0 })
}
