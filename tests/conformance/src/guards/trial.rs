//! One mutant that is to be noticed.

use std::sync::Arc;

use super::run::goes_in_a_crowd;
use super::{Fact, Guarded, Mutant, Mutated, mutants};

/// What came of it: the row of the table, and what is wrong.
pub(super) type Outcome = (Option<(String, String, Vec<String>)>, Option<String>);

/// How many properties are tried where none is listed.
const LOOKED_AT: usize = 80;

pub(super) struct Trial {
    /// The statement's name.
    pub(super) statement: &'static str,
    /// Which of its mutants it is.
    pub(super) n: usize,
    pub(super) mutant: Mutant,
    /// What the table has.
    pub(super) row: Vec<String>,
    /// Properties that notice another mutant of the statement.
    pub(super) near: Vec<String>,
    /// Whether to look for a property if the table has none.
    pub(super) looks: bool,
}

impl Trial {
    #[expect(clippy::print_stderr, reason = "a search takes long, and may be broken off")]
    pub(super) async fn run<P: Guarded>(self, place: &Arc<P>, facts: &[Fact<P>]) -> Outcome {
        let of = format!("[{}] `{}`", self.statement, self.mutant.name);
        if let Err(error) = place.prepare(&self.mutant.sql).await {
            return (None, Some(format!("{of}: what is left is no statement: {error}")));
        }
        let (statement, n) = (self.statement, self.n);
        let mutated = Mutated::new(Arc::clone(place), move |name, sql| {
            let is_it = name == statement;
            if is_it { mutants(&sql).swap_remove(n).sql } else { sql }
        });
        let mutated = Arc::new(mutated.in_a_crowd(goes_in_a_crowd(statement)));
        for fact in facts.iter().filter(|fact| self.row.iter().any(|name| name == fact.name)) {
            if fact.fails(&mutated).await.is_some() {
                return (self.listed(self.row.clone()), None);
            }
        }
        if self.looks
            && let Some(name) = self.look(facts, &mutated).await
        {
            eprintln!("[{}]\n{}\n    {name}", self.statement, self.mutant.name);
            return (self.listed(vec![name.to_owned()]), None);
        }
        let what = match (self.looks, self.row.is_empty()) {
            (true, _) => "no property notices",
            (false, false) => "none of the properties that are listed for it notices",
            (false, true) => "no property is listed for it",
        };
        (None, Some(format!("{of}: {what}")))
    }

    fn listed(&self, row: Vec<String>) -> Option<(String, String, Vec<String>)> {
        Some((self.statement.to_owned(), self.mutant.name.clone(), row))
    }

    /// What properties call what the statement is about.
    fn about(&self) -> &'static [&'static str] {
        match self.statement {
            "page" => &["behind", "younger", "instant", "page"],
            "owned" => &["twice", "fenced", "twins"],
            "elsewhere.send" => &["elsewhere_sends", "completions_at_once"],
            "look" => &["replays"],
            "claim_many" | "look_many" => &["claims_of_many", "replays_of_many", "claims_of"],
            "complete_many" => &["completions"],
            "outbox.complete_many" => &["completions_of_many", "messages_of_many", "with_messages"],
            "steps.record_many" | "steps.record_started_many" => &["records"],
            "steps.start_many" => &["starts"],
            statement if statement.starts_with("outbox") => {
                &["message", "deliver", "relay", "retry"]
            }
            statement if statement.starts_with("steps") => &["step", "blind", "counted", "record"],
            _ => &[],
        }
    }

    /// The first property that notices: those that are about it first, and before the suite's what is known of this
    /// database alone.
    async fn look<P: Guarded>(
        &self,
        facts: &[Fact<P>],
        mutated: &Arc<Mutated<P>>,
    ) -> Option<&'static str> {
        let words: Vec<&str> =
            self.statement.split(['.', '_']).chain(self.about().iter().copied()).collect();
        let mut facts: Vec<&Fact<P>> = facts.iter().collect();
        facts.sort_by_key(|fact| {
            let alike = words.iter().filter(|word| fact.name.contains(**word)).count();
            let is_near = self.near.iter().any(|name| name == fact.name);
            // What hinges on who is faster comes last.
            (fact.name.contains("at_once"), !is_near, fact.of_suite, usize::MAX - alike)
        });
        for fact in facts.into_iter().take(LOOKED_AT) {
            if fact.fails(mutated).await.is_some()
                && fact.fails(&mutated.unchanged()).await.is_none()
            {
                return Some(fact.name);
            }
        }
        None
    }
}
