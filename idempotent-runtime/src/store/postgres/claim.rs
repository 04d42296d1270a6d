//! Claims: one by one, and many in one statement.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::batch::{Batch, Many, column, nothing, place};
use super::error::{Failure, at};
use super::execution::{id, owner};
use super::row::{Instant, Row};
use super::runner::{Db, Operation, Runner};
use crate::protocol::{
    Claim, Claimed, ExecutionId, Granted, Identity, Limits, Micros, Owner, Seen, Token,
};
use crate::store::coalesce::Together;
use crate::store::sql::bounds::Carries;
use crate::store::sql::{self, Fields as _, ms, number};
use crate::store::{StoreError, StoreErrorKind};

/// Tries of a claim whose row came and went, or was too new to be read.
const TRIES_MAX: u32 = 5;
/// Among so many claims the share of replays is estimated.
const SHARE_OF: u32 = 4;
/// Results that one statement returns together, in bytes.
pub(super) const RESULT_BYTES_MAX: u32 = 4 << 20;
/// Above this share a claim looks before it inserts; a look that finds nothing costs a round trip.
const SHARE_MIN: u32 = SHARE_MAX / 8 * 7;
const SHARE_MAX: u32 = 1 << 16;

/// Runs claims.
///
/// In a stream of replays a claim looks before it inserts: an insert that finds the row there costs the server twice what the
/// look does. Right or wrong, the answer is the same.
pub(super) struct Claims {
    runner: Arc<Runner>,
    /// How many of the last claims found their execution there, of [`SHARE_MAX`].
    share: AtomicU32,
}

impl Claims {
    pub(super) fn new(runner: &Arc<Runner>) -> Self {
        Self { runner: Arc::clone(runner), share: AtomicU32::new(0) }
    }

    fn expects_replays(&self) -> bool {
        self.share.load(Ordering::Relaxed) >= SHARE_MIN
    }

    fn note<'a>(&self, answers: impl Iterator<Item = Option<&'a Claimed>>) {
        let mut share = self.share.load(Ordering::Relaxed);
        for answer in answers {
            let is_replay = matches!(answer, Some(Claimed::Found(_)));
            share -= share / SHARE_OF;
            share += if is_replay { SHARE_MAX / SHARE_OF } else { 0 };
        }
        self.share.store(share, Ordering::Relaxed);
    }

    /// Looks for all of them, and claims those that are not there, if they are several.
    async fn look(&self, requests: &[Claim]) -> Result<Vec<Option<Claimed>>, StoreError> {
        let mut answers = self.runner.run(&Looks(requests)).await?;
        let places: Vec<usize> =
            (0..answers.len()).filter(|place| answers[*place].is_none()).collect();
        // One goes alone, so that the others do not wait with it.
        if places.len() > 1 {
            let claims: Vec<_> = places.iter().map(|place| requests[*place].clone()).collect();
            let claimed = self.runner.run(&Batch(&claims)).await?;
            for (place, claimed) in places.into_iter().zip(claimed) {
                answers[place] = claimed;
            }
        }
        Ok(answers)
    }
}

impl Together for Claims {
    type Request = Claim;
    type Answer = Claimed;

    fn goes_along(_: &Claim) -> bool {
        true
    }

    fn bytes(request: &Claim) -> usize {
        Carries::bytes(request)
    }

    async fn one(&self, request: &Claim) -> Result<Claimed, StoreError> {
        let mut found = None;
        if self.expects_replays() {
            found = self.runner.run(&Look(request)).await?;
        }
        let claimed = match found {
            Some(found) => found,
            None => self.runner.run(request).await?,
        };
        self.note(iter::once(Some(&claimed)));
        Ok(claimed)
    }

    async fn many(&self, requests: &[Claim]) -> Result<Vec<Option<Claimed>>, StoreError> {
        let answers = if self.expects_replays() {
            self.look(requests).await?
        } else {
            self.runner.run(&Batch(requests)).await?
        };
        self.note(answers.iter().map(Option::as_ref));
        Ok(answers)
    }
}

/// Reads an execution that is likely to be there.
struct Look<'a>(&'a Claim);

impl Operation for Look<'_> {
    type Answer = Option<Claimed>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Option<Claimed>, Failure> {
        let look = db.query(&db.queries.look).bind(id(self.0.id));
        let row = look.fetch_optional(&mut *db.connection).await.map_err(at("to claim"))?;
        row.map(|row| found(db, &row, 1)).transpose()
    }
}

/// Reads executions that are likely to be there.
struct Looks<'a>(&'a [Claim]);

impl Operation for Looks<'_> {
    type Answer = Vec<Option<Claimed>>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Self::Answer, Failure> {
        let requests = u32::try_from(self.0.len()).unwrap_or(u32::MAX).max(1);
        let look = db
            .query(&db.queries.look_many)
            .bind(column(self.0, |claim| id(claim.id)))
            .bind(number(RESULT_BYTES_MAX / requests));
        let rows = look.fetch_all(&mut *db.connection).await.map_err(at("to claim"))?;
        let mut answers = nothing(self.0);
        for row in &rows {
            let place = place(row.try_get(0).map_err(at("to claim"))?);
            if let Some(answer) = place.and_then(|place| answers.get_mut(place)) {
                // A row that cannot be read is reported to those alone who ask for it.
                *answer = found(db, row, 2).ok();
            }
        }
        Ok(answers)
    }
}

/// The last instant at which a claim is not too old, inside the range of `timestamptz`.
fn issued_until(issued_at: Micros, retain_ms: u64) -> Instant {
    let last = Micros(issued_at.0.max(0)).plus_ms(u64::try_from(ms(retain_ms)).unwrap_or(0));
    Instant(Micros(last.0.min(ms(u64::MAX).saturating_mul(2_000))))
}

impl Operation for Claim {
    type Answer = Claimed;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Claimed, Failure> {
        for _ in 0..TRIES_MAX {
            let statement =
                if self.issued_at.is_some() { &db.queries.claim_issued } else { &db.queries.claim };
            let mut query = db
                .query(statement)
                .bind(id(self.id))
                .bind(&self.identity.namespace)
                .bind(&self.identity.tenant)
                .bind(&self.identity.handler)
                .bind(&self.identity.key)
                .bind(number(self.version))
                .bind(owner(self.owner))
                .bind(ms(self.limits.lease_ms))
                .bind(ms(self.limits.max_runtime_ms))
                .bind(number(self.limits.crashes_max))
                .bind(ms(self.limits.retain_ms))
                .bind(&self.fingerprint)
                .bind(ms(self.limits.alive_ms()));
            if let Some(issued_at) = self.issued_at {
                query = query.bind(issued_until(issued_at, self.limits.retain_ms));
            }
            let row = query.fetch_optional(&mut *db.connection).await.map_err(at("to claim"))?;
            let Some(row) = row else { continue };
            return Ok(claimed(db, &row, 2)?.unwrap_or(Claimed::TooOld));
        }
        let text = format!("postgres: execution {} came and went {TRIES_MAX} times", self.id);
        Err(StoreError::new(StoreErrorKind::Busy, text).into())
    }
}

/// Reads the time and, from `first` on, the record behind it.
fn found(db: &Db<'_>, row: &PgRow, first: usize) -> Result<Claimed, Failure> {
    let Instant(now) = row.try_get(first - 1).map_err(at("to claim"))?;
    let record = sql::record(&Row::of_record(row, first), &db.queries.table)?;
    Ok(Claimed::Found(Box::new(Seen { record, now })))
}

/// What a claim's row says, whose first column is whether it was found; `None`: it is too old.
fn claimed(db: &Db<'_>, row: &PgRow, first: usize) -> Result<Option<Claimed>, Failure> {
    if row.try_get(0).map_err(at("to claim"))? {
        return found(db, row, first).map(Some);
    }
    let token = Row::of_record(row, first).integer("token");
    let token = token.map_err(sqlx::Error::Decode).map_err(at("to claim"))?;
    let granted = |token| Granted { token: Token(token), attempts: 1, crashes: 0, generation: 0 };
    Ok(token.map(|token| Claimed::Granted(granted(token))))
}

/// Which execution was granted to whom.
fn granted_to(row: &PgRow, first: usize) -> Option<(ExecutionId, Owner)> {
    let row = Row::of_record(row, first);
    let (id, owner) = (row.id("id").ok()??, row.id("owner").ok()??);
    Some((ExecutionId(id), Owner(owner)))
}

impl Many for Claim {
    /// What was too old, or came and went, or is claimed twice in the batch, goes alone.
    async fn many(db: &mut Db<'_>, claims: &[Self]) -> Result<Vec<Option<Claimed>>, Failure> {
        let limits = |limit: fn(&Limits) -> u64| column(claims, |claim| ms(limit(&claim.limits)));
        let text = |text: fn(&Identity) -> &str| column(claims, |claim| text(&claim.identity));
        let issued_until = |claim: &Self| {
            claim.issued_at.map(|issued_at| issued_until(issued_at, claim.limits.retain_ms))
        };
        let rows = db
            .query(&db.queries.claim_many)
            .bind(column(claims, |claim| id(claim.id)))
            .bind(text(|identity| &identity.namespace))
            .bind(text(|identity| &identity.tenant))
            .bind(text(|identity| &identity.handler))
            .bind(column(claims, |claim| claim.identity.key.as_deref()))
            .bind(column(claims, |claim| number(claim.version)))
            .bind(column(claims, |claim| owner(claim.owner)))
            .bind(limits(|limits| limits.lease_ms))
            .bind(limits(|limits| limits.max_runtime_ms))
            .bind(column(claims, |claim| number(claim.limits.crashes_max)))
            .bind(limits(|limits| limits.retain_ms))
            .bind(column(claims, |claim| claim.fingerprint.as_deref()))
            .bind(limits(Limits::alive_ms))
            .bind(column(claims, issued_until))
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to claim"))?;
        let places = claims.iter().enumerate().rev();
        let places: HashMap<_, _> =
            places.map(|(place, claim)| ((claim.id, claim.owner), place)).collect();
        let mut answers = nothing(claims);
        for row in &rows {
            let place = match row.try_get(1).map_err(at("to claim"))? {
                Some(n) => place(n),
                None => granted_to(row, 3).and_then(|granted| places.get(&granted).copied()),
            };
            if let Some(answer) = place.and_then(|place| answers.get_mut(place)) {
                // A row that cannot be read is reported to those alone who ask for it.
                *answer = claimed(db, row, 3).ok().flatten();
            }
        }
        Ok(answers)
    }
}
