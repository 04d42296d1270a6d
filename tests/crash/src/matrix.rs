//! The fault matrix: one handler, one class of effect, one process that dies or freezes at one point of it.
//!
//! A process is told where to fall ([`Point`]) and how ([`Fall`]). Others come after it until the operation is
//! answered or needs a person; then the frozen one is woken. [`Cell::judge`] compares the effects and the answers with
//! the table.

mod cell;
mod effect;
mod process;
mod trap;

pub use cell::{Cell, Expected, Seen};
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
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 8] = [
        Self::ProviderWindow,
        Self::ProviderForgot,
        Self::Plain,
        Self::AtMostOnce,
        Self::Reconciled,
        Self::Transaction,
        Self::TransactionStep,
        Self::Outbox,
    ];

    /// Whether its effect is a write of the store's own database.
    #[must_use]
    pub fn is_transaction(self) -> bool {
        matches!(self, Self::Transaction | Self::TransactionStep)
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
            Self::Outbox => &[
                Point::BeforeClaim,
                Point::AfterClaim,
                Point::BeforeCompletion,
                Point::AfterCompletion,
                Point::BeforeDelivery,
                Point::AfterDelivery,
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
    /// The relay is about to deliver.
    BeforeDelivery,
    /// It has delivered, and is about to say so.
    AfterDelivery,
    /// It has said so.
    AfterAcknowledgement,
}

/// How the process falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fall {
    /// SIGKILL.
    Dies,
    /// SIGSTOP; it is woken when another has taken over.
    Freezes,
}
