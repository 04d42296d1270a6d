//! The outside: what effects did to it, and what callers were told.

use idempotent_runtime::protocol::Micros;

use crate::config::Config;
use crate::mutant::Mutant;
use crate::property::{Broken, Promise};
use crate::request::{OF_THE_PROVIDER, Value};
use crate::time::{NOW, WINDOW_MS, tick};

/// What the provider knows its callers by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The generation of the step.
    pub(crate) generation: u32,
    /// What only a wrong key holds: the attempt.
    pub(crate) attempt: Option<u8>,
}

/// The outside, since the key's life began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Outside {
    /// Effects that happened, two at the most.
    pub(crate) effects: u8,
    /// The keys that the provider knows, and since when.
    pub(crate) known: Vec<(Key, Micros)>,
    /// What callers were told: whether it failed, and the result.
    pub(crate) told: Option<(bool, Value)>,
    /// Times that the message reached its receiver, two at the most.
    pub(crate) sent: u8,
}

impl Outside {
    /// An effect that nobody recognises.
    pub(crate) fn act(&mut self, broken: &mut Broken, only_once: bool) {
        self.effects = (self.effects + 1).min(2);
        broken.mark(Promise::AtMostOnce, only_once && self.effects > 1);
    }

    /// A request to the provider, which acts on a key that it does not know. Its answer.
    pub(crate) fn request(
        &mut self,
        config: &Config,
        (generation, attempt): (u32, u8),
        broken: &mut Broken,
    ) -> Value {
        let attempt = config.has(Mutant::ProviderKeyOfAttempt).then_some(attempt);
        let key = Key { generation, attempt };
        if !self.known.iter().any(|(known, _)| *known == key) {
            self.known.push((key, NOW));
            self.known.sort_unstable();
            self.effects = (self.effects + 1).min(2);
            broken.mark(Promise::OnceInWindow, self.effects > 1);
        }
        OF_THE_PROVIDER
    }

    /// The provider forgets what it may have forgotten. Whether there was something.
    pub(crate) fn forget(&mut self) -> bool {
        let before = self.known.len();
        self.known.retain(|(_, since)| since.plus_ms(WINDOW_MS) >= NOW);
        self.known.len() < before
    }

    /// A caller is told the outcome, which is stored or was.
    pub(crate) fn tell(
        &mut self,
        told: (bool, Value),
        stored: Option<(bool, Value)>,
        broken: &mut Broken,
    ) {
        let other = |before: Option<(bool, Value)>| before.is_some_and(|before| before != told);
        broken.mark(Promise::OneAnswer, other(self.told) || other(stored));
        self.told = Some(told);
    }

    /// A millisecond later.
    pub(crate) fn tick(&mut self) {
        self.known.iter_mut().for_each(|(_, since)| tick(since, WINDOW_MS + 1));
    }
}
