//! Which properties notice that a predicate is gone, as a text that is read and written.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What is listed for a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// One of these properties at least does not hold.
    Caught(Vec<String>),
    /// None can notice, and why that is right.
    Equivalent(String),
    /// None is known to notice.
    Open,
}

/// For each statement and mutant, by their names, what is listed.
///
/// ```text
/// [complete]
/// owner = $6 := true
///     complete_with_another_owner_is_fenced
/// LIMIT 1 := away
///     reason: the id is unique
/// id = $1 := true
///     open
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(BTreeMap<(String, String), Row>);

impl Table {
    /// Reads a table.
    ///
    /// # Panics
    ///
    /// If it is none.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut rows = BTreeMap::new();
        let mut statement = String::new();
        let mut mutant = String::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("--")) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                name.clone_into(&mut statement);
                continue;
            }
            let key = |mutant: &String| (statement.clone(), mutant.clone());
            let Some(listed) = line.strip_prefix("    ") else {
                line.clone_into(&mut mutant);
                let before = rows.insert(key(&mutant), Row::Caught(Vec::new()));
                assert_eq!(before, None, "[{statement}] has two rows of `{mutant}`");
                continue;
            };
            let row =
                rows.get_mut(&key(&mutant)).expect("a predicate stands before what is listed");
            match (listed.strip_prefix("reason: "), row) {
                (None, row) if listed == "open" => *row = Row::Open,
                (Some(reason), row) => *row = Row::Equivalent(reason.to_owned()),
                (None, Row::Caught(properties)) => properties.push(listed.to_owned()),
                (None, Row::Equivalent(_) | Row::Open) => {
                    panic!("`{mutant}` has a reason, or is open, and has `{listed}`")
                }
            }
        }
        Self(rows)
    }

    /// What is listed for a mutant.
    #[must_use]
    pub fn row(&self, statement: &str, mutant: &str) -> Option<&Row> {
        self.0.get(&(statement.to_owned(), mutant.to_owned()))
    }

    /// The names of all that is listed for.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.keys().map(|(statement, mutant)| (statement.as_str(), mutant.as_str()))
    }

    /// Lists something.
    pub fn insert(&mut self, statement: &str, mutant: &str, row: Row) {
        self.0.insert((statement.to_owned(), mutant.to_owned()), row);
    }

    /// The table as a text, in the order of `keys`.
    #[must_use]
    pub fn text<'a>(&self, keys: impl Iterator<Item = (&'a str, &'a str)>) -> String {
        let mut text = String::new();
        let mut before = "";
        for (statement, mutant) in keys {
            if statement != before {
                let _ =
                    writeln!(text, "{}[{statement}]", if before.is_empty() { "" } else { "\n" });
                before = statement;
            }
            let _ = writeln!(text, "{mutant}");
            match self.row(statement, mutant) {
                Some(Row::Caught(properties)) => {
                    for property in properties {
                        let _ = writeln!(text, "    {property}");
                    }
                }
                Some(Row::Equivalent(reason)) => {
                    let _ = writeln!(text, "    reason: {reason}");
                }
                Some(Row::Open) => text.push_str("    open\n"),
                None => {}
            }
        }
        text
    }
}
