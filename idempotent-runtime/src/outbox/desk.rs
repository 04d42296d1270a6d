//! What a person can see of the outbox and decide.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::only;
use crate::error::Error;
use crate::protocol::{
    DecideTo, ExecutionId, MessageDecision, MessageId, MessageListing, MessageRecord, MessageState,
    Micros, Settled, Token, TopicCount,
};
use crate::runtime::Runtime;

/// Rows of one listing, unless asked for fewer.
const ROWS_MAX: u32 = 1_000;
/// Longest note, in bytes.
const NOTE_BYTES_MAX: usize = 1_024;

/// The outbox of a runtime's namespace; from [`Runtime::outbox`].
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{Error, Runtime};
/// # async fn night_shift(runtime: &Runtime) -> Result<(), Error> {
/// let outbox = runtime.outbox();
/// for held in outbox.dead(None, 100).await? {
///     println!("{} to {}: {}", held.id, held.topic, held.last_error);
///     outbox.retry(&held, "ada: the receiver is back").await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Outbox {
    runtime: Runtime,
}

/// A message that is dead or in review.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldMessage {
    /// Which message.
    pub id: MessageId,
    /// The execution that sent it.
    pub execution: ExecutionId,
    /// Where to.
    pub topic: String,
    /// The messages behind it of this key wait for a decision.
    pub ordering_key: Option<String>,
    /// Names and values beside the body.
    pub headers: Vec<(String, String)>,
    /// JSON.
    pub body: Vec<u8>,
    /// Deliveries so far.
    pub attempts: u32,
    /// What the last one said.
    pub last_error: String,
    /// When it was committed.
    pub created_at: Micros,
    place: i64,
    seen: Token,
}

impl Runtime {
    /// The messages of this namespace, and what to do about those that were given up.
    #[must_use]
    pub fn outbox(&self) -> Outbox {
        Outbox { runtime: self.clone() }
    }
}

impl Outbox {
    /// Lists the messages that a sink never took, in the order of commit: at most `rows_max` (1,000 at the most)
    /// behind `after`, the last of the listing before.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// Nothing is written.
    pub async fn dead(
        &self,
        after: Option<&HeldMessage>,
        rows_max: u32,
    ) -> Result<Vec<HeldMessage>, Error> {
        self.list(MessageState::Dead, after, rows_max).await
    }

    /// Lists the messages of which nobody knows whether they were delivered, as [`dead`](Self::dead) does.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// Nothing is written.
    pub async fn in_review(
        &self,
        after: Option<&HeldMessage>,
        rows_max: u32,
    ) -> Result<Vec<HeldMessage>, Error> {
        self.list(MessageState::Review, after, rows_max).await
    }

    /// Has a message delivered again, with its attempts back at zero; one in review only if it is known not to have
    /// arrived.
    ///
    /// The note says who decided and why, in at most 1,024 bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if the message is not as it was listed: somebody decided before. [`Error::Config`] for a wrong
    /// note, [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// The decision is written or not; list again.
    pub async fn retry(&self, held: &HeldMessage, note: &str) -> Result<(), Error> {
        self.decide(held, DecideTo::Retry, note).await
    }

    /// Marks a message as delivered: it has arrived, or nobody needs it any more.
    ///
    /// # Errors
    ///
    /// As [`retry`](Self::retry).
    ///
    /// # Cancel safety
    ///
    /// The decision is written or not; list again.
    pub async fn mark_delivered(&self, held: &HeldMessage, note: &str) -> Result<(), Error> {
        self.decide(held, DecideTo::Delivered, note).await
    }

    /// Counts the undelivered messages of each topic that has some.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// Nothing is written.
    pub async fn counts(&self) -> Result<Vec<TopicCount>, Error> {
        let store = Arc::clone(self.runtime.store());
        let namespace = self.runtime.namespace().to_owned();
        let counting = async move { store.messages().count_messages(&namespace).await };
        Ok(self.runtime.in_own_task(counting).await??)
    }

    /// Deletes the messages that were delivered longer than `retain` ago, of all namespaces of the database, and says
    /// how many. The reaper does the same after 7 days.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store fails; what was deleted stays deleted.
    ///
    /// # Cancel safety
    ///
    /// The statement under way is finished.
    pub async fn purge(&self, retain: Duration) -> Result<u64, Error> {
        let mut deleted = 0;
        loop {
            let store = Arc::clone(self.runtime.store());
            let retain_ms = crate::policy::ms(retain);
            let purging = async move { store.messages().purge_messages(retain_ms, ROWS_MAX).await };
            let batch = self.runtime.in_own_task(purging).await??;
            deleted += batch;
            if batch < u64::from(ROWS_MAX) {
                return Ok(deleted);
            }
        }
    }

    async fn list(
        &self,
        state: MessageState,
        after: Option<&HeldMessage>,
        rows_max: u32,
    ) -> Result<Vec<HeldMessage>, Error> {
        let listing = MessageListing {
            namespace: self.runtime.namespace().to_owned(),
            topic: None,
            state,
            after: after.map(|last| last.place),
            rows_max: rows_max.min(ROWS_MAX),
        };
        let store = Arc::clone(self.runtime.store());
        let listed = async move { store.messages().list_messages(&listing).await };
        let listed = self.runtime.in_own_task(listed).await??;
        Ok(listed.into_iter().map(HeldMessage::new).collect())
    }

    async fn decide(&self, held: &HeldMessage, to: DecideTo, note: &str) -> Result<(), Error> {
        if note.trim().is_empty() || note.len() > NOTE_BYTES_MAX || note.contains('\0') {
            let reason = "say who decided and why, in 1 to 1,024 bytes without NUL".to_owned();
            return Err(Error::Config { setting: "note", reason });
        }
        let decision = MessageDecision { id: held.id, seen: held.seen, to, note: note.to_owned() };
        let store = Arc::clone(self.runtime.store());
        let deciding =
            async move { store.messages().decide_messages(std::slice::from_ref(&decision)).await };
        match only(self.runtime.in_own_task(deciding).await??)? {
            Settled::Done => {
                tracing::info!(topic = held.topic, message = %held.id, ?to, note, "decided");
                Ok(())
            }
            Settled::TooEarly { .. } | Settled::Outrun | Settled::NoSuchStep => Err(Error::Stale),
        }
    }
}

impl HeldMessage {
    fn new(message: MessageRecord) -> Self {
        Self {
            id: message.id,
            execution: message.execution,
            topic: message.topic,
            ordering_key: message.ordering_key,
            headers: message.headers,
            body: message.body,
            attempts: message.attempts,
            last_error: message.last_error.unwrap_or_default(),
            created_at: message.created_at,
            place: message.seq,
            seen: message.token,
        }
    }
}
