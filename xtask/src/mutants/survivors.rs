//! The mutants that may survive, each with its reason.

use std::collections::BTreeMap;

use super::SURVIVED;
use super::names::Mutant;

type Results = BTreeMap<String, String>;
/// Names and reasons.
pub(crate) type Listed = BTreeMap<String, String>;

/// Reads the list: a name at the beginning of a line, and below it, indented, why it survives. `#` begins a comment.
pub(crate) fn parse(text: &str) -> Result<Listed, String> {
    let mut listed = Listed::new();
    let mut name = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        if line.starts_with(' ') {
            let reason = listed.get_mut(&name).ok_or("a reason stands above every name")?;
            if !reason.is_empty() {
                reason.push(' ');
            }
            reason.push_str(line.trim());
            continue;
        }
        line.clone_into(&mut name);
        if listed.insert(name.clone(), String::new()).is_some() {
            return Err(format!("`{name}` is listed twice"));
        }
    }
    match listed.iter().find(|(_, reason)| reason.is_empty()) {
        Some((name, _)) => Err(format!("`{name}` has no reason below it")),
        None => Ok(listed),
    }
}

/// The survivors of earlier chunks that have no reason.
pub(crate) fn to_run_again<'m>(
    mutants: &'m [Mutant],
    results: &Results,
    listed: &Listed,
) -> Vec<&'m Mutant> {
    let survived = |name: &str| results.get(name).is_some_and(|outcome| outcome == SURVIVED);
    mutants
        .iter()
        .filter(|mutant| survived(&mutant.name) && !listed.contains_key(&mutant.name))
        .collect()
}

/// What is wrong: survivors without a reason, and reasons for what does not survive.
pub(crate) fn wrong(mutants: &[Mutant], results: &Results, listed: &Listed) -> Vec<String> {
    let mut wrong = Vec::new();
    for mutant in to_run_again(mutants, results, listed) {
        let name = &mutant.name;
        wrong.push(format!("survived without a reason: {name}"));
    }
    for name in listed.keys() {
        if !mutants.iter().any(|mutant| mutant.name == *name) {
            wrong.push(format!("listed, but there is no such mutant: {name}"));
        } else if results.get(name).is_some_and(|outcome| outcome != SURVIVED) {
            wrong.push(format!("listed, but caught: {name}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests;
