//! A relay that delivers the message.

use idempotent_runtime::protocol::{MessageRecord, Micros};

use crate::config::Sink;
use crate::effects::Outside;
use crate::property::{Broken, Promise};
use crate::request::{Answer, By, Delivers, Request, number};
use crate::time::{NOW, tick};

/// A relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Relay {
    /// It does nothing, or has died.
    Idle,
    /// It has sent a claim and heard nothing.
    Asking { owner: u8 },
    /// The message is its to deliver, while its lease holds; `asks` whether it was delivered before.
    Holds { by: By, lease_until: Micros, asks: bool },
    /// The delivery has ended; that is sent until it is answered.
    Ending { by: By, delivers: Delivers },
}

/// What a relay does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelayMove {
    Claim,
    /// It hands the message to its receiver.
    Send,
    /// It asks the receiver, who has it or has not.
    Ask,
    End(Delivers),
    Die,
}

impl Relay {
    pub(crate) fn moves(&self, sink: Sink) -> Vec<RelayMove> {
        match self {
            Self::Idle => vec![RelayMove::Claim],
            Self::Asking { .. } => vec![RelayMove::Claim, RelayMove::Die],
            Self::Holds { asks: true, .. } => vec![RelayMove::Ask, RelayMove::Die],
            Self::Holds { lease_until, .. } => {
                let mut moves = vec![RelayMove::Die];
                // A delivery that must not be repeated begins only while the lease is sure to hold.
                if !sink.at_most_once || *lease_until >= NOW {
                    moves.push(RelayMove::Send);
                    moves.push(RelayMove::End(Delivers::Retry));
                }
                moves
            }
            Self::Ending { delivers, .. } => vec![RelayMove::End(*delivers), RelayMove::Die],
        }
    }

    pub(crate) fn request(&self, taken: RelayMove, fresh: u8) -> Option<Request> {
        Some(match (*self, taken) {
            (Self::Idle, RelayMove::Claim) => Request::ClaimMessage { owner: fresh, again: false },
            (Self::Asking { owner }, RelayMove::Claim) => {
                Request::ClaimMessage { owner, again: true }
            }
            (Self::Holds { by, .. } | Self::Ending { by, .. }, RelayMove::End(delivers)) => {
                Request::EndDelivery { by, delivers }
            }
            _ => return None,
        })
    }

    /// What it does by itself.
    pub(crate) fn act(
        &mut self,
        sink: Sink,
        taken: RelayMove,
        outside: &mut Outside,
        broken: &mut Broken,
    ) {
        *self = match (*self, taken) {
            (Self::Holds { by, .. }, RelayMove::Send) => {
                outside.sent = (outside.sent + 1).min(2);
                broken.mark(Promise::DeliveredAtMostOnce, sink.at_most_once && outside.sent > 1);
                Self::Ending { by, delivers: Delivers::Delivered }
            }
            (Self::Holds { by, lease_until, .. }, RelayMove::Ask) => {
                if outside.sent > 0 {
                    Self::Ending { by, delivers: Delivers::Delivered }
                } else {
                    Self::Holds { by, lease_until, asks: false }
                }
            }
            _ => Self::Idle,
        };
    }

    pub(crate) fn sends(&mut self, request: Request) {
        match request {
            Request::ClaimMessage { owner, .. } => *self = Self::Asking { owner },
            Request::EndDelivery { by, delivers } => *self = Self::Ending { by, delivers },
            _ => {}
        }
    }

    pub(crate) fn hears(&mut self, answer: &Answer) {
        *self = match answer {
            Answer::Message(Some(message)) => Self::holds(message),
            _ => Self::Idle,
        };
    }

    fn holds(message: &MessageRecord) -> Self {
        let MessageRecord { owner, token, due_at, asks, .. } = *message;
        Self::Holds { by: By { owner: number(owner), token }, lease_until: due_at, asks }
    }

    /// A millisecond later.
    pub(crate) fn tick(&mut self) {
        match self {
            Self::Idle | Self::Asking { .. } | Self::Ending { .. } => {}
            Self::Holds { lease_until, .. } => tick(lease_until, 1),
        }
    }
}
