//! Bugs that the matrix must catch, planted between the runtime and a sound store.

use std::sync::{Arc, Mutex, PoisonError};

use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, ExecutionId, Identity, Message, MessageClaim, Micros, StepRecord,
    StepRecorded, StepStart, StepStarted, StoredResult,
};
use idempotent_runtime::store::{Execution, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::{Cell, Class, Fall, Point};
use crate::database::Database;
use crate::plant::{Plant, Planted};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bug {
    /// A completion is written whoever owns the execution, and whatever its state.
    GuardRemoved,
    /// A step is not recorded.
    RecordDropped,
    /// That a step has started is written behind its effect.
    StartedLate,
    /// What is sent outside as the key is another for each attempt.
    KeyOfTheAttempt,
    /// What a body writes in its transaction is committed, and then its outcome.
    OutcomeApart,
    /// The outcome is committed, and then the messages.
    MessagesApart,
    /// A relay claims what another is delivering.
    RelayUnfenced,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 7] = [
        Self::GuardRemoved,
        Self::RecordDropped,
        Self::StartedLate,
        Self::KeyOfTheAttempt,
        Self::OutcomeApart,
        Self::MessagesApart,
        Self::RelayUnfenced,
    ];

    /// A cell that catches it.
    #[must_use]
    pub fn cell(self) -> Cell {
        let (class, point, fall) = match self {
            Self::GuardRemoved => (Class::Plain, Point::BeforeCompletion, Fall::Freezes),
            Self::RecordDropped => (Class::Plain, Point::BeforeCompletion, Fall::Dies),
            Self::StartedLate => (Class::AtMostOnce, Point::AfterEffect, Fall::Dies),
            Self::KeyOfTheAttempt => (Class::ProviderWindow, Point::AfterEffect, Fall::Dies),
            Self::OutcomeApart => (Class::Transaction, Point::BeforeCompletion, Fall::Dies),
            Self::MessagesApart => (Class::Outbox, Point::AfterCompletion, Fall::Dies),
            Self::RelayUnfenced => (Class::OutboxAtMostOnce, Point::AfterDelivery, Fall::Dies),
        };
        Cell { class, point, fall }
    }
}

/// A store, and perhaps a bug in it.
#[derive(Clone, Debug)]
pub(super) struct Flaw {
    bug: Option<Bug>,
    pub(super) store: Arc<dyn Store>,
    database: Option<Database>,
    /// Starts that are not written yet.
    unwritten: Arc<Mutex<Vec<StepStart>>>,
}

impl Flaw {
    pub(super) async fn of(bug: Option<Bug>, store: Arc<dyn Store>, url: &str) -> Self {
        let store = match bug {
            Some(Bug::GuardRemoved) => {
                // It asks for the table past the store.
                store.migrate().await.expect("the schema is made");
                Planted::over(store, Plant::GuardRemoved, url).await
            }
            _ => store,
        };
        let database = match bug {
            Some(Bug::RelayUnfenced) => Some(Database::connect(url).await),
            _ => None,
        };
        Self { bug, store, database, unwritten: Arc::default() }
    }

    pub(super) fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) async fn start_steps(
        &self,
        starts: &[StepStart],
    ) -> Result<Vec<StepStarted>, StoreError> {
        if !self.is(Bug::StartedLate) {
            return self.store.start_steps(starts).await;
        }
        let ids: Vec<ExecutionId> = starts.iter().map(|start| start.id).collect();
        let found = self.store.read(&ids).await?;
        self.unwritten().extend_from_slice(starts);
        let started = |Execution { now, .. }| StepStarted::Started { started_at: now, now };
        Ok(found.into_iter().map(|found| found.map_or(StepStarted::Fenced, started)).collect())
    }

    pub(super) async fn record_steps(
        &self,
        records: &[StepRecord],
    ) -> Result<Vec<StepRecorded>, StoreError> {
        if self.is(Bug::RecordDropped) {
            return Ok(vec![StepRecorded::Done { done_at: Micros(1) }; records.len()]);
        }
        let unwritten = std::mem::take(&mut *self.unwritten());
        self.store.start_steps(&unwritten).await?;
        self.store.record_steps(records).await
    }

    fn unwritten(&self) -> std::sync::MutexGuard<'_, Vec<StepStart>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The completions, and what is sent apart from them.
    pub(super) fn messages_apart(
        &self,
        completions: &[Completion],
    ) -> (Vec<Completion>, Vec<Completion>) {
        if !self.is(Bug::MessagesApart) {
            return (completions.to_vec(), Vec::new());
        }
        let own = completions
            .iter()
            .map(|completion| Completion { messages: Vec::new(), ..completion.clone() });
        (own.collect(), completions.to_vec())
    }

    /// Sends what was kept apart, with executions of nobody.
    pub(super) async fn send(&self, apart: &[Completion]) -> Result<(), StoreError> {
        for Completion { id, owner, messages, .. } in apart {
            let found = self.store.read(&[*id]).await?.pop().flatten();
            let Some(Execution { record, identity, .. }) = found else { continue };
            let mut other = *id;
            other.0[0] = !other.0[0];
            let claim = Claim {
                id: other,
                identity: Identity { handler: "nobody".to_owned(), ..identity }.into(),
                owner: *owner,
                version: 1,
                limits: record.limits,
                fingerprint: None,
                issued_at: None,
            };
            let claimed = self.store.claim(&[claim]).await?.pop();
            let Some(Claimed::Granted(granted)) = claimed else { continue };
            let messages: Vec<Message> = messages.clone();
            let result = StoredResult::Json(b"null".to_vec());
            let (owner, token) = (*owner, granted.token);
            let completion =
                Completion { id: other, owner, token, failed: false, result, messages };
            self.store.complete(&[completion]).await?;
        }
        Ok(())
    }

    pub(super) async fn before_message_claims(&self, claims: &[MessageClaim]) {
        let Some(database) = &self.database else { return };
        for claim in claims {
            let steal = "UPDATE idempotent_outbox SET state = 1, at_most_once = FALSE, \
                 due_at = created_at WHERE state = 2 AND topic = $1";
            database.execute(steal, Some(&claim.topic), None).await;
        }
    }
}
