//! Stripe, as npm's `stripe-stateful-mock` has it, on loopback.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// Where `cargo xtask setup` puts it, below `target`.
const FOLDER: &str = "tools/stripe-stateful-mock-0.0.16";

/// The package's own command listens on every interface, so the server is started by hand. It ends with its standard
/// input: also when this process is killed.
const SERVER: &str = "\
    const server = require('stripe-stateful-mock').createExpressApp();
    const listening = server.listen(0, '127.0.0.1', () => console.log(listening.address().port));
    process.stdin.resume().on('end', () => process.exit());";

/// A server that ends with this value.
#[derive(Debug)]
pub(crate) struct Mock {
    process: Child,
    pub(crate) url: String,
}

impl Mock {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut node = Command::new("node");
        node.args(["-e", SERVER]).current_dir(folder()?);
        let process = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut mock = Self { process: process.context("starting `node`")?, url: String::new() };
        let mut port = String::new();
        let output = mock.process.stdout.take().context("its output is piped")?;
        BufReader::new(output).read_line(&mut port).context("reading the mock's port")?;
        let port: u16 = port.trim().parse().context("the mock of Stripe did not start")?;
        mock.url = format!("http://127.0.0.1:{port}");
        Ok(mock)
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The folder whose `node_modules` holds the mock: beside this program, in the folder of what cargo builds.
fn folder() -> anyhow::Result<PathBuf> {
    let program = env::current_exe().context("finding this program")?;
    let folders = program.ancestors().skip(1).map(|folder| folder.join(FOLDER));
    let found =
        folders.into_iter().find(|it| it.join("node_modules/stripe-stateful-mock").is_dir());
    found.with_context(|| {
        format!("no mock of Stripe in `target/{FOLDER}`; `cargo xtask setup` installs it")
    })
}
