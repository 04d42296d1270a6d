//! Debian's packages.

use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, run};

/// Installs packages, or says what to type: what is missing, and what to do where the system is not Debian.
pub(super) fn install(missing: &str, elsewhere: &str, packages: &[&str]) -> Result<(), Failure> {
    if !Path::new("/etc/debian_version").exists() {
        return Err(Failure::new(format!("{missing}; {elsewhere}")));
    }
    if !is_root()? {
        return Err(Failure::new(format!(
            "{missing}; type:\n    sudo sh -c 'apt-get update && apt-get install -y {}'",
            packages.join(" ")
        )));
    }
    println!("{missing}; installing Debian's");
    for arguments in [&["update"][..], &[&["install", "-y"], packages].concat()] {
        run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    Ok(())
}

fn is_root() -> Result<bool, Failure> {
    let output = Command::new("id").arg("-u").output();
    let output = output.map_err(|error| Failure::new(format!("{error}; cannot run: id -u")))?;
    Ok(output.stdout.trim_ascii() == b"0")
}
