//! The messages that a running body has sent, until its completion takes them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::identity::message_id;
use crate::protocol::{ExecutionId, Message};

/// Messages of one execution.
const MESSAGES_MAX: usize = 1_000;

/// A message that is not committed yet.
#[derive(Clone, Debug)]
pub(super) struct Unsent {
    pub(super) topic: String,
    pub(super) ordering_key: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) delay_ms: u64,
}

/// The messages of one attempt, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    sent: Mutex<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    messages: Vec<Unsent>,
    closed: bool,
    /// The body was given its completion, with the messages so far.
    sealed: bool,
}

impl Buffer {
    pub(super) fn push(&self, message: Unsent) -> Result<(), String> {
        let mut sent = self.sent();
        if sent.closed {
            return Err("the handler has ended".to_owned());
        }
        if sent.sealed {
            return Err("it comes behind the completion that the body asked for, and would be in no commit; send \
                        before"
                .to_owned());
        }
        if sent.messages.len() >= MESSAGES_MAX {
            return Err(format!("the execution has sent {MESSAGES_MAX} messages already"));
        }
        sent.messages.push(message);
        Ok(())
    }

    /// Refuses what is sent from now on.
    pub(crate) fn close(&self) {
        self.sent().closed = true;
    }

    /// The messages of an execution that is to be completed, with the ids that they have for ever.
    pub(crate) fn take(&self, execution: ExecutionId, generation: u32) -> Vec<Message> {
        numbered(std::mem::take(&mut self.sent().messages), execution, generation)
    }

    /// The same for a body that completes it: no message is added to them, and they stay here, in case its transaction
    /// is rolled back.
    pub(crate) fn seal(&self, execution: ExecutionId, generation: u32) -> Vec<Message> {
        let mut sent = self.sent();
        sent.sealed = true;
        numbered(sent.messages.clone(), execution, generation)
    }

    /// Lets messages be added again.
    pub(crate) fn go_on(&self) {
        self.sent().sealed = false;
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        // No code that may panic runs under the lock.
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn numbered(messages: Vec<Unsent>, execution: ExecutionId, generation: u32) -> Vec<Message> {
    let message = |(n, unsent): (u32, Unsent)| Message {
        id: message_id(&execution, generation, n),
        topic: unsent.topic,
        ordering_key: unsent.ordering_key,
        headers: unsent.headers,
        body: unsent.body,
        delay_ms: unsent.delay_ms,
    };
    (0_u32..).zip(messages).map(message).collect()
}
