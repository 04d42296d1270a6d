//! The table: what each cell must come to.

use std::ops::RangeInclusive;

use super::{Cell, Class, Fall, Point};

/// What the table says of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// How often the effect happens; for an outside that tells requests apart, by its count.
    pub effects: RangeInclusive<usize>,
    /// How often the outside is asked for it.
    pub requests: RangeInclusive<usize>,
    /// Where it ends.
    pub end: End,
}

/// Where an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is answered.
    Done,
    /// A person decides.
    Review,
    /// With a person, until the relay that was frozen says that it has delivered.
    ReviewUntilWoken,
}

/// How far the effect was when the process fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not begun, or noted with its outcome.
    Plain,
    /// Perhaps begun, as far as a successor can tell, and has not happened.
    Begun,
    /// Happened, and not noted.
    Happened,
}

impl Expected {
    const ONCE: Self = Self { effects: 1..=1, requests: 1..=1, end: End::Done };

    /// Without a key, each request is an effect.
    fn unkeyed(effects: RangeInclusive<usize>, end: End) -> Self {
        Self { requests: effects.clone(), effects, end }
    }

    fn keyed(requests: RangeInclusive<usize>) -> Self {
        Self { requests, ..Self::ONCE }
    }
}

impl Cell {
    fn phase(&self) -> Phase {
        let points = if self.class.is_relayed() {
            [Point::AfterMessageClaim, Point::AfterDelivery, Point::AfterAcknowledgement]
        } else {
            [Point::AfterStart, Point::AfterEffect, Point::AfterRecord]
        };
        let [begun, happened, noted] = points;
        match self.point {
            point if point < begun || point >= noted => Phase::Plain,
            point if point < happened => Phase::Begun,
            _ => Phase::Happened,
        }
    }

    /// The table. Where the effect may have happened and no record says so, the class decides.
    #[must_use]
    pub fn expected(&self) -> Expected {
        // Who wakes between its last look at the clock and its call still calls.
        let calls_late = matches!(self.point, Point::BeforeEffect | Point::BeforeDelivery);
        match (self.fall, self.phase()) {
            (Fall::FreezesPastPurge, _) => self.lived_twice(),
            // Whoever loses a connection asks again.
            (Fall::LosesRequest | Fall::LosesAnswer, _) | (_, Phase::Plain) => Expected::ONCE,
            (Fall::Dies, Phase::Begun) => self.died(false),
            (Fall::Dies, Phase::Happened) => self.died(true),
            (Fall::Freezes, Phase::Begun) => self.froze_before(calls_late),
            (Fall::Freezes, Phase::Happened) => self.froze_behind(),
        }
    }

    fn died(&self, happened: bool) -> Expected {
        let (once, again) = if happened { (1..=1, 2..=2) } else { (0..=0, 1..=1) };
        match self.class {
            Class::Transaction | Class::TransactionStep => Expected::ONCE,
            // The provider tells the second request from the first.
            Class::ProviderWindow | Class::Outbox => Expected::keyed(again),
            Class::Plain => Expected::unkeyed(again, End::Done),
            Class::Reconciled | Class::OutboxReconciled => Expected::ONCE,
            // The record says that it began, and the outside says nothing, or may have forgotten.
            Class::ProviderForgot | Class::AtMostOnce | Class::OutboxAtMostOnce => {
                Expected::unkeyed(once, End::Review)
            }
        }
    }

    fn froze_before(&self, calls_late: bool) -> Expected {
        match self.class {
            Class::Transaction | Class::TransactionStep => Expected::ONCE,
            Class::ProviderWindow | Class::Outbox if calls_late => Expected::keyed(2..=2),
            Class::ProviderWindow | Class::Outbox => Expected::keyed(1..=1),
            Class::Plain => Expected::unkeyed(1..=2, End::Done),
            // It slept longer than what the outside is asked after.
            Class::Reconciled | Class::OutboxReconciled if calls_late => {
                Expected::unkeyed(2..=2, End::Done)
            }
            Class::Reconciled | Class::OutboxReconciled => Expected::ONCE,
            Class::OutboxAtMostOnce if calls_late => {
                Expected::unkeyed(1..=1, End::ReviewUntilWoken)
            }
            Class::ProviderForgot | Class::AtMostOnce if calls_late => {
                Expected::unkeyed(1..=1, End::Review)
            }
            Class::ProviderForgot | Class::AtMostOnce | Class::OutboxAtMostOnce => {
                Expected::unkeyed(0..=0, End::Review)
            }
        }
    }

    fn froze_behind(&self) -> Expected {
        match self.class {
            Class::Transaction | Class::TransactionStep => Expected::ONCE,
            Class::ProviderWindow | Class::Outbox => Expected::keyed(2..=2),
            Class::Plain => Expected::unkeyed(2..=2, End::Done),
            Class::Reconciled | Class::OutboxReconciled => Expected::ONCE,
            Class::ProviderForgot | Class::AtMostOnce => Expected::unkeyed(1..=1, End::Review),
            Class::OutboxAtMostOnce => Expected::unkeyed(1..=1, End::ReviewUntilWoken),
        }
    }

    /// The first operation and the second, which is new though its key is not.
    fn lived_twice(&self) -> Expected {
        let repeats = self.point == Point::BeforeRecord;
        let is_repeated = matches!(self.class, Class::Plain | Class::ProviderWindow);
        let requests = if repeats && is_repeated { 3..=3 } else { 2..=2 };
        // A provider remembers the key.
        if self.class.is_keyed() {
            Expected::keyed(requests)
        } else {
            Expected::unkeyed(requests, End::Done)
        }
    }
}
