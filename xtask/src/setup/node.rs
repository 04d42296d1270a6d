//! Packages of npm: each in a folder of its own below `target`, so that nothing of the system changes.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::debian;
use crate::failure::{Failure, run};

/// The mock of Stripe, which the example `stripe` looks for in this folder below `target`.
const STRIPE_MOCK: &str = "stripe-stateful-mock";
const STRIPE_MOCK_VERSION: &str = "0.0.16";
const STRIPE_MOCK_FOLDER: &str = "tools/stripe-stateful-mock-0.0.16";

/// Makes sure that there is a mock of Stripe to start.
pub(crate) fn stripe_mock(target: &Path) -> Result<(), Failure> {
    node()?;
    let folder = target.join(STRIPE_MOCK_FOLDER);
    if is_installed(&folder) {
        println!("{STRIPE_MOCK}: {}", folder.display());
        return Ok(());
    }
    println!("no {STRIPE_MOCK} {STRIPE_MOCK_VERSION}; installing it in {}", folder.display());
    // Under its own name only when it is complete: a run that is interrupted leaves nothing that looks like it.
    let part = target.join(format!("{STRIPE_MOCK_FOLDER}.part"));
    for leftover in [&part, &folder] {
        if leftover.exists() {
            fs::remove_dir_all(leftover).map_err(|error| cannot("remove", leftover, &error))?;
        }
    }
    fs::create_dir_all(&part).map_err(|error| cannot("create", &part, &error))?;
    let mut install = Command::new("npm");
    install.arg("install").arg("--prefix").arg(&part);
    install.arg(format!("{STRIPE_MOCK}@{STRIPE_MOCK_VERSION}"));
    run(install.args(["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]))?;
    if !is_installed(&part) {
        return Err(Failure::new(format!("npm installed no {STRIPE_MOCK} in {}", part.display())));
    }
    fs::rename(&part, &folder).map_err(|error| cannot("rename", &part, &error))
}

fn is_installed(folder: &Path) -> bool {
    folder.join("node_modules").join(STRIPE_MOCK).join("package.json").is_file()
}

/// Makes sure that there are Node.js and npm.
fn node() -> Result<(), Failure> {
    if are_there() {
        return Ok(());
    }
    let elsewhere = "install them with your system's packages";
    debian::install("no Node.js with npm on PATH", elsewhere, &["nodejs", "npm"])?;
    if are_there() {
        Ok(())
    } else {
        Err(Failure::new("Debian's packages `nodejs` and `npm` brought none"))
    }
}

fn are_there() -> bool {
    ["node", "npm"].into_iter().all(|program| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    })
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
