//! The fault matrix: one handler, one class of effect, one process that dies or freezes at one point of it.
//!
//! A process is told where to fall ([`Point`]) and how ([`Fall`]). Others come after it until the operation is
//! answered or needs a person; then the frozen one is woken. [`Cell::judge`] compares the effects and the answers with
//! the table of [`Cell::expected`]. What a row of the table must catch is planted as a [`Bug`].

mod cell;
mod expected;

mod child;
mod effect;
mod process;
mod trap;

mod bug;

pub use bug::Bug;
pub use cell::{Cell, Place, Seen};
pub use expected::{End, Expected};
pub use process::{Answered, Job, main};

use serde::{Deserialize, Serialize};

/// The class of the handler's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// A provider that honours the key, inside its window.
    ProviderWindow,
    /// The same, and the provider may have forgotten.
    ProviderForgot,
    /// Recorded after the effect.
    Plain,
    /// Never repeated.
    AtMostOnce,
    /// Never repeated, and the outside can be asked.
    Reconciled,
    /// A write of the database, committed with the handler's outcome.
    Transaction,
    /// A write of the database, committed with a step's record.
    TransactionStep,
    /// A message, committed with the handler's outcome, and delivered by a relay to a receiver that keeps its ids.
    Outbox,
    /// The same, to a receiver that keeps none, by a sink that never repeats.
    OutboxAtMostOnce,
    /// The same, and the receiver can be asked.
    OutboxReconciled,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 10] = [
        Self::ProviderWindow,
        Self::ProviderForgot,
        Self::Plain,
        Self::AtMostOnce,
        Self::Reconciled,
        Self::Transaction,
        Self::TransactionStep,
        Self::Outbox,
        Self::OutboxAtMostOnce,
        Self::OutboxReconciled,
    ];

    /// Whether its effect is a write of the store's own database.
    #[must_use]
    pub fn is_transaction(self) -> bool {
        matches!(self, Self::Transaction | Self::TransactionStep)
    }

    /// Whether a relay delivers it.
    #[must_use]
    pub fn is_relayed(self) -> bool {
        matches!(self, Self::Outbox | Self::OutboxAtMostOnce | Self::OutboxReconciled)
    }

    /// Whether the outside tells a request that it has seen from another.
    #[must_use]
    pub fn is_keyed(self) -> bool {
        matches!(self, Self::ProviderWindow | Self::ProviderForgot | Self::Outbox)
    }

    /// The points that a call comes to, in their order.
    #[must_use]
    pub fn points(self) -> &'static [Point] {
        match self {
            Self::ProviderWindow | Self::ProviderForgot | Self::AtMostOnce | Self::Reconciled => &[
                Point::BeforeClaim,
                Point::AfterClaim,
                Point::BeforeStart,
                Point::AfterStart,
                Point::BeforeEffect,
                Point::AfterEffect,
                Point::BeforeRecord,
                Point::AfterRecord,
                Point::BeforeCompletion,
                Point::AfterCompletion,
            ],
            Self::Plain => &[
                Point::BeforeClaim,
                Point::AfterClaim,
                Point::BeforeEffect,
                Point::AfterEffect,
                Point::BeforeRecord,
                Point::AfterRecord,
                Point::BeforeCompletion,
                Point::AfterCompletion,
            ],
            Self::Transaction => &[
                Point::BeforeClaim,
                Point::AfterClaim,
                Point::BeforeEffect,
                Point::AfterEffect,
                Point::BeforeCompletion,
                Point::BeforeCommit,
                Point::AfterCompletion,
            ],
            Self::TransactionStep => &[
                Point::BeforeClaim,
                Point::AfterClaim,
                Point::BeforeEffect,
                Point::AfterEffect,
                Point::BeforeRecord,
                Point::BeforeCommit,
                Point::AfterRecord,
                Point::BeforeCompletion,
                Point::AfterCompletion,
            ],
            Self::Outbox | Self::OutboxAtMostOnce | Self::OutboxReconciled => &[
                Point::BeforeClaim,
                Point::AfterClaim,
                Point::BeforeCompletion,
                Point::AfterCompletion,
                Point::BeforeMessageClaim,
                Point::AfterMessageClaim,
                Point::BeforeDelivery,
                Point::AfterDelivery,
                Point::BeforeAcknowledgement,
                Point::AfterAcknowledgement,
            ],
        }
    }
}

/// Where the process falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Point {
    /// The claim is about to be sent.
    BeforeClaim,
    /// The claim is answered, and nothing is begun.
    AfterClaim,
    /// The step is about to be noted as started.
    BeforeStart,
    /// It is noted.
    AfterStart,
    /// The effect is about to happen.
    BeforeEffect,
    /// It has happened.
    AfterEffect,
    /// Its record is about to be sent.
    BeforeRecord,
    /// What was written in a transaction is about to be committed.
    BeforeCommit,
    /// It is recorded.
    AfterRecord,
    /// The completion is about to be sent.
    BeforeCompletion,
    /// It is stored, and the caller does not know.
    AfterCompletion,
    /// The relay's claim is about to be sent.
    BeforeMessageClaim,
    /// It has claimed, and nothing is begun.
    AfterMessageClaim,
    /// The sink is about to send.
    BeforeDelivery,
    /// The receiver has it.
    AfterDelivery,
    /// The end of the delivery is about to be written.
    BeforeAcknowledgement,
    /// It is written.
    AfterAcknowledgement,
}

impl Point {
    /// What is found in the statement that is sent from here to a server, if one is.
    #[must_use]
    pub fn statement(self) -> Option<&'static str> {
        Some(match self {
            Self::BeforeClaim => "INSERT INTO idempotent_execution",
            Self::BeforeStart | Self::BeforeRecord => "idempotent_step AS s (id",
            Self::BeforeCommit => "COMMIT",
            Self::BeforeCompletion => "SET state = $1, result = $2",
            Self::BeforeMessageClaim | Self::BeforeAcknowledgement => "UPDATE idempotent_outbox",
            Self::AfterClaim
            | Self::AfterStart
            | Self::BeforeEffect
            | Self::AfterEffect
            | Self::AfterRecord
            | Self::AfterCompletion
            | Self::AfterMessageClaim
            | Self::BeforeDelivery
            | Self::AfterDelivery
            | Self::AfterAcknowledgement => return None,
        })
    }
}

/// How the process falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fall {
    /// SIGKILL.
    Dies,
    /// SIGSTOP; it is woken when another has taken over.
    Freezes,
    /// The same; and it is woken only when the execution was purged and the key is used again, for a new operation.
    FreezesPastPurge,
    /// Its connection to the server is cut before the statement arrives.
    LosesRequest,
    /// Its connection is cut when the server has done what the statement says, and before that is heard.
    LosesAnswer,
}

impl Fall {
    /// Every one of a process.
    pub const OF_A_PROCESS: [Self; 2] = [Self::Dies, Self::Freezes];
    /// Whether the process is stopped.
    #[must_use]
    pub fn freezes(self) -> bool {
        matches!(self, Self::Freezes | Self::FreezesPastPurge)
    }

    /// Every one of a connection.
    pub const OF_A_CONNECTION: [Self; 2] = [Self::LosesRequest, Self::LosesAnswer];
}
