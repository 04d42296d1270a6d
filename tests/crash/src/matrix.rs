//! The fault matrix: one handler, one class of effect, one process that dies or freezes at one point of it.
//!
//! A process is told where to fall ([`Point`]) and how ([`Fall`]). Others come after it until the operation is
//! answered or needs a person; then the frozen one is woken. [`Cell::judge`] compares the effects and the answers with
//! the table.

mod cell;
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
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 5] = [
        Self::ProviderWindow,
        Self::ProviderForgot,
        Self::Plain,
        Self::AtMostOnce,
        Self::Reconciled,
    ];

    /// Whether it is noted before it starts.
    #[must_use]
    pub fn is_started(self) -> bool {
        self != Self::Plain
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
    /// It is recorded.
    AfterRecord,
    /// The completion is about to be sent.
    BeforeCompletion,
    /// It is stored, and the caller does not know.
    AfterCompletion,
}

impl Point {
    /// Every point, in the order of a call.
    pub const ALL: [Self; 10] = [
        Self::BeforeClaim,
        Self::AfterClaim,
        Self::BeforeStart,
        Self::AfterStart,
        Self::BeforeEffect,
        Self::AfterEffect,
        Self::BeforeRecord,
        Self::AfterRecord,
        Self::BeforeCompletion,
        Self::AfterCompletion,
    ];
}

/// How the process falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fall {
    /// SIGKILL.
    Dies,
    /// SIGSTOP; it is woken when another has taken over.
    Freezes,
}
