//! Servers that a peer starts and ends.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Failed;

/// A server that ends with this value, and with this process, however that ends.
#[derive(Debug)]
pub struct Server(Child);

impl Server {
    /// Starts a program that writes what it has to say into a file.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(program: &Path, arguments: &[&str], log: &Path) -> Result<Self, Failed> {
        let log = std::fs::File::create(log)?;
        // The kernel ends it when this process is no more.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Self(child))
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    ///
    /// With its status.
    pub fn lives(&mut self) -> Result<(), Failed> {
        match self.0.try_wait()? {
            Some(status) => Err(format!("the server has ended, {status}").into()),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Ports on the loopback that nobody listens on.
///
/// # Errors
///
/// If there are none.
pub fn free_ports<const N: usize>() -> Result<[u16; N], Failed> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    // All are held until each is known, so that none is given twice.
    let held = (0..N).map(bind).collect::<Result<Vec<_>, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// What a program says its version is.
///
/// # Errors
///
/// If it is not there.
pub fn version_of(program: &Path) -> Result<String, Failed> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
