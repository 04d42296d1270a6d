//! Python packages: each in an environment of its own below `target`, so that nothing of the system changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian;
use crate::failure::{Failure, run};

/// The mail server of the example `newsletter`, which looks for it in this folder below `target`.
const AIOSMTPD: &str = "aiosmtpd";
const AIOSMTPD_VERSION: &str = "1.4.6";
const AIOSMTPD_FOLDER: &str = "tools/aiosmtpd";

/// Where a Python may be: on PATH, and Debian's where another one hides it.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

/// Makes sure that there is a mail server to start.
pub(crate) fn aiosmtpd(target: &Path) -> Result<(), Failure> {
    let environment = target.join(AIOSMTPD_FOLDER);
    let own = environment.join("bin/python");
    if version(&own).as_deref() == Some(AIOSMTPD_VERSION) {
        println!("{AIOSMTPD}: {}", environment.display());
        return Ok(());
    }
    println!("no {AIOSMTPD} {AIOSMTPD_VERSION}; installing it in {}", environment.display());
    // What another version or a run that was interrupted left there goes.
    run(Command::new(python()?).args(["-m", "venv", "--clear"]).arg(&environment))?;
    let mut install = Command::new(&own);
    install.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    run(install.arg(format!("{AIOSMTPD}=={AIOSMTPD_VERSION}")))?;
    match version(&own).as_deref() {
        Some(AIOSMTPD_VERSION) => Ok(()),
        found => Err(Failure::new(format!("pip installed {AIOSMTPD}, but there is {found:?}"))),
    }
}

/// Which version an environment has, if it has one.
fn version(python: &Path) -> Option<String> {
    let script = format!("import importlib.metadata as m; print(m.version('{AIOSMTPD}'))");
    let output = Command::new(python).arg("-c").arg(script).output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| version.trim().to_owned())
}

/// A Python that can make environments. Debian's cannot without a package of its own.
fn python() -> Result<PathBuf, Failure> {
    if let Some(found) = able() {
        return Ok(found);
    }
    let missing = "no Python 3 with `venv` and `ensurepip`";
    debian::install(missing, "install one with your system's packages", &["python3-venv"])?;
    able().ok_or_else(|| Failure::new("Debian's package `python3-venv` brought none"))
}

fn able() -> Option<PathBuf> {
    let able = |python: &&str| {
        let output = Command::new(python).args(["-c", "import ensurepip, venv"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    PYTHONS.into_iter().find(able).map(PathBuf::from)
}

#[cfg(test)]
mod tests;
