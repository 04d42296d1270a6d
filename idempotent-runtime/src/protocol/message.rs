//! Messages of the outbox: what is stored of one, and what a relay and a person may ask about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ExecutionId, Micros, Owner, Token};

/// Identifies a message: the same on every delivery. Derived from the execution, its generation and the message's
/// number within it; pinned for ever by golden vectors.
///
/// Shown as 36 characters in the form of a UUID (version 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageId(pub [u8; 16]);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // At once: a relay writes one for each delivery.
        let mut text = String::with_capacity(36);
        for (place, byte) in self.0.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for digit in [byte >> 4, byte & 0xF] {
                text.extend(char::from_digit(digit.into(), 16));
            }
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a message stands. The numbers are the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum MessageState {
    /// To be delivered, once it is due.
    Pending = 1,
    /// A relay is delivering it.
    Sending = 2,
    /// The sink took it.
    Delivered = 3,
    /// The sink will never take it, or has failed to too often; a person decides.
    Dead = 4,
    /// Nobody knows whether the sink took it; a person decides.
    Review = 5,
}

impl MessageState {
    /// The state of a stored number, or `None` if no state has it.
    #[must_use]
    pub fn from_stored(number: i64) -> Option<Self> {
        Some(match number {
            1 => Self::Pending,
            2 => Self::Sending,
            3 => Self::Delivered,
            4 => Self::Dead,
            5 => Self::Review,
            _ => return None,
        })
    }

    /// The stored number.
    #[must_use]
    pub fn stored(self) -> u8 {
        self as u8
    }
}

/// A message as a handler sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Where to: the sink of this name delivers it.
    pub topic: String,
    /// Messages of one topic with the same ordering key are delivered one after the other, in the order of commit.
    pub ordering_key: Option<String>,
    /// Names and values beside the body.
    pub headers: Vec<(String, String)>,
    /// JSON.
    pub body: Vec<u8>,
    /// Not delivered earlier than this many milliseconds after the commit.
    pub delay_ms: u64,
}

/// What is stored of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// Which message.
    pub id: MessageId,
    /// The execution whose completion it was committed with.
    pub execution: ExecutionId,
    /// The namespace of that execution.
    pub namespace: String,
    /// The message's place: rises in the order of commit among the messages of one ordering key, and roughly so
    /// among all.
    pub seq: i64,
    /// Where to.
    pub topic: String,
    /// What it must not overtake.
    pub ordering_key: Option<String>,
    /// Names and values beside the body.
    pub headers: Vec<(String, String)>,
    /// JSON.
    pub body: Vec<u8>,
    /// Where it stands.
    pub state: MessageState,
    /// Deliveries begun so far.
    pub attempts: u32,
    /// Whether the newest delivery must not be repeated blindly.
    pub at_most_once: bool,
    /// Whether the outside is to be asked what happened before it is delivered again.
    pub asks: bool,
    /// The newest claim.
    pub owner: Owner,
    /// The newest claim's token; with the owner it guards every write of a relay.
    pub token: Token,
    /// Pending: not delivered before. Sending: when the relay's lease ends.
    pub due_at: Micros,
    /// What the newest delivery that failed said, or the person who decided.
    pub last_error: Option<String>,
    /// When it was committed.
    pub created_at: Micros,
    /// When it was delivered.
    pub done_at: Option<Micros>,
}

/// Become the deliverer of messages of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageClaim {
    /// The namespace.
    pub namespace: String,
    /// The topic.
    pub topic: String,
    /// The claim: a fresh UUID.
    pub owner: Owner,
    /// Length of the lease, in milliseconds.
    pub lease_ms: u64,
    /// Whether a delivery must not be repeated blindly.
    pub at_most_once: bool,
    /// Whether the sink can ask the outside what happened.
    pub reconciles: bool,
    /// At most so many messages.
    pub rows_max: u32,
    /// A hint: what was committed before this instant need not be looked for. A relay that claims one batch after the other
    /// need not have the store pass over all that it delivered before; from time to time it asks for all, which is zero.
    pub since: Micros,
    /// The same claim was sent before and its answer was lost: what it claimed then is answered, too.
    pub again: bool,
}

/// The answer to a [`MessageClaim`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagesClaimed {
    /// The claimer's now, in the order of their places.
    pub messages: Vec<MessageRecord>,
    /// Messages whose delivery ended without an outcome and must not be repeated, sent to review.
    pub reviewed: Vec<MessageId>,
}

/// Prolong a relay's lease on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRenewal {
    /// Which message.
    pub id: MessageId,
    /// The claim.
    pub owner: Owner,
    /// Its token.
    pub token: Token,
    /// Length of the lease from now, in milliseconds.
    pub lease_ms: u64,
}

/// Note how a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryEnd {
    /// Which message.
    pub id: MessageId,
    /// The claim.
    pub owner: Owner,
    /// Its token.
    pub token: Token,
    /// How.
    pub to: DeliveryEndTo,
}

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryEndTo {
    /// The sink took it.
    Delivered,
    /// The sink did not: try again.
    Retry {
        /// After so many milliseconds.
        delay_ms: u64,
        /// What the sink said.
        error: String,
    },
    /// Nobody knows: ask the outside before another try.
    Ask {
        /// After so many milliseconds.
        delay_ms: u64,
        /// What the sink said.
        error: String,
    },
    /// The sink never will, or has failed to too often.
    Dead {
        /// What the sink said.
        error: String,
    },
    /// Nobody knows, and nobody can be asked.
    Review {
        /// What the sink said.
        error: String,
    },
    /// The delivery was not begun: pending as before, and not counted.
    Released,
}

/// A person's decision about a message that is dead or in review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageDecision {
    /// Which message.
    pub id: MessageId,
    /// The token that the person saw.
    pub seen: Token,
    /// What was decided.
    pub to: DecideTo,
    /// Who decided and why; kept as the message's last error.
    pub note: String,
}

/// What a person decided about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecideTo {
    /// Deliver it again: pending at once, attempts back to zero.
    Retry,
    /// It was delivered.
    Delivered,
}

/// The messages of a namespace that are asked for, in the order of their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageListing {
    /// The namespace.
    pub namespace: String,
    /// Only of this topic.
    pub topic: Option<String>,
    /// Only in this state.
    pub state: MessageState,
    /// Only behind this place.
    pub after: Option<i64>,
    /// At most so many.
    pub rows_max: u32,
}

/// The undelivered messages of one topic, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicCount {
    /// The topic.
    pub topic: String,
    /// To be delivered.
    pub pending: u64,
    /// Being delivered.
    pub sending: u64,
    /// Given up.
    pub dead: u64,
    /// Of unknown outcome.
    pub review: u64,
}
