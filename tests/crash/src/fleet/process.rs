//! One worker process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::worker::{Config, Delivery, Reply};

/// What a worker says.
#[derive(Debug)]
pub enum Said {
    /// What became of a delivery.
    Reply(Reply),
    /// Its output has ended, and it with it.
    Ended,
}

/// One worker process. Dropped, it is killed, stopped or not.
#[derive(Debug)]
pub struct Worker {
    pub(super) process: u32,
    pub(super) stopped: bool,
    pub(super) killed: bool,
    /// What it was given and has not replied to.
    pub(super) in_hand: BTreeMap<u64, Delivery>,
    child: Child,
    input: Option<ChildStdin>,
}

impl Worker {
    /// Starts one, which says through `said` who it is and what became of its deliveries.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(binary: &Path, config: &Config, said: Sender<(u32, Said)>) -> Self {
        let process = config.process;
        let config = serde_json::to_string(config).expect("a configuration encodes");
        let mut child = Command::new(binary)
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the worker starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // A worker that is killed while it writes leaves a torn line.
                if let Ok(reply) = serde_json::from_str(&line) {
                    // Nobody listens to the workers of a run that has failed.
                    let _ = said.send((process, Said::Reply(reply)));
                }
            }
            let _ = said.send((process, Said::Ended));
        });
        let in_hand = BTreeMap::new();
        Self { process, stopped: false, killed: false, in_hand, child, input }
    }

    /// Gives it a delivery.
    ///
    /// # Panics
    ///
    /// Never: a delivery encodes.
    pub fn deliver(&mut self, delivery: Delivery) {
        self.in_hand.insert(delivery.number, delivery);
        let line = serde_json::to_string(&delivery).expect("a delivery encodes");
        if let Some(input) = &mut self.input {
            // A worker that is gone is heard of through its output.
            let _ = input.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// SIGKILL.
    ///
    /// # Panics
    ///
    /// If the process cannot be signalled.
    pub fn kill(&mut self) {
        self.killed = true;
        self.signal(Signal::KILL);
    }

    /// SIGSTOP.
    ///
    /// # Panics
    ///
    /// If the process cannot be signalled.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    ///
    /// # Panics
    ///
    /// If the process cannot be signalled.
    pub fn go_on(&mut self) {
        self.stopped = false;
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // Not reaped before this value is dropped, so the number is still the child's.
        kill_process(Pid::from_child(&self.child), signal).expect("a child can be signalled");
    }

    /// Ends its input and waits until it has ended.
    ///
    /// # Panics
    ///
    /// If it cannot be waited for.
    #[must_use]
    pub fn dismiss(mut self) -> ExitStatus {
        drop(self.input.take());
        self.child.wait().expect("a child can be waited for")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails only when it has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
