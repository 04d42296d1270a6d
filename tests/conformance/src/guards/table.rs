//! Which properties notice that a predicate is gone, as a text that is read and written.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// For each statement and mutant, by their names, the properties of which one at least does not hold.
///
/// ```text
/// [complete]
/// owner = $6 := true
///     complete_with_another_owner_is_fenced
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(BTreeMap<(String, String), Vec<String>>);

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
            if let Some(property) = line.strip_prefix("    ") {
                let row: Option<&mut Vec<String>> = rows.get_mut(&key(&mutant));
                row.expect("a predicate stands before what is listed").push(property.to_owned());
            } else {
                line.clone_into(&mut mutant);
                let before = rows.insert(key(&mutant), Vec::new());
                assert_eq!(before, None, "[{statement}] has two rows of `{mutant}`");
            }
        }
        Self(rows)
    }

    /// What is listed for a mutant.
    #[must_use]
    pub fn row(&self, statement: &str, mutant: &str) -> Option<&[String]> {
        self.0.get(&(statement.to_owned(), mutant.to_owned())).map(Vec::as_slice)
    }

    /// All that is listed: the statement, the mutant, the properties.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &str, &[String])> {
        self.0
            .iter()
            .map(|((statement, mutant), row)| (statement.as_str(), mutant.as_str(), row.as_slice()))
    }

    /// Lists something.
    pub fn insert(&mut self, statement: &str, mutant: &str, row: Vec<String>) {
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
            for property in self.row(statement, mutant).unwrap_or_default() {
                let _ = writeln!(text, "    {property}");
            }
        }
        text
    }
}
