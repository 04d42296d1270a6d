//! What the tests need besides the toolchain: found, installed, or asked for in one line.

mod debian;
mod node;
mod python;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, run};
pub(crate) use node::stripe_mock;
pub(crate) use python::aiosmtpd;

/// The programs that the tests start a server with.
const SERVER: [&str; 2] = ["initdb", "postgres"];

/// Makes sure that there is a PostgreSQL server to start.
pub(crate) fn postgres() -> Result<(), Failure> {
    if let Some(found) = server(&path(), Path::new("/usr/lib/postgresql")) {
        println!("PostgreSQL: {}", found.display());
        return Ok(());
    }
    debian::install(
        "no PostgreSQL server (initdb, postgres) on PATH",
        "install one with your system's packages",
        &["postgresql"],
    )?;
    match server(&path(), Path::new("/usr/lib/postgresql")) {
        Some(_) => Ok(()),
        None => Err(Failure::new("Debian's package `postgresql` brought no server")),
    }
}

/// The program that checks the graph of dependencies.
pub(crate) fn cargo_deny(target: &Path) -> Result<PathBuf, Failure> {
    tool(target, "cargo-deny", "0.20.2")
}

/// The program that plants mistakes.
pub(crate) fn cargo_mutants(target: &Path) -> Result<PathBuf, Failure> {
    tool(target, "cargo-mutants", "27.1.0")
}

/// A program of crates.io, installed below `target` where there is none.
fn tool(target: &Path, name: &str, version: &str) -> Result<PathBuf, Failure> {
    let tools = target.join("tools");
    let own = tools.join("bin").join(name);
    let found = path().into_iter().map(|folder| folder.join(name)).find(|it| it.is_file());
    if let Some(found) = found.or_else(|| own.is_file().then(|| own.clone())) {
        println!("{name}: {}", found.display());
        return Ok(found);
    }
    println!("no {name}; building {version} (a few minutes, once)");
    // Without optimisation: what it does takes seconds.
    let mut install = Command::new(cargo());
    install.args(["install", "--locked", "--debug", "--version", version, name]);
    install.arg("--root").arg(&tools).arg("--target-dir").arg(tools.join("build"));
    run(install.env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    // The binary is all that is wanted of a gigabyte.
    fs::remove_dir_all(tools.join("build"))
        .map_err(|error| Failure::new(format!("cannot remove what the build left: {error}")))?;
    Ok(own)
}

/// The cargo that called us.
pub(crate) fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

fn path() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect()
}

/// Where a whole server is: in a folder of PATH, or in Debian's.
fn server(path: &[PathBuf], debian: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(debian).into_iter().flatten().flatten();
    let folders = path.iter().cloned().chain(versions.map(|version| version.path().join("bin")));
    folders.into_iter().find(|folder| SERVER.iter().all(|name| folder.join(name).is_file()))
}

#[cfg(test)]
mod tests;
