//! What a handler returns, and how it is stored and answered from.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::execution::ValueType;
use crate::fingerprint::{same_elements, same_value};
use crate::protocol::StoredResult;

/// What a handler returns: `Result<T, E>`, under whatever alias.
///
/// `T` is stored as JSON when the handler completes; `E` converts from [`Error`](crate::Error), and is stored only where the
/// handler says which errors are `terminal`.
#[diagnostic::on_unimplemented(
    message = "a handler returns `Result<T, E>`, not `{Self}`",
    label = "write `Result<{Self}, E>`, with an `E` that implements `From<idempotent_runtime::Error>`"
)]
pub trait Outcome: Sized + Send + 'static {
    /// The type that is stored and replayed.
    type Value;
    /// The handler's error.
    type Error;

    /// How outcomes are stored and answered from.
    #[doc(hidden)]
    fn codec(terminal: Option<Terminal<Self::Error>>) -> Arc<dyn Codec<Self>>;
}

impl<T, E> Outcome for Result<T, E>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: From<Error> + Send + 'static,
{
    type Value = T;
    type Error = E;

    fn codec(terminal: Option<Terminal<E>>) -> Arc<dyn Codec<Self>> {
        Arc::new(JsonCodec { terminal })
    }
}

/// Which errors end the operation, and how they are stored.
pub struct Terminal<E> {
    is: fn(&E) -> bool,
    encode: fn(&E, usize) -> StoredResult,
    decode: fn(&[u8]) -> Option<E>,
}

impl<E> fmt::Debug for Terminal<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal").finish_non_exhaustive()
    }
}

/// The errors for which `is` says so are terminal.
#[must_use]
pub fn terminal<E: Serialize + DeserializeOwned>(is: fn(&E) -> bool) -> Terminal<E> {
    Terminal { is, encode: encode::<E>, decode: decode::<E> }
}

/// Stores outcomes of type `R` and answers from them.
#[doc(hidden)]
pub trait Codec<R>: Send + Sync {
    /// An outcome that carries our own error.
    fn fail(&self, error: Error) -> R;

    /// What follows from an outcome. With `own_error`, one of our own errors was raised in the attempt, so that
    /// no error is terminal.
    fn verdict(&self, outcome: &R, own_error: bool, result_bytes_max: usize) -> Verdict;

    /// The type of what is stored when the handler completes.
    fn value(&self) -> ValueType;

    /// The outcome that stored bytes hold, or why they hold none.
    fn replay(&self, failed: bool, json: &[u8]) -> Result<R, &'static str>;
}

/// What follows from an outcome.
#[derive(Debug)]
pub enum Verdict {
    /// Store it and replay it.
    Finished {
        /// Whether it is a terminal error.
        failed: bool,
        /// What is stored.
        result: StoredResult,
    },
    /// Release the execution: the next call runs again.
    Retry,
}

struct JsonCodec<E> {
    terminal: Option<Terminal<E>>,
}

impl<T, E> Codec<Result<T, E>> for JsonCodec<E>
where
    T: Serialize + DeserializeOwned + 'static,
    E: From<Error>,
{
    fn fail(&self, error: Error) -> Result<T, E> {
        Err(E::from(error))
    }

    fn verdict(&self, outcome: &Result<T, E>, own_error: bool, result_bytes_max: usize) -> Verdict {
        match (outcome, &self.terminal) {
            (Ok(value), _) => {
                Verdict::Finished { failed: false, result: encode(value, result_bytes_max) }
            }
            (Err(error), Some(terminal)) if !own_error && (terminal.is)(error) => {
                let result = (terminal.encode)(error, result_bytes_max);
                Verdict::Finished { failed: true, result }
            }
            (Err(_), _) => Verdict::Retry,
        }
    }

    fn value(&self) -> ValueType {
        ValueType::of::<T>()
    }

    fn replay(&self, failed: bool, json: &[u8]) -> Result<Result<T, E>, &'static str> {
        if !failed {
            return decode(json)
                .map(Ok)
                .ok_or("the stored bytes do not decode as this version's type");
        }
        let terminal = self
            .terminal
            .as_ref()
            .ok_or("a terminal error is stored, and this version's handler has no `terminal`")?;
        (terminal.decode)(json)
            .map(Err)
            .ok_or("the stored bytes do not decode as this version's error type")
    }
}

/// The bytes to store, or why the value cannot be stored. It is decoded back and compared: what does not
/// survive the round trip must not be replayed as something else.
///
/// The user's `Serialize` and `Deserialize` may panic, and would do so after each run: the effect has happened, so it is
/// completed without a result rather than run again.
pub(crate) fn encode<T: Serialize + DeserializeOwned>(
    value: &T,
    result_bytes_max: usize,
) -> StoredResult {
    catch_unwind(AssertUnwindSafe(|| encoded(value, result_bytes_max))).unwrap_or_else(|_| {
        StoredResult::Absent { reason: "the result panicked while it was encoded".to_owned() }
    })
}

fn encoded<T: Serialize + DeserializeOwned>(value: &T, result_bytes_max: usize) -> StoredResult {
    let absent = |reason: String| StoredResult::Absent { reason };
    let Ok(json) = serde_json::to_vec(value) else {
        return absent("the result does not encode as JSON".to_owned());
    };
    if json.len() > result_bytes_max {
        return absent(format!(
            "the result has {} bytes, more than max_result_bytes ({result_bytes_max})",
            json.len()
        ));
    }
    // JSON keeps the order of a list, and a set has none to lose.
    let survives = |decoded: &T| same_value(value, decoded) || same_elements(value, decoded);
    match decode::<T>(&json) {
        Some(decoded) if survives(&decoded) => StoredResult::Json(json),
        _ => absent("the result does not survive being encoded as JSON".to_owned()),
    }
}

pub(crate) fn decode<T: DeserializeOwned>(json: &[u8]) -> Option<T> {
    serde_json::from_slice(json).ok()
}
