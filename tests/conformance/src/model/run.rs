//! One sequence, run on both sides.

mod compare;
mod messages;
mod steps;

use std::time::Duration;

use idempotent_runtime::protocol::{
    self, Claim, ExecutionId, MessageClaim, Micros, Owner, Record, Release, ReleaseTo, Renewal,
    SettleTo, Settled, Settlement, StepFound, TakeOver, TakenOver, Target, Token,
};
use idempotent_runtime::store::{Cursor, Store, StoreError};

use super::operation::{
    By, ClaimBy, Decided, Number, Operation, OwnerOf, ReleaseBy, SettleBy, TakeOverBy, To, TokenOf,
};
use super::tokens::{Pair, Tokens};
use super::world::{Change, World, id, identity, limits, namespace, owner, step_name};
use super::{Place, UNIT_MS};

use compare::{Compared, answered, examined, failed, same};

/// A function of `protocol` that decides what a request changes.
type Transition<R, A> = fn(Option<&Record>, &R, Micros) -> (Option<Record>, A);

/// The same, where the execution's steps count, too.
type StepTransition<R, A> = fn(&World, ExecutionId, &R) -> (Option<Change>, A);

/// A request as both sides write it: they differ in tokens and in instants.
struct Both<R> {
    model: R,
    store: R,
}

/// A sequence under way.
pub(super) struct Run<'a> {
    place: &'a dyn Place,
    store: &'a dyn Store,
    world: World,
    tokens: Tokens,
    /// Every claim of a relay.
    claims: Vec<MessageClaim>,
}

impl<'a> Run<'a> {
    pub(super) fn new(place: &'a dyn Place, store: &'a dyn Store) -> Self {
        let (world, tokens) = (World::new(), Tokens::default());
        Self { place, store, world, tokens, claims: Vec::new() }
    }

    pub(super) async fn all(&mut self, operations: &[Operation]) -> Compared {
        for operation in operations {
            // As a real clock does: the token of a new life must be above those of the one before.
            self.world.now.0 += 1;
            self.one(operation)
                .await
                .map_err(|difference| format!("{operation:?}: {difference}"))?;
        }
        self.same_records((0..super::operation::EXECUTIONS).map(id)).await?;
        self.same_messages().await
    }

    async fn one(&mut self, operation: &Operation) -> Compared {
        match operation {
            Operation::Nothing => Ok(()),
            Operation::Age { units } => {
                let ms = units * UNIT_MS;
                self.world.now = self.world.now.plus_ms(ms);
                self.place.age(Duration::from_millis(ms)).await;
                Ok(())
            }
            Operation::Claim(batch) => self.claim(batch).await,
            Operation::TakeOver(batch) => self.take_over(batch).await,
            Operation::Renew(batch) => self.renew(batch).await,
            Operation::Complete(batch) => self.complete(batch).await,
            Operation::Release(batch) => self.release(batch).await,
            Operation::Settle(batch) => self.settle(batch).await,
            Operation::Start { batch, acks } => self.start(batch, *acks).await,
            Operation::Record { batch, acks } => self.record(batch, *acks).await,
            Operation::Read(batch) => self.same_records(batch.iter().copied().map(id)).await,
            Operation::ListReview { namespace, after, rows_max } => {
                self.list_review(*namespace, *after, *rows_max).await
            }
            Operation::Reap { after, younger, rows_max } => {
                self.reap(*after, *younger, *rows_max).await
            }
            Operation::Purge { after, rows_max } => self.purge(*after, *rows_max).await,
            Operation::Outbox(operation) => self.outbox(operation).await,
        }
    }

    async fn claim(&mut self, batch: &[ClaimBy]) -> Compared {
        // The order of a batch means nothing, but the order of creation does: one absent execution at a time.
        let mut one_absent = false;
        let batch = distinct(batch, |claim| claim.execution).into_iter().filter(|claim| {
            self.world.record(id(claim.execution)).is_some()
                || !std::mem::replace(&mut one_absent, true)
        });
        let store_now = self.place.now();
        let requests: Vec<_> = batch
            .map(|claim| {
                let issued = |now: Micros| claim.issued.map(|units| now.minus_ms(units * UNIT_MS));
                let model = Claim {
                    id: id(claim.execution),
                    identity: identity(id(claim.execution)).into(),
                    owner: owner(claim.owner),
                    version: u32::from(claim.limits) + 1,
                    limits: limits(claim.limits),
                    fingerprint: (claim.limits > 0).then(|| vec![claim.limits; 3]),
                    issued_at: issued(self.world.now),
                };
                let store = Claim { issued_at: issued(store_now), ..model.clone() };
                Both { model, store }
            })
            .collect();
        let answers = self.store.claim(&sent(&requests)).await;
        self.judge(&requests, answers, |claim| claim.id, protocol::claim, Self::same_claimed).await
    }

    async fn take_over(&mut self, batch: &[TakeOverBy]) -> Compared {
        let batch = distinct(batch, |takeover| takeover.execution);
        let requests: Vec<_> = batch
            .into_iter()
            .map(|takeover| {
                let pair = self.token(takeover.execution, takeover.seen);
                let request = |seen: Token| TakeOver {
                    id: id(takeover.execution),
                    seen,
                    owner: owner(takeover.owner),
                    version: u32::from(takeover.limits) + 10,
                    limits: limits(takeover.limits),
                    target: if takeover.to_review { Target::Review } else { Target::Run },
                };
                Both { model: request(pair.model), store: request(pair.store) }
            })
            .collect();
        let answers = self.store.take_over(&sent(&requests)).await;
        let take_over: StepTransition<TakeOver, TakenOver> = |world, id, request| {
            let journal = world.steps(id);
            let (write, answer) =
                protocol::take_over(world.record(id), &journal, request, world.now);
            (write.map(Change::from), answer)
        };
        self.judge_steps(&requests, answers, |request| request.id, take_over, Self::same_taken_over)
            .await
    }

    async fn renew(&mut self, batch: &[By]) -> Compared {
        let requests: Vec<_> = distinct(batch, |by| by.execution)
            .into_iter()
            .map(|by| self.attempt(by, |id, owner, token| Renewal { id, owner, token }))
            .collect();
        let answers = self.store.renew(&sent(&requests)).await;
        self.judge(&requests, answers, |request| request.id, protocol::renew, Self::same_answer)
            .await
    }

    async fn release(&mut self, batch: &[ReleaseBy]) -> Compared {
        let requests: Vec<_> = distinct(batch, |release| release.by.execution)
            .into_iter()
            .map(|release| {
                let to = match release.to {
                    To::Retry => ReleaseTo::Retry { delay_ms: 0 },
                    To::RetryLater => ReleaseTo::Retry { delay_ms: UNIT_MS / 2 * 3 },
                    To::Crash => ReleaseTo::Crash,
                    To::Review => ReleaseTo::Review,
                };
                self.attempt(release.by, |id, owner, token| Release {
                    id,
                    owner,
                    token,
                    to,
                    reason: "it was closed".to_owned(),
                })
            })
            .collect();
        let answers = self.store.release(&sent(&requests)).await;
        self.judge(&requests, answers, |request| request.id, protocol::release, Self::same_answer)
            .await
    }

    async fn settle(&mut self, batch: &[SettleBy]) -> Compared {
        let requests: Vec<_> = distinct(batch, |settle| settle.execution)
            .into_iter()
            .map(|settle| {
                let to = match settle.to {
                    Decided::Retry => SettleTo::Retry,
                    Decided::Completed => SettleTo::Completed(b"\"paid\"".to_vec()),
                    Decided::Failed => SettleTo::Failed(b"\"lost\"".to_vec()),
                    Decided::Reopen => SettleTo::Reopen,
                    Decided::Happened(step) => SettleTo::Step {
                        name: step_name(step),
                        found: StepFound::Happened(b"\"shipped\"".to_vec()),
                    },
                    Decided::DidNotHappen(step) => {
                        SettleTo::Step { name: step_name(step), found: StepFound::DidNotHappen }
                    }
                };
                let pair = self.token(settle.execution, settle.seen);
                let request = |seen: Token| Settlement {
                    id: id(settle.execution),
                    seen,
                    to: to.clone(),
                    note: "asked the bank".to_owned(),
                };
                Both { model: request(pair.model), store: request(pair.store) }
            })
            .collect();
        let answers = self.store.settle(&sent(&requests)).await;
        let settle: StepTransition<Settlement, Settled> = |world, id, request| {
            let record = world.record(id);
            if let SettleTo::Step { name, found } = &request.to {
                let step = world.step(id, name);
                let (write, answer) =
                    protocol::settle_step(record, step, request, found, world.now);
                return (write.map(Change::from), answer);
            }
            let (write, answer) = protocol::settle(record, request, world.now);
            (write.map(Change::from), answer)
        };
        self.judge_steps(&requests, answers, |request| request.id, settle, Self::same_settled).await
    }

    async fn list_review(&mut self, number: u8, after: Option<Number>, rows_max: u32) -> Compared {
        let (after, cursor) = self.cursor(after).await?;
        let namespace = namespace(number);
        let listed = self.store.list_review(&namespace, cursor, rows_max).await.map_err(failed)?;
        let mut expected = self.world.candidates(after, None);
        expected.retain(|id| {
            identity(*id).namespace == namespace
                && self.world.records[id].state == protocol::State::Review
        });
        expected.truncate(usize::try_from(rows_max).unwrap_or(usize::MAX));
        let ids: Vec<_> = listed.iter().map(|execution| execution.record.id).collect();
        same("the list", &ids, &expected)?;
        for execution in &listed {
            self.same_execution(execution)?;
        }
        Ok(())
    }

    async fn reap(
        &mut self,
        after: Option<Number>,
        younger: Option<u64>,
        rows_max: u32,
    ) -> Compared {
        let (after, cursor) = self.cursor(after).await?;
        let younger_ms = younger.map(|units| units * UNIT_MS + UNIT_MS / 2);
        let mut reaped = self.store.reap(cursor, younger_ms, rows_max).await.map_err(failed)?;
        let candidates = self.world.candidates(after, younger_ms);
        let examined = examined(&candidates, reaped.next, rows_max)?;
        let mut expected = self.world.reap(examined);
        reaped.lapsed.sort_by_key(|(id, _, _)| *id);
        expected.sort_by_key(|(id, _, _)| *id);
        same("the reaped", &reaped.lapsed, &expected)?;
        self.same_records((0..super::operation::EXECUTIONS).map(id)).await
    }

    async fn purge(&mut self, after: Option<Number>, rows_max: u32) -> Compared {
        let (after, cursor) = self.cursor(after).await?;
        let purged = self.store.purge(cursor, rows_max).await.map_err(failed)?;
        let candidates = self.world.candidates(after, None);
        let expected = self.world.purge(examined(&candidates, purged.next, rows_max)?);
        let purged = (purged.deleted, purged.reviewed);
        same("the numbers deleted and sent to review", &purged, &expected)?;
        self.same_records((0..super::operation::EXECUTIONS).map(id)).await?;
        self.same_messages().await
    }

    /// Compares the answers to a batch, and what it did to its executions.
    async fn judge<R, A>(
        &mut self,
        requests: &[Both<R>],
        answers: Result<Vec<A>, StoreError>,
        id: fn(&R) -> ExecutionId,
        transition: Transition<R, A>,
        same: fn(&mut Self, ExecutionId, &A, &A) -> Compared,
    ) -> Compared {
        for (request, answer) in requests.iter().zip(answered(answers, requests.len())?) {
            let id = id(&request.model);
            let now = self.world.now;
            let (write, expected) = transition(self.world.record(id), &request.model, now);
            write.into_iter().for_each(|record| self.world.write(id, record.into()));
            same(self, id, &answer, &expected)?;
        }
        self.same_records(requests.iter().map(|request| id(&request.model))).await
    }

    /// As [`judge`](Self::judge), where the executions' steps count, too.
    async fn judge_steps<R, A>(
        &mut self,
        requests: &[Both<R>],
        answers: Result<Vec<A>, StoreError>,
        id: fn(&R) -> ExecutionId,
        transition: StepTransition<R, A>,
        same: fn(&mut Self, ExecutionId, &A, &A) -> Compared,
    ) -> Compared {
        for (request, answer) in requests.iter().zip(answered(answers, requests.len())?) {
            let id = id(&request.model);
            let (write, expected) = transition(&self.world, id, &request.model);
            write.into_iter().for_each(|change| self.world.write(id, change));
            same(self, id, &answer, &expected)?;
        }
        self.same_records(requests.iter().map(|request| id(&request.model))).await
    }

    /// The store's cursor of an execution, if it is there.
    async fn cursor(
        &self,
        after: Option<Number>,
    ) -> Result<(Option<ExecutionId>, Option<Cursor>), String> {
        let after = after.map(id).filter(|id| self.world.record(*id).is_some());
        let Some(id) = after else { return Ok((None, None)) };
        let found = answered(self.store.read(&[id]).await, 1)?.remove(0);
        let record = found.ok_or("the execution is not in the store")?.record;
        Ok((Some(id), Some(Cursor { created_at: record.created_at, id })))
    }

    /// The token that is chosen, as both sides write it.
    fn token(&self, execution: Number, choice: TokenOf) -> Pair {
        let id = id(execution);
        self.token_of(id, self.world.record(id).map(|record| record.token), choice)
    }

    /// The same, where `held` is the model's.
    fn token_of(&self, id: ExecutionId, held: Option<Token>, choice: TokenOf) -> Pair {
        let held = held
            .and_then(|held| self.tokens.of_the_model(id, held))
            .or_else(|| self.tokens.earlier(id, 0))
            .unwrap_or(Pair { model: Token(1), store: Token(1) });
        match choice {
            TokenOf::Held => held,
            TokenOf::Earlier(back) => self.tokens.earlier(id, usize::from(back)).unwrap_or(held),
            TokenOf::Unheard => {
                Pair { model: Token(held.model.0 + 1), store: Token(held.store.0 + 1) }
            }
        }
    }

    /// A request by an attempt, as both sides write it.
    fn attempt<R>(&self, by: By, request: impl Fn(ExecutionId, Owner, Token) -> R) -> Both<R> {
        let id = id(by.execution);
        let owner = match by.owner {
            OwnerOf::Holder => self.world.record(id).map_or(owner(0), |record| record.owner),
            OwnerOf::Another(number) => owner(number),
        };
        let pair = self.token(by.execution, by.token);
        Both { model: request(id, owner, pair.model), store: request(id, owner, pair.store) }
    }
}

/// The requests of a batch without those for an execution that an earlier one is for.
fn distinct<R: Clone, P: PartialEq>(batch: &[R], execution: impl Fn(&R) -> P) -> Vec<R> {
    let mut distinct: Vec<R> = Vec::with_capacity(batch.len());
    for request in batch {
        if distinct.iter().all(|other| execution(other) != execution(request)) {
            distinct.push(request.clone());
        }
    }
    distinct
}

/// A batch as the store gets it.
fn sent<R: Clone>(requests: &[Both<R>]) -> Vec<R> {
    requests.iter().map(|request| request.store.clone()).collect()
}
