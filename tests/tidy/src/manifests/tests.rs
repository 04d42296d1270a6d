//! Each rule of manifests, kept and broken.

use super::{
    crates_are_in_step, dependencies, dependencies_have_reasons, macros_are_pinned,
    versions_are_in_step,
};
use crate::File;

fn manifest(text: &str) -> File {
    File::new("tests/x/Cargo.toml", text)
}

#[test]
fn a_dependency_needs_a_reason_and_a_group_may_share_one() {
    let of = |text: &str| {
        dependencies_have_reasons(&manifest(text)).iter().map(|it| it.line).collect::<Vec<_>>()
    };
    assert_eq!(of("[dependencies]\n# Hashes.\nsha2 = \"0.11\"\n"), [0; 0]);
    assert_eq!(of("[dependencies]\n# Dates.\nchrono = \"1\"\ntime = \"1\"\n"), [0; 0]);
    assert_eq!(of("[dependencies]\nsha2 = \"0.11\"\n"), [2]);
    assert_eq!(of("# Top.\n[dev-dependencies]\nsha2 = \"0.11\"\n"), [3]);
    assert_eq!(of("[dependencies]\n# Dates.\nchrono = \"1\"\n\ntime = \"1\"\n"), [5]);
    assert_eq!(of("[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n"), [2]);
    assert_eq!(of("[package]\nname = \"x\"\n"), [0; 0]);
}

#[test]
fn dependencies_are_read_by_name() {
    let text = "[package]\nname = \"x\"\n[dependencies]\n# Why.\nasync-trait = \"0.1\"\nserde.workspace = true\n[lints]\nworkspace = true\n";
    assert_eq!(dependencies(text), ["async_trait", "serde"]);
}

#[test]
fn the_macros_are_pinned_to_the_same_version() {
    let of = |version: &str| {
        let line = format!(
            "idempotent-macros = {{ path = \"../idempotent-macros\", version = \"{version}\" }}"
        );
        macros_are_pinned(&manifest(&line), "0.1.0").is_some()
    };
    assert!(!of("=0.1.0"));
    assert!(of("0.1.0"));
    assert!(of("=0.2.0"));
    assert!(macros_are_pinned(&manifest(""), "0.1.0").is_some());
}

#[test]
fn a_crate_takes_what_is_common_from_the_workspace() {
    let whole = "version.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
                 license.workspace = true\npublish = false\n[lints]\nworkspace = true\n";
    assert!(crates_are_in_step(&manifest(whole)).is_empty());
    for line in whole.lines().filter(|line| *line != "workspace = true") {
        let found = crates_are_in_step(&manifest(&whole.replacen(line, "", 1)));
        assert_eq!(found.len(), 1, "without {line}");
    }
    let published =
        File::new("idempotent-runtime/Cargo.toml", &whole.replace("publish = false\n", ""));
    assert!(crates_are_in_step(&published).is_empty());
}

#[test]
fn the_workspace_mentions_its_own_version() {
    let of = |version: &str| {
        let text = format!(
            "[workspace.package]\nversion = \"0.2.0\"\n[workspace.dependencies]\n\
             idempotent-runtime = {{ path = \"idempotent-runtime\", version = \"{version}\" }}\n"
        );
        versions_are_in_step(&File::new("Cargo.toml", &text))
            .iter()
            .map(|it| it.line)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("0.2.0"), [0; 0]);
    assert_eq!(of("0.1.0"), [4]);
    assert_eq!(versions_are_in_step(&manifest("")).len(), 1);
}
