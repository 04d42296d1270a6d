//! What a seed makes of a simulation: who is called when, what fails how often, and what befalls the processes.

use std::time::Duration;

use crate::dice::Dice;
use crate::handlers::Kind;

/// How often things fail, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// The store does it, and its answer is lost.
    pub(crate) answer_lost: u32,
    /// The store does not do it.
    pub(crate) refused: u32,
    /// The store does it after its sender was told that there is no answer.
    pub(crate) late: u32,
    /// A request or an answer of the store is slow.
    pub(crate) slow: u32,
    /// A renewal finds a locked row.
    pub(crate) skipped: u32,
    /// The outside does it, and its answer is lost.
    pub(crate) outside_lost: u32,
    /// The outside turns it away.
    pub(crate) turned_away: u32,
    /// The outside is slow.
    pub(crate) outside_slow: u32,
    /// A body panics where it can.
    pub(crate) panics: u32,
    /// A body returns an error where it can.
    pub(crate) unlucky: u32,
    /// A body takes its time where it can.
    pub(crate) dawdles: u32,
    /// A caller goes away.
    pub(crate) leaves: u32,
    /// A process is frozen or dies where one of its tasks would go on.
    pub(crate) falls: u32,
}

/// An operation, by its handler and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) id: u32,
}

impl Operation {
    /// Its key.
    pub(crate) fn key(self) -> String {
        format!("{}:{}", self.kind.name(), self.id)
    }

    /// Its payload.
    pub(crate) fn amount(self) -> u32 {
        100 + self.id
    }
}

/// A queue delivers an operation, and again while it is told to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) at: Duration,
    pub(crate) operation: Operation,
    /// With another payload.
    pub(crate) mistaken: bool,
    pub(crate) tries: u32,
}

/// What befalls a process, or the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blow {
    /// A process dies, and another one takes its place.
    Kill,
    /// A process is not scheduled; suspended, its clock stands still, too.
    Freeze { lasts: Duration, suspended: bool },
    /// A process is told to end, and another one takes its place.
    ShutDown { grace: Duration },
    /// The store's clock moves against all others.
    Jump { by_us: i64 },
    /// Somebody reaps and purges.
    Sweep,
    /// The store is away.
    Outage { lasts: Duration },
    /// Another server takes over that knows nothing of the last writes.
    FailOver { lost: usize },
}

/// A simulation, before it runs.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// There is a failover that loses writes.
    pub(crate) forgets: bool,
    /// The store's clock jumps forward.
    pub(crate) hurries: bool,
    /// The store tells relays of messages.
    pub(crate) tells_of_messages: bool,
    /// Processes reap by themselves.
    pub(crate) reaps: bool,
    /// A person decides about what is in review.
    pub(crate) has_person: bool,
    pub(crate) rates: Rates,
    pub(crate) processes: u32,
    pub(crate) operations: Vec<Operation>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) blows: Vec<(Duration, Blow)>,
    pub(crate) lasts: Duration,
}

impl Scenario {
    pub(crate) fn draw(dice: &Dice) -> Self {
        let lasts = dice.ms(4_000..16_000);
        let lasts_ms = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
        let operations: Vec<Operation> = (0..dice.small(1..6))
            .filter_map(|id| Some(Operation { kind: *dice.pick(&Kind::ALL)?, id }))
            .collect();
        let forgets = dice.chance(80);
        let blows = blows(dice, forgets, lasts_ms);
        let hurries = |(_, blow): &(_, _)| matches!(blow, Blow::Jump { by_us } if *by_us > 0);
        Self {
            forgets,
            hurries: blows.iter().any(hurries),
            tells_of_messages: dice.chance(500),
            reaps: dice.chance(300),
            has_person: dice.chance(500),
            rates: rates(dice),
            processes: dice.small(1..4),
            deliveries: deliveries(dice, &operations, forgets, lasts_ms),
            operations,
            blows,
            lasts,
        }
    }
}

impl Scenario {
    /// It in words.
    pub(crate) fn words(&self) -> String {
        let keys: Vec<String> = self.operations.iter().map(|it| it.key()).collect();
        format!(
            "{} processes, {} deliveries of {}, {} blows; {:?}",
            self.processes,
            self.deliveries.len(),
            keys.join(", "),
            self.blows.len(),
            self.rates
        )
    }
}

fn rates(dice: &Dice) -> Rates {
    // From a store that is only slow at times to one that hardly answers.
    let storm = *dice.pick(&[0, 1, 1, 2, 2, 4]).unwrap_or(&1);
    let up_to = |most: u32| if storm == 0 { 0 } else { dice.small(0..most * storm + 1) };
    Rates {
        answer_lost: up_to(60),
        refused: up_to(60),
        late: up_to(40),
        slow: 30 + up_to(60),
        skipped: up_to(50),
        outside_lost: up_to(60),
        turned_away: up_to(40),
        outside_slow: up_to(100),
        panics: up_to(25),
        unlucky: up_to(30),
        dawdles: 100 + up_to(100),
        leaves: up_to(60),
        falls: if dice.chance(500) { dice.small(0..8) } else { 0 },
    }
}

fn deliveries(
    dice: &Dice,
    operations: &[Operation],
    forgets: bool,
    lasts_ms: u64,
) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    for operation in operations {
        for _ in 0..dice.small(1..4) {
            // Often several at once, else spread.
            let at = if dice.chance(600) { dice.ms(0..40) } else { dice.ms(0..lasts_ms * 3 / 4) };
            let tries = dice.small(1..7);
            deliveries.push(Delivery { at, operation: *operation, mistaken: false, tries });
        }
        // A store that forgets, or has purged it, may take the mistake for the operation.
        if dice.chance(250) && !forgets && operation.kind != Kind::Brief {
            let at = dice.ms(20..lasts_ms);
            deliveries.push(Delivery { at, operation: *operation, mistaken: true, tries: 3 });
        }
    }
    deliveries
}

fn blows(dice: &Dice, forgets: bool, lasts_ms: u64) -> Vec<(Duration, Blow)> {
    let mut blows: Vec<(Duration, Blow)> = Vec::new();
    let mut back_us: i64 = 0;
    for _ in 0..dice.small(0..6) {
        let blow = match dice.small(0..100) {
            0..30 => Blow::Kill,
            30..60 => {
                let lasts = match dice.chance(500) {
                    true => dice.ms(50..1_500),
                    false => dice.ms(1_000..15_000),
                };
                Blow::Freeze { lasts, suspended: dice.chance(300) }
            }
            60..70 => Blow::ShutDown { grace: dice.ms(0..2_500) },
            70..76 => {
                let by_us = i64::try_from(dice.within(100_000..40_000_000)).unwrap_or(0);
                Blow::Jump { by_us }
            }
            // In all by no more than a provider remembers keys for longer than its window says.
            76..82 if back_us < 3_000_000 => {
                let by_us = i64::try_from(dice.within(1_000..2_000_000)).unwrap_or(0);
                back_us += by_us;
                Blow::Jump { by_us: -by_us }
            }
            76..90 => Blow::Sweep,
            _ => Blow::Outage { lasts: dice.ms(100..4_000) },
        };
        blows.push((dice.ms(0..lasts_ms), blow));
    }
    if forgets {
        let lost = usize::try_from(dice.within(1..8)).unwrap_or(1);
        blows.push((dice.ms(10..lasts_ms), Blow::FailOver { lost }));
    }
    blows.sort_by_key(|(at, _)| *at);
    blows
}
