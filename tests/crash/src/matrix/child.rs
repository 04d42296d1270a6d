//! One process of a cell, as the test has it in hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::process::{Answered, Job};
use super::trap::AT_THE_POINT;

/// A process, and what it says.
pub(super) struct Process {
    operation: String,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(super) fn start(binary: &Path, job: &Job) -> Self {
        let operation = job.operation.clone();
        let job = serde_json::to_string(job).expect("a job encodes");
        let mut command = Command::new(PathBuf::from(binary));
        let mut child = command
            .arg(job)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the process starts");
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Self { operation, child, output }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until it has died of the signal; not so if it lost its lease before it came to its point.
    pub(super) fn dies(&mut self) -> bool {
        let mut said = String::new();
        // Its output ends with it.
        self.output.read_to_string(&mut said).expect("its output is text");
        let status = self.child.wait().expect("a child can be waited for");
        let killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
        assert!(killed || Self::is_late(&said), "{}: it did not die: {status}", self.operation);
        killed
    }

    /// Waits until it is at its point, and waits there; not so if it lost its lease before.
    pub(super) fn comes_there(&mut self) -> bool {
        let mut said = String::new();
        self.output.read_line(&mut said).expect("its output is text");
        let is_there = said.trim_end() == AT_THE_POINT;
        assert!(
            is_there || Self::is_late(&said),
            "{}: it never came there: {said}",
            self.operation
        );
        is_there
    }

    /// Whether it was so slow, on a machine with much to do, that it was told to stop.
    fn is_late(said: &str) -> bool {
        matches!(serde_json::from_str(said), Ok(Answered::Lost | Answered::Later(_)))
    }

    /// Freezes it at its point.
    pub(super) fn freeze_there(&mut self) {
        self.freeze();
        // Another of its threads may be writing, and would hold up everybody until it is woken.
        while self.locks_a_file() {
            kill_process(self.pid(), Signal::CONT).expect("a child can be signalled");
            thread::sleep(Duration::from_millis(5));
            self.freeze();
        }
    }

    fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).expect("a child can be signalled");
        let status = waitpid(Some(self.pid()), WaitOptions::UNTRACED);
        let (_, status) = status.expect("a child can be waited for").expect("it has changed");
        assert!(status.stopped(), "it did not freeze: {status:?}");
    }

    /// Whether it holds the write lock of a file, as the kernel lists them.
    fn locks_a_file(&self) -> bool {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        let pid = self.child.id().to_string();
        locks.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.contains(&"WRITE") && words.contains(&pid.as_str())
        })
    }

    /// Lets it go on from its point.
    pub(super) fn go_on(mut self) -> Answered {
        let input = self.child.stdin.as_mut().expect("its input is a pipe");
        input.write_all(b"go on\n").expect("it listens");
        kill_process(self.pid(), Signal::CONT).expect("a child can be signalled");
        self.answer()
    }

    pub(super) fn answer(mut self) -> Answered {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output is text");
        self.child.wait().expect("a child can be waited for");
        serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{}: it ended without an answer", self.operation))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only when it has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
