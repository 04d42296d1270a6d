//! What is promised, each a property that holds in every state.

use stateright::Property;

use crate::config::{Class, Config};
use crate::progress;
use crate::world::World;

/// A promise. The first seven are the invariants of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// At most one attempt can write: the one that was granted last, while it runs.
    OneOwner,
    /// A finished result never changes.
    ResultStays,
    /// A recorded step never changes, and a body is given what is recorded.
    StepStays,
    /// Rows of a transaction are there if and only if its completion, or its record, is.
    EffectsWithCompletion,
    /// A message is there if and only if its completion is, and none is lost before it is delivered.
    MessageWithCompletion,
    /// From every state, time alone brings one in which a caller is granted, answered, or told that a person decides.
    NothingIsBlocked,
    /// Another payload is neither run nor answered.
    OnePayload,
    /// Attempts that end without an outcome are as many as `max_crashes` allows, and one.
    CrashesAreBounded,
    /// All callers are told one outcome, the stored one.
    OneAnswer,
    /// Nobody takes from an attempt what it runs while its lease holds.
    LeaseHolds,
    /// Each takeover raises the token.
    TokensRise,
    /// What is completed has had its effect.
    CompletedIsDone,
    /// A step with a provider window has one effect.
    OnceInWindow,
    /// A step that runs at most once has at most one effect.
    AtMostOnce,
    /// A person's decision is about what the person saw.
    DecidedAsSeen,
    /// A message that is delivered is not delivered again by a relay that comes late.
    DeliveredStays,
    /// A message whose sink is at most once reaches its receiver at most once.
    DeliveredAtMostOnce,
}

impl Promise {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::OneOwner,
        Self::ResultStays,
        Self::StepStays,
        Self::EffectsWithCompletion,
        Self::MessageWithCompletion,
        Self::NothingIsBlocked,
        Self::OnePayload,
        Self::CrashesAreBounded,
        Self::OneAnswer,
        Self::LeaseHolds,
        Self::TokensRise,
        Self::CompletedIsDone,
        Self::OnceInWindow,
        Self::AtMostOnce,
        Self::DecidedAsSeen,
        Self::DeliveredStays,
        Self::DeliveredAtMostOnce,
    ];

    /// Its name in print.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneOwner => "I1 at most one attempt can write",
            Self::ResultStays => "I2 a finished result stays",
            Self::StepStays => "I3 a recorded step stays",
            Self::EffectsWithCompletion => "I4 effects if and only if the completion",
            Self::MessageWithCompletion => "I5 message if and only if the completion",
            Self::NothingIsBlocked => "I6 no key is blocked for ever",
            Self::OnePayload => "I7 another payload is refused",
            Self::CrashesAreBounded => "crashes are bounded",
            Self::OneAnswer => "all callers are told one outcome",
            Self::LeaseHolds => "a lease that holds is kept",
            Self::TokensRise => "tokens rise",
            Self::CompletedIsDone => "what is completed is done",
            Self::OnceInWindow => "once in the provider's window",
            Self::AtMostOnce => "at most once",
            Self::DecidedAsSeen => "a decision is about what was seen",
            Self::DeliveredStays => "delivered stays delivered",
            Self::DeliveredAtMostOnce => "delivered at most once",
        }
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }

    fn property(self) -> Property<Config> {
        Property::always(self.name(), self.condition())
    }

    /// The condition, which takes no captures: one function for each promise.
    fn condition(self) -> fn(&Config, &World) -> bool {
        macro_rules! kept {
            ($promise:ident) => {
                |_, world| world.broken.keeps(Self::$promise)
            };
        }
        match self {
            Self::OneOwner => one_owner,
            Self::ResultStays => kept!(ResultStays),
            Self::StepStays => kept!(StepStays),
            Self::EffectsWithCompletion => effects_with_completion,
            Self::MessageWithCompletion => message_with_completion,
            Self::NothingIsBlocked => progress::nothing_is_blocked,
            Self::OnePayload => kept!(OnePayload),
            Self::CrashesAreBounded => crashes_are_bounded,
            Self::OneAnswer => kept!(OneAnswer),
            Self::LeaseHolds => kept!(LeaseHolds),
            Self::TokensRise => kept!(TokensRise),
            Self::CompletedIsDone => completed_is_done,
            Self::OnceInWindow => kept!(OnceInWindow),
            Self::AtMostOnce => kept!(AtMostOnce),
            Self::DecidedAsSeen => kept!(DecidedAsSeen),
            Self::DeliveredStays => kept!(DeliveredStays),
            Self::DeliveredAtMostOnce => kept!(DeliveredAtMostOnce),
        }
    }
}

/// The promises that an event has broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Broken(u32);

impl Broken {
    pub(crate) fn mark(&mut self, promise: Promise, broken: bool) {
        if broken {
            self.0 |= promise.bit();
        }
    }

    fn keeps(self, promise: Promise) -> bool {
        self.0 & promise.bit() == 0
    }
}

fn one_owner(config: &Config, world: &World) -> bool {
    world.broken.keeps(Promise::OneOwner) && progress::at_most_one_may_write(config, world)
}

fn effects_with_completion(config: &Config, world: &World) -> bool {
    let db = &world.db;
    let due = match config.class {
        Class::Transaction => db.completed_by_an_attempt(),
        Class::TransactionStep => db.truth.step.is_some(),
        Class::Window | Class::Plain | Class::AtMostOnce => false,
    };
    db.rows == u8::from(due)
}

fn message_with_completion(config: &Config, world: &World) -> bool {
    let due = config.sink.is_some() && world.db.completed_by_an_attempt();
    world.broken.keeps(Promise::MessageWithCompletion) && world.db.message.is_some() == due
}

fn crashes_are_bounded(_: &Config, world: &World) -> bool {
    let allowed = |record: &idempotent_runtime::protocol::Record| record.limits.crashes_max + 1;
    let lapses = u32::from(world.db.truth.lapses);
    world.db.record.as_ref().is_none_or(|record| lapses <= allowed(record))
}

fn completed_is_done(config: &Config, world: &World) -> bool {
    let done = if config.is_outside() { world.outside.effects } else { world.db.rows };
    !world.db.completed_by_an_attempt() || done > 0
}

/// Every promise, and what must be reached for them to say something.
pub(crate) fn all(config: &Config) -> Vec<Property<Config>> {
    let mut properties: Vec<_> = Promise::ALL.into_iter().map(Promise::property).collect();
    properties.extend(progress::reached(config));
    properties
}
