//! What a person reads when a handler does not hold.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::diagnosis::{Cause, Found};
use super::play::{Event, Played};
use super::scenario::Scenario;

/// So many scenarios in which the same went wrong are named.
const OTHERS_MAX: usize = 5;

/// So many lines of a timeline are shown.
const EVENTS_FIRST: usize = 40;
const EVENTS_LAST: usize = 20;

/// A handler that held in every scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Passed {
    /// Scenarios that were played, each in a world of its own.
    pub scenarios: usize,
    /// Points that the handler came to in a run without faults.
    pub boundaries: usize,
}

/// A handler that does not hold what its test expects: shown, it is a report for a person.
pub struct Failed {
    findings: Vec<Finding>,
    effects: Vec<String>,
    scenarios: usize,
    seed: u64,
}

/// What went wrong, the first time and later.
struct Finding {
    found: Found,
    scenario: Scenario,
    events: Vec<Event>,
    /// In words, each once, with how often.
    others: Vec<(String, usize)>,
}

impl Failed {
    pub(super) fn new(effects: Vec<String>, seed: u64) -> Self {
        Self { findings: Vec::new(), effects, scenarios: 0, seed }
    }

    pub(super) fn played(&mut self) {
        self.scenarios += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// Takes in what went wrong in a scenario.
    pub(super) fn add(&mut self, scenario: &Scenario, found: Vec<Found>, played: Played) {
        let mut events = Some(played.events);
        for found in found {
            let same = |it: &&mut Finding| {
                it.found.cause == found.cause && it.found.effect == found.effect
            };
            if let Some(finding) = self.findings.iter_mut().find(same) {
                let words = scenario.to_string();
                match finding.others.iter_mut().find(|(other, _)| *other == words) {
                    Some((_, times)) => *times += 1,
                    None => finding.others.push((words, 1)),
                }
            } else {
                let events = events.take().unwrap_or_default();
                let scenario = scenario.clone();
                self.findings.push(Finding { found, scenario, events, others: Vec::new() });
            }
        }
    }

    /// What is wrong, each once, the simplest scenario first.
    pub fn causes(&self) -> impl Iterator<Item = Cause> + '_ {
        self.findings.iter().map(|it| it.found.cause)
    }
}

impl StdError for Failed {}

impl fmt::Debug for Failed {
    /// The report: it is what `unwrap` shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the handler does not hold: {} found in {} scenarios (seed {})",
            match self.findings.len() {
                1 => "1 fault".to_owned(),
                several => format!("{several} faults"),
            },
            self.scenarios,
            self.seed
        )?;
        for (number, finding) in (1..).zip(&self.findings) {
            write!(f, "\n\n{number}. {}\n", finding.found.headline)?;
            write!(f, "   when {}\n\n", finding.scenario)?;
            let left_out = finding.events.len().saturating_sub(EVENTS_FIRST + EVENTS_LAST);
            for (place, event) in finding.events.iter().enumerate() {
                if left_out < 2 || place < EVENTS_FIRST || place >= EVENTS_FIRST + left_out {
                    self.event(f, event)?;
                } else if place == EVENTS_FIRST {
                    writeln!(f, "   {:>10}  {left_out} lines are left out", "…")?;
                }
            }
            write!(f, "\n   what to change: {}\n", finding.found.advice)?;
            if !finding.others.is_empty() {
                let times: usize = finding.others.iter().map(|(_, times)| times).sum();
                write!(f, "\n   also {times} more times")?;
                for (other, times) in finding.others.iter().take(OTHERS_MAX) {
                    write!(f, "\n   - {times} x: {other}")?;
                }
                if finding.others.len() > OTHERS_MAX {
                    write!(f, "\n   - …")?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

impl Failed {
    fn event(&self, f: &mut fmt::Formatter<'_>, event: &Event) -> fmt::Result {
        let who = event.process.map_or_else(String::new, |it| format!("process {it}"));
        write!(f, "   {:>10}  {who:10} {}", clock(event.at), event.text)?;
        for (effect, count) in &event.rose {
            let name = self.effects.get(*effect).map_or("", String::as_str);
            write!(f, "   ← `{name}` has happened, {count} in all")?;
        }
        if let Some((times, until)) = event.again {
            let times = if times == 1 { "again".to_owned() } else { format!("{times} times more") };
            write!(f, ", and {times} until {}", clock(until))?;
        }
        writeln!(f)
    }
}

/// Seconds and milliseconds.
fn clock(at: Duration) -> String {
    format!("{}.{:03} s", at.as_secs(), at.subsec_millis())
}
