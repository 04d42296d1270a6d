//! What the handlers' effects reach: a provider that honours keys, and receivers that do not.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the provider remembers a key: what its window promises, and time for a request on its way, for a store whose
/// clock goes back, and for a process that sleeps.
const REMEMBERS: Duration = Duration::from_secs(90);

/// What is promised of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Once, by the provider's key.
    Keyed,
    /// At least once, and never again after it was recorded.
    Plain,
    /// At most once.
    AtMostOnce,
    /// At most once, by asking.
    Reconciled,
    /// A message to a receiver that takes it as often as it comes.
    Mail,
    /// A message at most once.
    Sms,
    /// A message at most once, by asking.
    Page,
}

/// A request to the outside.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// The operation's key, or the message.
    pub(crate) of: String,
    pub(crate) step: String,
    pub(crate) class: Class,
    pub(crate) attempt: u32,
    pub(crate) provider_key: Option<String>,
}

/// Something that happened outside.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) wish: Wish,
    pub(crate) value: u64,
    /// The process was frozen between its last look at the clock and the request, or that clock has stood still.
    pub(crate) was_frozen: bool,
    /// How many requests the store had applied by then.
    pub(crate) applied: u64,
}

/// The outside.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    effects: Mutex<Vec<Effect>>,
    keys: Mutex<HashMap<String, (u64, Duration)>>,
}

impl Outside {
    fn effects_now(&self) -> MutexGuard<'_, Vec<Effect>> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is wished for, unless the key says that it did before. Its answer, and whether it happened now.
    pub(crate) fn perform(&self, effect: Effect, now: Duration, forgets: bool) -> (u64, bool) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = &effect.wish.provider_key {
            let known = keys.get(key).copied();
            if let Some((value, _)) =
                known.filter(|(_, first)| !forgets || now < *first + REMEMBERS)
            {
                return (value, false);
            }
            keys.insert(key.clone(), (effect.value, now));
        }
        let value = effect.value;
        self.effects_now().push(effect);
        (value, true)
    }

    /// The value of what happened, if it did.
    pub(crate) fn find(&self, of: &str, step: &str) -> Option<u64> {
        let effects = self.effects_now();
        effects.iter().find(|it| it.wish.of == of && it.wish.step == step).map(|it| it.value)
    }

    /// Everything that happened, in order.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        self.effects_now().clone()
    }
}
