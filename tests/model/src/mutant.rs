//! Bugs that must be caught.

use crate::config::{Class, Config, Late, Sink};
use crate::property::Promise;

/// One small deviation, from a function of the protocol or from what an attempt does around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Completions are written without any guard.
    UnguardedCompletion,
    /// The guard of attempts does not ask for the state.
    GuardWithoutState,
    /// The guard does not ask for the owner, and tokens count the attempts of a row, so that they begin anew behind a
    /// purge.
    GuardWithoutOwner,
    /// The guard does not ask for the owner, and the database loses its last commit.
    GuardWithoutOwnerFailover,
    /// The guard does not ask for the token.
    GuardWithoutToken,
    /// A takeover leaves owner and token as they are.
    TakeoverKeepsOwner,
    /// A takeover does not raise the token.
    TakeoverKeepsToken,
    /// A takeover is not conditional on the token that was seen.
    TakeoverUnconditional,
    /// Who was outrun claims again under the same owner.
    OutrunKeepsOwner,
    /// A takeover does not wait for the end of the lease.
    TakeoverIgnoresLease,
    /// A takeover and a reap do not count the attempt that lapsed.
    CrashesUncounted,
    /// A claim overwrites what is there.
    ClaimOverwrites,
    /// The reaper does not wait for the end of the lease.
    ReaperIgnoresLease,
    /// The reaper makes failed what lapsed: the row that blocks its key for ever.
    ReaperFails,
    /// The lease is renewed beyond `max_runtime`.
    RenewalUncapped,
    /// Effects are committed before the completion.
    TwoCommits,
    /// Effects are committed though the completion was fenced.
    CommitAlthoughFenced,
    /// The message is written after the completion.
    MessageAfterCompletion,
    /// A release also gives up what is finished.
    ReleaseAfterCompletion,
    /// A step is recorded without the guard, over what is recorded.
    RecordOverwrites,
    /// A step is recorded without the guard.
    UnguardedRecord,
    /// The provider key holds the attempt.
    ProviderKeyOfAttempt,
    /// A step goes on whose provider may have forgotten its key.
    WindowIgnored,
    /// A step that runs at most once is not started first.
    AtMostOnceWithoutStart,
    /// A step that runs at most once is run again, where an attempt before had started it.
    AtMostOnceGoesOn,
    /// The outside is asked while the attempt before may still act.
    AsksTooEarly,
    /// A person may decide that it did not happen while an attempt may still act.
    DecidesTooEarly,
    /// A person's decision is not fenced by the token that was seen.
    SettlesUnseen,
    /// Fingerprints are not compared.
    FingerprintIgnored,
    /// The purge also deletes what runs.
    PurgesRunning,
    /// The purge also deletes what has an undelivered message, and the message.
    PurgesUndelivered,
    /// The purge leaves the journal.
    PurgeLeavesSteps,
    /// A delivery whose relay lapsed is repeated blindly.
    RedeliversBlindly,
    /// The guard of relays does not ask for owner and token.
    UnguardedDeliveryEnd,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 34] = [
        Self::UnguardedCompletion,
        Self::GuardWithoutState,
        Self::GuardWithoutOwner,
        Self::GuardWithoutOwnerFailover,
        Self::GuardWithoutToken,
        Self::TakeoverKeepsOwner,
        Self::TakeoverKeepsToken,
        Self::TakeoverUnconditional,
        Self::OutrunKeepsOwner,
        Self::TakeoverIgnoresLease,
        Self::CrashesUncounted,
        Self::ClaimOverwrites,
        Self::ReaperIgnoresLease,
        Self::ReaperFails,
        Self::RenewalUncapped,
        Self::TwoCommits,
        Self::CommitAlthoughFenced,
        Self::MessageAfterCompletion,
        Self::ReleaseAfterCompletion,
        Self::RecordOverwrites,
        Self::UnguardedRecord,
        Self::ProviderKeyOfAttempt,
        Self::WindowIgnored,
        Self::AtMostOnceWithoutStart,
        Self::AtMostOnceGoesOn,
        Self::AsksTooEarly,
        Self::DecidesTooEarly,
        Self::SettlesUnseen,
        Self::FingerprintIgnored,
        Self::PurgesRunning,
        Self::PurgesUndelivered,
        Self::PurgeLeavesSteps,
        Self::RedeliversBlindly,
        Self::UnguardedDeliveryEnd,
    ];

    /// The promise that it breaks.
    #[must_use]
    pub fn breaks(self) -> Promise {
        match self {
            Self::UnguardedCompletion
            | Self::GuardWithoutState
            | Self::GuardWithoutOwner
            | Self::GuardWithoutOwnerFailover
            | Self::TakeoverKeepsOwner
            | Self::UnguardedRecord => Promise::OneOwner,
            Self::ReleaseAfterCompletion | Self::ClaimOverwrites => Promise::ResultStays,
            Self::GuardWithoutToken => Promise::OneAnswer,
            Self::RecordOverwrites | Self::OutrunKeepsOwner => Promise::StepStays,
            Self::TwoCommits | Self::CommitAlthoughFenced => Promise::EffectsWithCompletion,
            Self::MessageAfterCompletion | Self::PurgesUndelivered => {
                Promise::MessageWithCompletion
            }
            Self::ReaperFails | Self::RenewalUncapped => Promise::NothingIsBlocked,
            Self::CrashesUncounted => Promise::CrashesAreBounded,
            Self::FingerprintIgnored | Self::TakeoverUnconditional => Promise::OnePayload,
            Self::TakeoverIgnoresLease | Self::ReaperIgnoresLease | Self::PurgesRunning => {
                Promise::LeaseHolds
            }
            Self::TakeoverKeepsToken => Promise::TokensRise,
            Self::ProviderKeyOfAttempt | Self::WindowIgnored => Promise::OnceInWindow,
            Self::AtMostOnceWithoutStart
            | Self::AtMostOnceGoesOn
            | Self::AsksTooEarly
            | Self::DecidesTooEarly => Promise::AtMostOnce,
            Self::SettlesUnseen => Promise::DecidedAsSeen,
            Self::PurgeLeavesSteps => Promise::CompletedIsDone,
            Self::RedeliversBlindly => Promise::DeliveredAtMostOnce,
            Self::UnguardedDeliveryEnd => Promise::DeliveredStays,
        }
    }

    /// The smallest world in which it shows.
    #[must_use]
    pub fn world(self) -> Config {
        let of =
            |class| Config { purges: false, late: Late::Never, ..Config::of("a mutant", class) };
        let plain = of(Class::Plain);
        let late = Config { late: Late::All, ..of(Class::Transaction) };
        let person = Config { decisions: 2, ..of(Class::Transaction) };
        let sink = |at_most_once| {
            let sink = Some(Sink { at_most_once, reconciles: false });
            Config { sink, relays: 2, workers: 1, ..of(Class::Transaction) }
        };
        let world = match self {
            Self::UnguardedRecord | Self::RecordOverwrites => plain,
            Self::OutrunKeepsOwner => Config { class: Class::Plain, ..late },
            Self::GuardWithoutOwner => Config { purges: true, ..late },
            Self::GuardWithoutOwnerFailover => Config { failovers: 1, ..late },
            Self::GuardWithoutToken => person,
            Self::SettlesUnseen => Config { late: Late::Writes, ..person },
            Self::ReleaseAfterCompletion => late,
            Self::TakeoverUnconditional => Config { payloads: 2, purges: true, ..late },
            Self::FingerprintIgnored => Config { payloads: 2, ..late },
            Self::ProviderKeyOfAttempt | Self::WindowIgnored => of(Class::Window),
            Self::AtMostOnceWithoutStart => of(Class::AtMostOnce),
            Self::AtMostOnceGoesOn => Config { decisions: 1, ..of(Class::AtMostOnce) },
            Self::AsksTooEarly => Config { reconciles: true, anew: 1, ..of(Class::AtMostOnce) },
            Self::DecidesTooEarly => Config { decisions: 1, anew: 1, ..of(Class::AtMostOnce) },
            Self::PurgesRunning => Config { purges: true, ..of(Class::Transaction) },
            Self::PurgeLeavesSteps => Config { purges: true, ..plain },
            Self::MessageAfterCompletion | Self::UnguardedDeliveryEnd => sink(false),
            Self::PurgesUndelivered => Config { purges: true, ..sink(false) },
            Self::RedeliversBlindly => sink(true),
            Self::UnguardedCompletion
            | Self::GuardWithoutState
            | Self::TakeoverKeepsOwner
            | Self::TakeoverKeepsToken
            | Self::TakeoverIgnoresLease
            | Self::CrashesUncounted
            | Self::ClaimOverwrites
            | Self::ReaperIgnoresLease
            | Self::ReaperFails
            | Self::RenewalUncapped
            | Self::TwoCommits
            | Self::CommitAlthoughFenced => of(Class::Transaction),
        };
        world.with(self)
    }
}
