//! What follows from how a delivery ended.

use super::flight::{Failure, Outcome};
use crate::outbox::route::Route;
use crate::outbox::sink::{SinkError, Then};
use crate::policy::ms;
use crate::protocol::{DeliveryEndTo, MessageRecord};

/// The longest error that is kept with a message, in bytes.
const ERROR_BYTES_MAX: usize = 1_024;

/// What to write about a delivery; nothing where its lease is left to lapse.
pub(super) fn end_of(
    route: &Route,
    message: &MessageRecord,
    outcome: &Outcome,
) -> Option<DeliveryEndTo> {
    let exhausted = message.attempts >= route.attempts_max;
    let ending = Ending { route, message, exhausted };
    Some(match outcome {
        Outcome::Delivered => DeliveryEndTo::Delivered,
        Outcome::Failed(error) => match error.then {
            Then::Dead => DeliveryEndTo::Dead { error: error.text.clone() },
            Then::NotDelivered => ending.again(error.text.clone(), Some(error)),
            Then::Retry => ending.unsure(error.text.clone(), Some(error)),
        },
        Outcome::Unknown(error) => ending.ask(shortened(error), None),
        Outcome::Panicked => ending.unsure("the sink panicked".to_owned(), None),
        Outcome::TooLong => {
            ending.unsure(format!("the delivery took longer than {:?}", route.timeout), None)
        }
        Outcome::Expired => return None,
    })
}

/// What to write about a delivery that the relay gave up when it stopped.
pub(super) fn given_up(route: &Route) -> DeliveryEndTo {
    let error = "the relay stopped during the delivery".to_owned();
    match (route.at_most_once, &route.question) {
        (false, _) => DeliveryEndTo::Retry { delay_ms: 0, error },
        (true, Some(_)) => DeliveryEndTo::Ask { delay_ms: 0, error },
        (true, None) => DeliveryEndTo::Review { error },
    }
}

struct Ending<'a> {
    route: &'a Route,
    message: &'a MessageRecord,
    exhausted: bool,
}

impl Ending<'_> {
    /// What is asked for is heeded where it is longer: a receiver that is away for an hour, and asks for a second each time,
    /// would use up all tries in half a minute.
    fn delay_ms(&self, error: Option<&Failure>) -> u64 {
        let asked = error.and_then(|error| error.retry_after).unwrap_or_default();
        ms(self.route.wait(self.message.attempts).max(asked))
    }

    /// It did not arrive, or may arrive twice.
    fn again(&self, error: String, said: Option<&Failure>) -> DeliveryEndTo {
        if self.exhausted {
            return DeliveryEndTo::Dead { error };
        }
        DeliveryEndTo::Retry { delay_ms: self.delay_ms(said), error }
    }

    /// It may have arrived.
    fn unsure(&self, error: String, said: Option<&Failure>) -> DeliveryEndTo {
        if self.route.at_most_once { self.ask(error, said) } else { self.again(error, said) }
    }

    /// It may have arrived, and must not arrive twice.
    fn ask(&self, error: String, said: Option<&Failure>) -> DeliveryEndTo {
        if self.exhausted || self.route.question.is_none() {
            return DeliveryEndTo::Review { error };
        }
        DeliveryEndTo::Ask { delay_ms: self.delay_ms(said), error }
    }
}

/// What an error and those behind it say.
pub(super) fn text(error: &SinkError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error).and_then(std::error::Error::source);
    while let Some(behind) = source {
        text.push_str(": ");
        text.push_str(&behind.to_string());
        source = behind.source();
    }
    shortened(&text)
}

/// Cut to what is kept, and without NUL, which not every store takes.
fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(ERROR_BYTES_MAX);
    text[..end].replace('\0', "\u{FFFD}")
}
