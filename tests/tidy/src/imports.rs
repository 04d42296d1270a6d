//! Who may name whom.

use crate::code::{code, lines, paths};
use crate::{File, Violation};

/// Where the runtime's modules live.
const RUNTIME: &str = "idempotent-runtime/src/";

/// What every store may use besides `protocol` and `store`: the seam of time, which embedded stores need.
const FOR_STORES: [&str; 3] = ["protocol", "store", "clock"];

/// What stores share below `store/`.
const SHARED: [&str; 3] = ["error", "sql", "coalesce"];

/// Crates of database drivers.
const DRIVERS: [&str; 3] = ["sqlx", "redis", "rusqlite"];

/// `protocol` imports std and serde only. `crates` are the names of the runtime's dependencies.
#[must_use]
pub fn protocol_is_pure(file: &File, crates: &[String]) -> Vec<Violation> {
    let inside = file.path.strip_prefix(RUNTIME).unwrap_or_default();
    if !(inside == "protocol.rs" || inside.starts_with("protocol/")) || file.is_test() {
        return Vec::new();
    }
    let impure = || "`protocol` is pure: it imports std and serde only".to_owned();
    let mut allowed = vec!["std", "core", "alloc", "serde", "self", "super", "crate"];
    let own = modules(file);
    allowed.extend(own.iter().map(String::as_str));
    let mut violations = named(file, |path| match path {
        ["crate", second, ..] => (*second != "protocol").then(impure),
        [first, _, ..] if *first != "serde" => crates.iter().any(|it| it == first).then(impure),
        _ => None,
    });
    for (number, line) in lines(&code(file.text())) {
        let used = declared(line, "use ").and_then(|rest| rest.split("::").next());
        if used.is_some_and(|first| !allowed.contains(&first)) {
            violations.push(file.violation(number, impure()));
        }
    }
    violations
}

/// A store uses `protocol` and `store`, never another store.
#[must_use]
pub fn stores_are_apart(file: &File) -> Vec<Violation> {
    let Some(inside) = file.path.strip_prefix("idempotent-runtime/src/store/") else {
        return Vec::new();
    };
    let mine = inside.split(['/', '.']).next().unwrap_or_default();
    if SHARED.contains(&mine) || file.is_test() {
        return Vec::new();
    }
    named(file, |path| match path {
        ["crate", "store", other, ..]
            if is_module(other) && !SHARED.contains(other) && *other != mine =>
        {
            Some(format!(
                "a store does not know another one; move what both need to `store/sql` (here: `{other}`)"
            ))
        }
        ["crate", other, ..] if is_module(other) && !FOR_STORES.contains(other) => {
            Some(format!("a store uses `protocol` and `store`, not `{other}`"))
        }
        _ => None,
    })
}

/// Nothing outside `store/` and `transaction/` names a driver.
#[must_use]
pub fn drivers_stay_in_stores(file: &File) -> Vec<Violation> {
    let Some(inside) = file.path.strip_prefix(RUNTIME) else { return Vec::new() };
    if !file.is_rust()
        || ["store/", "store.rs", "transaction/", "transaction.rs"]
            .iter()
            .any(|it| inside.starts_with(it))
    {
        return Vec::new();
    }
    named(file, |path| {
        let driver = path.first().filter(|first| DRIVERS.contains(first))?;
        Some(format!("only `store/` and `transaction/` name `{driver}`"))
    })
}

/// What the macro generates names `idempotent_runtime::__private` and nothing else of the runtime.
#[must_use]
pub fn expansion_is_private(file: &File) -> Vec<Violation> {
    if !file.path.starts_with("idempotent-macros/src/") || !file.is_rust() || file.is_test() {
        return Vec::new();
    }
    named(file, |path| {
        let after = path.iter().skip_while(|it| **it != "idempotent_runtime").nth(1);
        after.filter(|it| **it != "__private").map(|other| {
            format!("generated code names `__private` only; export `{other}` from there")
        })
    })
}

/// All paths that break a rule.
fn named(file: &File, rule: impl Fn(&[&str]) -> Option<String>) -> Vec<Violation> {
    let code = code(file.text());
    lines(&code)
        .flat_map(|(number, line)| paths(line).into_iter().map(move |path| (number, path)))
        .filter_map(|(number, path)| rule(&path).map(|message| file.violation(number, message)))
        .collect()
}

/// The modules that a file declares.
fn modules(file: &File) -> Vec<String> {
    let code = code(file.text());
    let names = code.lines().filter_map(|line| declared(line, "mod ")?.strip_suffix(';'));
    names.map(str::to_owned).collect()
}

/// What stands behind a keyword that begins an item, whatever the item's visibility.
fn declared<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
    let line = line.trim();
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(rest, |(_, rest)| rest),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    item.strip_prefix(keyword)
}

fn is_module(segment: &str) -> bool {
    segment.chars().next().is_some_and(char::is_lowercase)
}

#[cfg(test)]
mod tests;
