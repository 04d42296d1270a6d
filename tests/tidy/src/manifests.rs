//! The manifests.

use crate::code::lines;
use crate::{File, Violation};

/// Every dependency argues its case in the comment above it, or above its group.
#[must_use]
pub fn dependencies_have_reasons(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut reason = false;
    let mut inside = false;
    for (number, line) in lines(file.text()) {
        let line = line.trim();
        if line.starts_with('[') {
            inside = is_dependencies(line);
        }
        match line {
            "" => reason = false,
            _ if line.starts_with('#') => reason = true,
            _ if line.starts_with('[') => reason = false,
            _ if inside && !reason => {
                violations.push(
                    file.violation(number, "say in a comment above what the dependency is for"),
                );
            }
            _ => {}
        }
    }
    violations
}

/// The names of a manifest's dependencies, as Rust spells them.
#[must_use]
pub fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = is_dependencies(line);
        } else if inside && !line.starts_with('#') {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            if !name.is_empty() {
                names.push(name.replace('-', "_"));
            }
        }
    }
    names
}

/// `idempotent-runtime` pins the macros with `=`, since the two are one contract.
#[must_use]
pub fn macros_are_pinned(runtime: &File, version: &str) -> Option<Violation> {
    let line = lines(runtime.text()).find(|(_, line)| line.starts_with("idempotent-macros "));
    let (number, line) = line.unwrap_or_default();
    let pinned = line.contains(&format!("version = \"={version}\""));
    (!pinned).then(|| {
        runtime.violation(number, format!("pin idempotent-macros with `version = \"={version}\"`"))
    })
}

/// Every crate has the workspace's version, edition, minimum Rust, licence and lints; what is not published says so.
#[must_use]
pub fn crates_are_in_step(file: &File) -> Vec<Violation> {
    const PUBLISHED: [&str; 2] = ["idempotent-macros", "idempotent-runtime"];
    let has = |wanted: &str| file.text().lines().any(|line| line.trim() == wanted);
    let mut violations = Vec::new();
    for field in ["version", "edition", "rust-version", "license"] {
        if !has(&format!("{field}.workspace = true")) {
            violations.push(file.violation(0, format!("take `{field}` from the workspace")));
        }
    }
    if !file.text().contains("[lints]\nworkspace = true") {
        violations.push(file.violation(0, "take the lints from the workspace"));
    }
    let folder = file.path.trim_end_matches("/Cargo.toml");
    if !PUBLISHED.contains(&folder) && !has("publish = false") {
        violations.push(file.violation(0, "say `publish = false`"));
    }
    violations
}

/// The workspace's version, and every mention of it beside the dependency on a crate of the workspace.
#[must_use]
pub fn versions_are_in_step(workspace: &File) -> Vec<Violation> {
    let Some(version) = workspace_version(workspace.text()) else {
        return vec![workspace.violation(0, "it has no version")];
    };
    lines(workspace.text())
        .filter(|(_, line)| line.starts_with("idempotent-") && line.contains("path = "))
        .filter(|(_, line)| !line.contains(&format!("version = \"{version}\"")))
        .map(|(number, _)| workspace.violation(number, format!("its version is {version} now")))
        .collect()
}

/// The version that every crate of the workspace has.
#[must_use]
pub fn workspace_version(manifest: &str) -> Option<&str> {
    let package = manifest.split_once("[workspace.package]")?.1;
    let line = package.lines().find_map(|line| line.strip_prefix("version = "))?;
    Some(line.trim_matches('"'))
}

fn is_dependencies(header: &str) -> bool {
    header.trim_end_matches(']').ends_with("dependencies")
}

#[cfg(test)]
mod tests;
