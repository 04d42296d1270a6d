//! What must not stand in any file.

use crate::code::{code, lines};
use crate::{File, Violation};

/// Folders of one machine. Each is put together, so that this file does not hold it.
fn machine_paths() -> [String; 5] {
    ["home", "root", "work", "Users", "mnt"].map(|folder| format!("/{folder}/"))
}

/// No path of the machine on which something was written or run.
#[must_use]
pub fn no_machine_paths(file: &File) -> Vec<Violation> {
    let paths = machine_paths();
    find(file, |line| {
        paths.iter().find(|path| {
            // A path begins at the path's own start: `https://host/work/` and `a/work/` are none.
            line.match_indices(path.as_str()).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|c| !c.is_alphanumeric() && !"./_-}$*)]>".contains(c))
            })
        })?;
        Some("it names a folder of one machine; use a relative path".to_owned())
    })
}

/// Packages come from crates.io, by name; no file names another registry or a proxy of it.
#[must_use]
pub fn no_registry_hosts(file: &File) -> Vec<Violation> {
    let hosts = [
        "artifactory",
        "nexus.",
        "index.crates.io-proxy",
        "replace-with",
        "registry-index",
        "devpi",
    ];
    find(file, |line| {
        let host = hosts
            .iter()
            .find(|host| line.contains(**host) && !file.path.starts_with("tests/tidy/"))?;
        Some(format!("it names a registry (`{host}`); crates come from crates.io"))
    })
}

/// No code that is not written yet, and no test that does not run, unless `cargo xtask soak` runs it.
#[must_use]
pub fn nothing_is_left_open(file: &File) -> Vec<Violation> {
    if !file.is_rust() {
        return Vec::new();
    }
    let code = code(file.text());
    lines(&code)
        .zip(file.text().lines())
        // What the soak runs; its table of parts names each such test.
        .filter(|(_, written)| !written.trim_start().starts_with("#[ignore = \"soak: "))
        .filter_map(|((number, line), _)| {
            let open = ["todo!", "unimplemented!", "#[ignore", "dbg!"]
                .iter()
                .find(|open| line.contains(**open))?;
            Some(file.violation(number, format!("`{open}` is not for the repository")))
        })
        .collect()
}

/// A text ends with one line break, and has no spaces at the ends of lines, nor tabs in code.
#[must_use]
pub fn lines_are_clean(file: &File) -> Vec<Violation> {
    if file.path.starts_with("examples/data/") || !is_written_by_hand(file) {
        return Vec::new();
    }
    let mut violations = find(file, |line| {
        let why = if line.ends_with([' ', '\t', '\r']) { "it ends with a space" } else { "" };
        (!why.is_empty()).then(|| why.to_owned())
    });
    if !file.text().is_empty() && (!file.text().ends_with('\n') || file.text().ends_with("\n\n")) {
        violations.push(file.violation(0, "end it with one line break"));
    }
    violations
}

fn is_written_by_hand(file: &File) -> bool {
    ["rs", "md", "toml", "sql"].iter().any(|extension| crate::has_extension(&file.path, extension))
}

fn find(file: &File, rule: impl Fn(&str) -> Option<String>) -> Vec<Violation> {
    lines(file.text())
        .filter_map(|(number, line)| rule(line).map(|message| file.violation(number, message)))
        .collect()
}

#[cfg(test)]
mod tests;
