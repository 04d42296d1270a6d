//! Every rule, over the repository as it is.

use std::collections::HashSet;

use idempotent_tidy::{
    File, Violation, docs, imports, manifests, reports, repository, shape, text,
};

fn files() -> Vec<File> {
    repository().expect("the repository can be read")
}

#[track_caller]
fn find<'f>(files: &'f [File], path: &str) -> &'f File {
    files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is missing"))
}

#[track_caller]
fn holds(violations: impl IntoIterator<Item = Violation>) {
    let list: Vec<String> = violations.into_iter().map(|it| it.to_string()).collect();
    assert!(list.is_empty(), "\n{}\n", list.join("\n"));
}

#[test]
fn protocol_imports_std_and_serde_only() {
    let files = files();
    let crates = manifests::dependencies(find(&files, "idempotent-runtime/Cargo.toml").text());
    assert!(crates.len() > 5, "{crates:?}");
    assert!(files.iter().any(|file| file.path == "idempotent-runtime/src/protocol.rs"));
    holds(files.iter().flat_map(|file| imports::protocol_is_pure(file, &crates)));
}

#[test]
fn a_store_knows_protocol_and_store_and_no_other_store() {
    holds(files().iter().flat_map(imports::stores_are_apart));
}

#[test]
fn drivers_are_named_in_stores_only() {
    holds(files().iter().flat_map(imports::drivers_stay_in_stores));
}

#[test]
fn generated_code_names_the_private_module_only() {
    holds(files().iter().flat_map(imports::expansion_is_private));
}

#[test]
fn files_are_small() {
    holds(files().iter().filter_map(shape::files_are_small));
}

#[test]
fn no_module_is_called_mod() {
    holds(files().iter().filter_map(shape::no_mod_rs));
}

#[test]
fn unit_tests_lie_beside_their_module() {
    holds(files().iter().flat_map(shape::unit_tests_are_beside));
}

#[test]
fn every_ui_case_is_run() {
    holds(shape::ui_cases_are_complete(&files()));
}

#[test]
fn the_top_level_is_fixed() {
    holds(shape::the_top_is_fixed(&files()));
}

#[test]
fn every_dependency_has_a_reason() {
    let files = files();
    let manifests =
        files.iter().filter(|file| shape::is_manifest(file) && file.path != "Cargo.toml");
    holds(manifests.flat_map(manifests::dependencies_have_reasons));
}

#[test]
fn every_crate_is_in_step() {
    let files = files();
    let workspace = find(&files, "Cargo.toml");
    holds(manifests::versions_are_in_step(workspace));
    let members = files.iter().filter(|file| shape::is_manifest(file) && file.path != "Cargo.toml");
    holds(members.flat_map(manifests::crates_are_in_step));
    let version = manifests::workspace_version(workspace.text()).expect("versions are in step");
    holds(manifests::macros_are_pinned(find(&files, "idempotent-runtime/Cargo.toml"), version));
}

#[test]
fn no_file_names_a_machine() {
    holds(files().iter().flat_map(text::no_machine_paths));
}

#[test]
fn no_file_names_a_registry() {
    holds(files().iter().flat_map(text::no_registry_hosts));
}

#[test]
fn nothing_is_left_open() {
    holds(files().iter().flat_map(text::nothing_is_left_open));
}

#[test]
fn lines_are_clean() {
    holds(files().iter().flat_map(text::lines_are_clean));
}

#[test]
fn links_lead_somewhere() {
    let files = files();
    let pages = files.iter().filter(|file| file.path.ends_with(".md"));
    holds(pages.flat_map(|page| docs::links_resolve(page, &files)));
}

#[test]
fn every_error_is_explained() {
    let files = files();
    let error = find(&files, "idempotent-runtime/src/error.rs");
    holds(docs::errors_are_explained(error, find(&files, "idempotent-runtime/src/error/table.md")));
}

#[test]
fn every_argument_is_explained() {
    let files = files();
    let arguments = find(&files, "idempotent-macros/src/args.rs");
    holds(docs::arguments_are_explained(arguments, find(&files, "README.md")));
}

#[test]
fn every_metric_and_message_is_explained() {
    let files = files();
    let page = find(&files, "docs/src/observability.md");
    let sources = files.iter().filter(|file| {
        file.path.starts_with("idempotent-runtime/src/") && file.is_rust() && !file.is_test()
    });
    assert!(reports::reports(find(&files, "idempotent-runtime/src/metrics.rs").text()).len() > 5);
    holds(sources.flat_map(|file| reports::reports_are_explained(file, page)));
}

#[test]
fn every_decision_is_in_the_book() {
    let files = files();
    let chapter = find(&files, "docs/src/decisions.md");
    let decisions = files.iter().filter(|file| file.path.starts_with("docs/decisions/"));
    let missing = decisions.filter(|file| {
        let include = format!("{{{{#include ../{}}}}}", file.path.trim_start_matches("docs/"));
        !chapter.text().contains(&include)
    });
    holds(missing.map(|file| file.violation(0, "include it in docs/src/decisions.md")));
}

#[test]
fn every_chapter_is_in_the_summary() {
    let files = files();
    let summary = find(&files, "docs/src/SUMMARY.md");
    let chapters =
        files.iter().filter(|file| file.path.starts_with("docs/src/") && file.path != summary.path);
    // What is drawn is shown by a chapter.
    let chapters = chapters.filter(|file| file.path.ends_with(".md"));
    let missing = chapters.filter(|file| {
        !summary.text().contains(&format!("]({})", file.path.trim_start_matches("docs/src/")))
    });
    holds(missing.map(|file| file.violation(0, "list it in docs/src/SUMMARY.md")));
}

/// Names of tests: of functions, and of lines of a macro that makes them.
fn tests(files: &[File]) -> HashSet<&str> {
    let lines = files.iter().filter(|file| file.is_rust()).flat_map(|file| file.text().lines());
    lines
        .filter(|line| line.contains("fn ") || line.trim_end().ends_with(';'))
        .flat_map(|line| line.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()))
        .collect()
}

#[test]
fn the_tests_of_every_case_are_there() {
    let files = files();
    let page = find(&files, "tests/README.md");
    let names = tests(&files);
    let is_there = |name: &str| match name.strip_prefix("ui/") {
        Some(_) => files.iter().any(|file| file.path == format!("tests/{name}")),
        None => names.contains(name),
    };
    let cases = page.text().lines().zip(1..).filter(|(line, _)| {
        line.strip_prefix("| ").is_some_and(|line| line.starts_with(|c: char| c.is_ascii_digit()))
    });
    let cases: Vec<_> = cases.collect();
    assert!(cases.len() > 36, "{} cases", cases.len());
    holds(cases.into_iter().flat_map(|(line, number)| {
        let tests = line.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let missing = tests.split('`').skip(1).step_by(2).filter(|name| !is_there(name));
        let missing: Vec<_> = missing
            .map(|name| page.violation(number, format!("there is no test `{name}`; name one")))
            .collect();
        missing
    }));
}

#[test]
fn the_tests_of_every_promise_are_there() {
    let files = files();
    let page = find(&files, "docs/evidence.md");
    let names = tests(&files);
    // A name of several words is a test's.
    let is_test = |word: &&str| {
        word.matches('_').count() > 2
            && word.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    let named: Vec<_> = page
        .text()
        .lines()
        .zip(1..)
        .flat_map(|(line, number)| line.split('`').skip(1).step_by(2).map(move |it| (it, number)))
        .filter(|(word, _)| is_test(word))
        .collect();
    assert!(named.len() > 10, "{} tests", named.len());
    let missing = named.into_iter().filter(|(name, _)| !names.contains(name));
    holds(missing.map(|(name, number)| {
        page.violation(number, format!("there is no test `{name}`; name one"))
    }));
}
