//! What the expansion of `#[idempotent]` calls. No promise of stability: the two crates are released as one.

pub use inventory;

pub use crate::handler::{Handler, Registration};

pub use crate::argument::{Again, IntoTask, Payload, again, into_task, returned};
pub use crate::execute::{
    Call, Cause, CauseOfAny, CauseOfBox, CauseOfError, Held, call, call_plain,
};
pub use crate::execution::ValueType;
pub use crate::key::{
    FloatInKey, InstantInKey, KeyBuilder, KeyPart, KeyWriter, ListInKey, NumberAsInstant,
    OptionInKey, separate,
};
pub use crate::operation::Operation;
pub use crate::outcome::{Codec, Outcome, Terminal, Verdict, terminal};
pub use crate::store::database;
