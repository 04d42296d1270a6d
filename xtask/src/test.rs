//! `cargo xtask test`: everything that must hold.
//!
//! The order is: what fails fast first. Lints, documentation and tests use one set of features, all of them, so that each
//! dependency is checked once and built once; the features alone follow, which check some dependencies again.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, run as run_command};
use crate::features::features;
use crate::setup::{self, cargo};
use crate::stages::{self, Stage};

const RUNTIME: &str = "idempotent-runtime";

pub(crate) fn run() -> Result<(), Failure> {
    enter_root()?;
    let manifest = Path::new(RUNTIME).join("Cargo.toml");
    let manifest = std::fs::read_to_string(&manifest)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", manifest.display())))?;
    stages::run(plan(&features(&manifest)))?;
    println!("\nEverything holds.");
    Ok(())
}

/// `cargo xtask setup`: what comes before the checks.
pub(crate) fn set_up() -> Result<(), Failure> {
    enter_root()?;
    stages::run(servers())
}

pub(crate) fn enter_root() -> Result<(), Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(&root)
        .map_err(|error| Failure::new(format!("cannot enter {}: {error}", root.display())))
}

/// The folder that holds what is built.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// The servers that tests and examples start.
fn servers() -> Vec<Stage> {
    vec![
        Stage::new("PostgreSQL", setup::postgres),
        Stage::new("aiosmtpd", || setup::aiosmtpd(&target())),
        Stage::new("stripe-stateful-mock", || setup::stripe_mock(&target())),
    ]
}

fn plan(features: &[String]) -> Vec<Stage> {
    let everything = ["--workspace", "--all-features", "--locked"];
    let denied = ["--", "-D", "warnings"];
    let mut stages = servers();
    stages.extend([
        of("format", ["fmt", "--all", "--", "--check"]),
        of("lints", [&["clippy", "--all-targets"][..], &everything, &denied].concat()),
        Stage::new("dependencies", || {
            let deny = setup::cargo_deny(&target())?;
            let checks = ["check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
            run_command(Command::new(deny).arg("--all-features").args(checks))
        }),
        Stage::new("documentation", move || {
            let mut doc = cargo_with([&["doc", "--no-deps"][..], &everything].concat());
            run_command(doc.env("RUSTDOCFLAGS", "-D warnings"))
        }),
        of("build of the tests", [&["test", "--no-run"][..], &everything].concat()),
        // All of them, so that one run tells everything that fails.
        of("tests", [&["test", "--no-fail-fast"][..], &everything].concat()),
    ]);
    let alone = |name: &str, chosen: &[&str]| {
        let start = ["clippy", "--locked", "--package", RUNTIME, "--no-default-features"];
        of(format!("feature alone: {name}"), [&start[..], chosen, &denied].concat())
    };
    stages.push(alone("none", &[]));
    stages.extend(features.iter().map(|name| alone(name, &["--features", name])));
    stages.push(of(
        "quickstart",
        ["run", "--release", "--locked", "--package", "idempotent-examples", "--bin", "quickstart"],
    ));
    stages
}

/// A stage that is one call of cargo.
fn of<A: AsRef<str>>(name: impl Into<String>, arguments: impl IntoIterator<Item = A>) -> Stage {
    let mut command = cargo_with(arguments);
    Stage::new(name, move || run_command(&mut command))
}

fn cargo_with<A: AsRef<str>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(cargo());
    command.args(arguments.into_iter().map(|it| it.as_ref().to_owned()));
    command
}
