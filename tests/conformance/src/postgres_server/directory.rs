//! A temporary directory that the server's user may enter.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::ServerError;

/// The user that runs the server where we are root: PostgreSQL refuses to.
const USER: &str = "postgres";

/// Removed when dropped, unless the watchdog has done so before.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    as_other_user: bool,
}

impl Directory {
    pub(super) fn create() -> Result<Self, ServerError> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("idempotent-postgres-{process}-{number}"));
        let failed = |error| ServerError::with(&format!("create {}", path.display()), error);
        std::fs::create_dir(&path).map_err(failed)?;
        let as_other_user = std::fs::metadata(&path).map_err(failed)?.uid() == 0;
        let directory = Self { path: path.clone(), as_other_user };
        if as_other_user {
            let (uid, gid) = (id_of_the_user("-u")?, id_of_the_user("-g")?);
            chown(&path, Some(uid), Some(gid)).map_err(failed)?;
        }
        Ok(directory)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs as the user that runs the server.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = if self.as_other_user {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir("/");
        command
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Absent where a watchdog removed it.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Runs a command to its end, which must be a good one.
pub(super) fn run(command: &mut Command) -> Result<(), ServerError> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> Result<String, ServerError> {
    let name = format!("run {command:?}");
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| ServerError::with(&name, error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(ServerError::new(format!("cannot {name}: {}: {said}", output.status)))
}

fn id_of_the_user(which: &str) -> Result<u32, ServerError> {
    let id = output(Command::new("id").args([which, USER]))?;
    id.trim().parse().map_err(|_| ServerError::new(format!("`id {which} {USER}` says {id:?}")))
}
