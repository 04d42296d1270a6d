//! What a worker and the store tell each other about messages: which ended, and which may begin.

use std::sync::Arc;
use std::time::Duration;

use super::{Worker, flat};
use crate::error::Error;
use crate::metrics;
use crate::policy::ms;
use crate::protocol::{DeliveryEnd, MessageClaim, MessagesClaimed, Micros, Owner, Written};
use crate::runtime::Runtime;

/// A relay that waits to be told, and polls seldom, looks for all as often as one that only polls: what it was told of
/// may have been committed later than what it has seen.
const ALL_EVERY_MAX: Duration = Duration::from_secs(1);

impl Worker {
    /// Notes what ended and claims what may begin, side by side: neither waits for the other's commit.
    pub(super) async fn write_and_claim(&mut self) {
        let claim = self.next_claim();
        let writing = async {
            if self.ends.is_empty() { None } else { Some(write(&self.runtime, &self.ends).await) }
        };
        let claiming = async {
            match &claim {
                Some((claim, _)) => Some(answered(&self.runtime, claim.clone()).await),
                None => None,
            }
        };
        let (written, answer) = tokio::join!(writing, claiming);
        if let Some(written) = written {
            self.written(written);
        }
        if let (Some((claim, asked)), Some(answer)) = (claim, answer) {
            self.claimed(claim, asked, answer);
        }
    }

    pub(super) fn written(&mut self, written: Result<Vec<Written>, Error>) {
        self.ends_first = written.is_err();
        match written {
            Ok(written) => {
                let ends = std::mem::take(&mut self.ends);
                for (end, _) in ends.iter().zip(written).filter(|(_, it)| *it == Written::Fenced) {
                    tracing::warn!(topic = self.topic, message = %end.id, "another relay took a message over");
                }
            }
            Err(error) => self.store_failed(&error),
        }
    }

    /// What to claim, and from when on its lease counts: as many messages as may be delivered at once.
    fn next_claim(&mut self) -> Option<(MessageClaim, Duration)> {
        let free = self.free();
        let waits = self.ends_first && !self.ends.is_empty();
        match self.unanswered.take() {
            Some(unanswered) => Some(unanswered),
            None if self.looks
                && free > 0
                && !waits
                && !self.is_stopping()
                && self.again_at.is_none() =>
            {
                let all = free == self.route.concurrency;
                let rows_max = if all { free } else { rounded(free) };
                let now = self.now();
                if now >= self.all_at {
                    self.since = Micros(0);
                    self.all_at = now.saturating_add(self.poll.min(ALL_EVERY_MAX));
                }
                Some((self.new_claim(rows_max), now))
            }
            None => None,
        }
    }

    fn claimed(
        &mut self,
        claim: MessageClaim,
        asked: Duration,
        answer: Result<MessagesClaimed, Error>,
    ) {
        match answer {
            Ok(MessagesClaimed { messages, reviewed }) => {
                let found = messages.len() + reviewed.len();
                let oldest = messages.iter().map(|message| message.created_at).min();
                self.looks = claim.again || found >= usize::try_from(claim.rows_max).unwrap_or(0);
                // What was committed before the oldest of a full claim is under way, held back, or delayed.
                if !claim.again {
                    self.since = oldest.filter(|_| self.looks).unwrap_or(Micros(0));
                }
                for id in reviewed {
                    tracing::error!(topic = self.topic, message = %id, "a message needs review");
                    metrics::delivery(&self.topic, "review");
                }
                for message in messages {
                    self.begin(message, asked);
                }
            }
            Err(error) => {
                // What it may have claimed is asked for, and no more.
                let again = MessageClaim { again: true, rows_max: 0, ..claim };
                self.unanswered = Some((again, asked));
                self.store_failed(&error);
            }
        }
    }

    fn new_claim(&self, rows_max: u32) -> MessageClaim {
        MessageClaim {
            namespace: self.runtime.namespace().to_owned(),
            topic: self.topic.clone(),
            owner: Owner(crate::random::uuid().into_bytes()),
            lease_ms: ms(self.route.lease),
            at_most_once: self.route.at_most_once,
            reconciles: self.route.question.is_some(),
            rows_max,
            since: self.since,
            again: false,
        }
    }
}

pub(super) async fn write(runtime: &Runtime, ends: &[DeliveryEnd]) -> Result<Vec<Written>, Error> {
    let (store, ends) = (Arc::clone(runtime.store()), ends.to_vec());
    flat(runtime.in_own_task(async move { store.messages().end_deliveries(&ends).await }).await)
}

async fn answered(runtime: &Runtime, claim: MessageClaim) -> Result<MessagesClaimed, Error> {
    let store = Arc::clone(runtime.store());
    let claiming =
        async move { store.messages().claim_messages(std::slice::from_ref(&claim)).await };
    let answers = flat(runtime.in_own_task(claiming).await)?;
    Ok(answers.into_iter().next().unwrap_or_default())
}

/// At most so many, to two binary digits: a store may keep a statement for each size.
fn rounded(rows: u32) -> u32 {
    let below = rows.checked_ilog2().unwrap_or(0).saturating_sub(1);
    rows >> below << below
}
