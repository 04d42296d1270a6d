//! Which requests of a step were given a key.

use std::collections::BTreeMap;

/// Requests of one step.
const REQUESTS_MAX: usize = 1_000;
/// Longest name of a request, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Why a request is given no provider key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestKeyError {
    /// The step has sent another request without a name; with the same key it would be refused, or answered as the
    /// first.
    #[error(
        "step `{step}` sends a second, different request, which needs a key of its own: name it with \
         `.with_extension(RequestPart::new(\"capture\"))`, or send it in a step of its own"
    )]
    SecondRequest {
        /// The step.
        step: String,
    },
    /// The step has sent another request under this name.
    #[error(
        "step `{step}` sends two different requests named `{name}`; give each of them a name of its own, \
         e.g. the id of what it is about"
    )]
    SameName {
        /// The step.
        step: String,
        /// The name.
        name: String,
    },
    /// The request has a streaming body, so that a re-send could not be told from a second request.
    #[error(
        "step `{step}` sends a request with a streaming body, which cannot be compared with others: name it \
         with `.with_extension(RequestPart::new(\"upload\"))`, or give it a body in memory"
    )]
    Streaming {
        /// The step.
        step: String,
    },
    /// The name of a request cannot be used.
    #[error("the name of a request in step `{step}` {reason}")]
    Name {
        /// The step.
        step: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The step has sent too many different requests.
    #[error(
        "step `{step}` sends more than {requests_max} different requests; make each a step, with `.part(..)`"
    )]
    TooMany {
        /// The step.
        step: String,
        /// The limit.
        requests_max: usize,
    },
    /// The request is sent by a handler, but not in a step, so it has no name that its key could be derived from.
    #[error(
        "a request in handler `{handler}` is sent outside a step: send it inside \
         `step(\"charge\").run(async |_| ..)`, or set its key yourself, with `provider_key(\"charge\")`"
    )]
    OutsideStep {
        /// The handler.
        handler: String,
    },
    /// The request is not sent by a handler, or by a task that was spawned.
    #[error(
        "a request is sent outside a handler's step, so it has no provider key: set one yourself \
         (in a spawned task, from `effect.provider_key()`), or build the layer with `.pass_outside_handlers()`"
    )]
    OutsideHandler,
}

/// The requests that were given a key in one step, over all of its tries. The one without a name stands under "".
#[derive(Debug, Default)]
pub(crate) struct RequestKeys {
    given: BTreeMap<String, [u8; 32]>,
}

impl RequestKeys {
    /// Admits a request: the first under its name, or the first one again.
    pub(crate) fn admit(
        &mut self,
        step: &str,
        name: Option<&str>,
        digest: [u8; 32],
    ) -> Result<(), RequestKeyError> {
        let step = || step.to_owned();
        if let Some(reason) = name.and_then(refusal) {
            return Err(RequestKeyError::Name { step: step(), reason });
        }
        match self.given.get(name.unwrap_or_default()) {
            Some(first) if *first == digest => return Ok(()),
            Some(_) => {
                return Err(match name {
                    None => RequestKeyError::SecondRequest { step: step() },
                    Some(name) => RequestKeyError::SameName { step: step(), name: name.to_owned() },
                });
            }
            None if self.given.len() >= REQUESTS_MAX => {
                return Err(RequestKeyError::TooMany { step: step(), requests_max: REQUESTS_MAX });
            }
            None => {}
        }
        self.given.insert(name.unwrap_or_default().to_owned(), digest);
        Ok(())
    }

    /// The part of the step's name that a request's key is derived from. A step's own part holds no NUL, so no two
    /// requests of a handler meet.
    pub(crate) fn part(part: &str, name: Option<&str>) -> String {
        name.map_or_else(|| part.to_owned(), |name| format!("{part}\0{name}"))
    }
}

/// Why a name cannot be used, if it cannot.
fn refusal(name: &str) -> Option<String> {
    let bytes = name.len();
    match bytes {
        0 => Some("is empty".to_owned()),
        _ if bytes > NAME_BYTES_MAX => {
            Some(format!("has {bytes} bytes, more than {NAME_BYTES_MAX}"))
        }
        _ => name.contains('\0').then(|| "holds a NUL character".to_owned()),
    }
}

#[cfg(test)]
mod tests;
