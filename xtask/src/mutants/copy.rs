//! A copy of the repository that may be changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// Makes `to` what git knows of this folder, and what is new in it. What is equal is not written, or it would be built
/// again.
pub(crate) fn repository(to: &Path) -> Result<(), Failure> {
    let failed = |what: &Path, error: &std::io::Error| {
        Failure::new(format!("cannot copy {}: {error}", what.display()))
    };
    let list = Command::new("git").args(["ls-files", "-coz", "--exclude-standard"]).output();
    let list = list.map_err(|error| failed(Path::new("the repository"), &error))?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let mut kept: BTreeSet<PathBuf> = BTreeSet::new();
    for name in list.split_terminator('\0') {
        // What was deleted and not committed is still listed.
        let Ok(content) = fs::read(name) else { continue };
        let copy = to.join(name);
        if fs::read(&copy).ok().as_ref() != Some(&content) {
            let folder = copy.parent().unwrap_or(to);
            fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
            fs::write(&copy, content).map_err(|error| failed(&copy, &error))?;
        }
        kept.insert(copy);
    }
    remove_others(to, &kept).map_err(|error| failed(to, &error))
}

fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
