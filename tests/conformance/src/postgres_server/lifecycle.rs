//! Servers that crash and come back, and servers that follow another.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::directory::{Directory, run};
use super::{PostgresServer, ServerError};

/// How a server ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// `pg_ctl stop -m immediate`: every process of it is told to drop what it has in hand.
    Immediate,
    /// `kill -9` of the postmaster; its sessions end when they notice.
    Killed,
}

impl PostgresServer {
    /// Ends the server and keeps its files: [`start_again`](Self::start_again) goes on with them.
    ///
    /// # Errors
    ///
    /// If it does not end.
    pub fn crash(&mut self, crash: Crash) -> Result<(), ServerError> {
        let failed = |error| ServerError::with("keep the files", error);
        std::fs::write(self.mark("kept"), "").map_err(failed)?;
        let mut stop = self.directory.command(&self.binaries.join("pg_ctl"));
        match crash {
            Crash::Immediate => {
                stop.args(["stop", "-s", "-m", "immediate", "-D"]).arg(self.data());
            }
            Crash::Killed => {
                stop.args(["kill", "KILL"]).arg(self.postmaster()?);
            }
        }
        run(&mut stop)?;
        self.watchdog_ends()
    }

    /// Starts a server that has crashed, on the same port, and waits until it answers.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn start_again(&mut self) -> Result<(), ServerError> {
        let remove = |mark: PathBuf| {
            std::fs::remove_file(mark).map_err(|error| ServerError::with("remove a mark", error))
        };
        let mut tries = 50;
        loop {
            remove(self.mark("stopped"))?;
            self.watchdog = self.options.watch(&self.binaries, &self.directory, self.port)?;
            tries -= 1;
            match self.wait_until_it_answers() {
                Ok(()) => return remove(self.mark("kept")),
                // The sessions of a server that was killed hold its memory until they notice.
                Err(_) if tries > 0 => {
                    self.watchdog_ends()?;
                    thread::sleep(Duration::from_millis(50));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The watchdog ends with its server.
    fn watchdog_ends(&mut self) -> Result<(), ServerError> {
        drop(self.watchdog.stdin.take());
        self.watchdog.wait().map(drop).map_err(|error| ServerError::with("wait for sh", error))
    }

    /// A server of the same settings that follows this one, asynchronously.
    ///
    /// # Errors
    ///
    /// What the servers say.
    pub fn standby(&self) -> Result<Self, ServerError> {
        let directory = Directory::create()?;
        let source = format!("host=127.0.0.1 port={} user=postgres sslmode=disable", self.port);
        run(directory
            .command(&self.binaries.join("pg_basebackup"))
            .args(["-d", &source, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"])
            .arg(directory.path().join("data")))?;
        self.options.serve(&self.binaries, directory)
    }

    /// The lines that the server has logged.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn log(&self) -> Result<String, ServerError> {
        let failed = |error| ServerError::with("read the log", error);
        std::fs::read_to_string(self.mark("log")).map_err(failed)
    }

    fn mark(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.mark("data")
    }

    fn postmaster(&self) -> Result<String, ServerError> {
        let path = self.data().join("postmaster.pid");
        let text = std::fs::read_to_string(&path)
            .map_err(|error| ServerError::with(&format!("read {}", path.display()), error))?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }
}
