//! What the documentation has to keep up with.

use std::collections::BTreeSet;

use crate::code::{code, lines};
use crate::{File, Violation};

/// The links of a page to files of the repository resolve.
#[must_use]
pub fn links_resolve(page: &File, files: &[File]) -> Vec<Violation> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for file in files {
        let parts: Vec<&str> = file.path.split('/').collect();
        known.extend((1..=parts.len()).map(|end| parts[..end].join("/")));
    }
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    links(page.text())
        .filter(|(_, target)| !target.starts_with('#') && !target.contains(':'))
        .filter_map(|(number, target)| {
            let path = target.split('#').next().unwrap_or_default();
            let resolved = resolve(folder, path);
            (!known.contains(&resolved))
                .then(|| page.violation(number, format!("its link to `{target}` leads nowhere")))
        })
        .collect()
}

/// The targets of a text's links, with their lines. What stands in a block of code is no link.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    lines(text)
        .filter(move |(_, line)| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        })
        .flat_map(|(number, line)| {
            line.split("](").skip(1).filter_map(move |rest| Some((number, rest.split_once(')')?.0)))
        })
}

/// A relative path as seen from a folder.
fn resolve(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Every variant of `Error` has its row in the table of what to do about it.
#[must_use]
pub fn errors_are_explained(error: &File, table: &File) -> Vec<Violation> {
    let mut violations = missing(table, &variants(error.text()), "a row for `Error::");
    if variants(error.text()).is_empty() {
        violations.push(error.violation(0, "no `pub enum Error` was found"));
    }
    violations
}

/// Every argument of the attribute's table is in the page that explains them.
#[must_use]
pub fn arguments_are_explained(args: &File, page: &File) -> Vec<Violation> {
    let arguments = arguments(args.text());
    let mut violations = missing(page, &arguments, "what to know about the argument `");
    if arguments.is_empty() {
        violations.push(args.violation(0, "no table of arguments was found"));
    }
    violations
}

fn missing(page: &File, names: &[String], what: &str) -> Vec<Violation> {
    let mentions = |name: &str| {
        page.text().split('`').skip(1).step_by(2).any(|code| {
            code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
        })
    };
    let names = names.iter().filter(|name| !mentions(name));
    names.map(|name| page.violation(0, format!("it lacks {what}{name}`"))).collect()
}

/// The variants of `pub enum Error`.
fn variants(text: &str) -> Vec<String> {
    let code = code(text);
    let Some((_, body)) = code.split_once("pub enum Error {\n") else { return Vec::new() };
    let body = body.split("\n}\n").next().unwrap_or_default();
    body.lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(char::is_uppercase))
        .map(|line| {
            line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
        })
        .collect()
}

/// The names in the table `ARGUMENTS`.
fn arguments(text: &str) -> Vec<String> {
    let Some((_, table)) = text.split_once("const ARGUMENTS") else { return Vec::new() };
    let table = table.split("\n];").next().unwrap_or_default();
    let rows = table.lines().filter_map(|line| {
        let row = line.trim();
        row.strip_prefix("row(\"").or_else(|| row.split_once("name: \"").map(|(_, name)| name))
    });
    rows.filter_map(|row| Some(row.split_once('"')?.0.to_owned())).collect()
}

#[cfg(test)]
mod tests;
