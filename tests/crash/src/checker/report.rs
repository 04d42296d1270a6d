//! What the checker found.

use std::collections::BTreeMap;
use std::fmt;

use crate::ledger::{Answer, Asked, Told};

use super::history::History;

/// What must hold of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// Every order has one row, finished with a result of its own; there is no other row.
    OneFinishedRow,
    /// Whoever was given a result was given the stored one.
    OneAnswer,
    /// The stored result is of an attempt that began, and had its effect if it says so.
    ResultOfAnAttempt,
    /// The provider key is the same on every attempt, and no two orders share one.
    OneProviderKey,
    /// Tokens rise with every attempt, and the row has the last.
    TokensRise,
    /// One attempt completes, and it is one that was not taken over.
    OneOwner,
    /// While a lease lasts, nobody takes the execution from its owner.
    LeaseHolds,
    /// An attempt that was taken over is told so: it renews nothing and its result reaches nobody.
    OvertakenIsTold,
    /// A body runs for a granted claim only, and once.
    ClaimedFirst,
    /// The row counts attempts and crashes as they happened.
    CountsAreTrue,
    /// Without faults, every order is done, and workers end when they are told to.
    AllIsDone,
    /// What a transaction writes is there once if it is recorded or completed, and else not at all.
    RowsOnce,
    /// A provider that remembers its keys is asked under one key, and has acted.
    OnceInWindow,
    /// A step that runs at most once has run once, if its order is done.
    AtMostOnce,
    /// A step that may repeat has run, if its order is done.
    AtLeastOnce,
    /// A message is delivered, under one id, if and only if its order is completed; where it must not be repeated, once.
    MessagesDelivered,
    /// Callers are told nothing but results and passing errors.
    ExpectedErrors,
}

/// One fact that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub fact: Fact,
    /// Of which order; 0 for the run as a whole.
    pub order: u64,
    /// What was found.
    pub found: String,
}

/// What the checker found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The facts that do not hold.
    pub violations: Vec<Violation>,
    /// How often what happened.
    pub counts: BTreeMap<String, usize>,
}

impl Report {
    pub(super) fn of(history: &History, torn: usize) -> Self {
        let mut report = Self::default();
        report.count("torn records", torn);
        for past in history.orders.values() {
            report.count("bodies begun", past.began.len());
            report.count("effects", past.effects.len());
            report.count("attempts granted", past.grants().len());
            for answer in &past.answers {
                match answer {
                    Answer::Receipt { .. } => report.count("answered: receipt", 1),
                    Answer::Declined { .. } => report.count("answered: declined", 1),
                    Answer::Error { kind } => report.count(&format!("answered: {kind}"), 1),
                }
            }
            for call in &past.calls {
                let asked = match call.asked {
                    Asked::Claim { .. } => "claim",
                    Asked::TakeOver { .. } => "takeover",
                    Asked::Renew { .. } => "renewal",
                    Asked::Complete { .. } => "completion",
                    Asked::Release { .. } => "release",
                };
                match &call.told {
                    None => report.count(&format!("died in a {asked}"), 1),
                    Some((_, Told::Granted { .. })) if asked == "takeover" => {
                        report.count("takeovers", 1);
                    }
                    Some((_, Told::Fenced | Told::Lost)) => {
                        report.count(&format!("{asked} fenced"), 1);
                    }
                    Some((_, Told::Failed(_))) => report.count(&format!("{asked} failed"), 1),
                    Some(_) => {}
                }
            }
            let unended = |grant: &super::history::Grant| {
                !past.calls.iter().any(|call| call.ends(grant.token))
            };
            report.count(
                "died or lost in a body",
                past.grants().iter().filter(|g| unended(g)).count(),
            );
        }
        report
    }

    pub(super) fn count(&mut self, what: &str, more: usize) {
        *self.counts.entry(what.to_owned()).or_default() += more;
    }

    /// How often something happened.
    #[must_use]
    pub fn counted(&self, what: &str) -> usize {
        self.counts.get(what).copied().unwrap_or(0)
    }

    pub(super) fn violated(&mut self, fact: Fact, order: u64, found: impl Into<String>) {
        self.violations.push(Violation { fact, order, found: found.into() });
    }

    /// Whether a fact does not hold.
    #[must_use]
    pub fn violates(&self, fact: Fact) -> bool {
        self.violations.iter().any(|violation| violation.fact == fact)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.counts {
            writeln!(f, "{count:8} {what}")?;
        }
        for Violation { fact, order, found } in self.violations.iter().take(20) {
            writeln!(f, "{fact:?} does not hold of order {order}: {found}")?;
        }
        writeln!(f, "{} violations", self.violations.len())
    }
}
