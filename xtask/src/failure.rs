//! Why a command stopped.

use std::fmt;
use std::process::Command;

/// A sentence for the person who called.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs a command to its end, which must be a good one. It gets no input.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let line = shown(command);
    let status = command.stdin(std::process::Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("{status} from:\n    {line}"))),
        Err(error) => Err(Failure::new(format!("{error}; cannot run:\n    {line}"))),
    }
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy())))
    });
    let program = command.get_program().to_string_lossy();
    // Cargo calls us with its own path; people type its name.
    let program = if program.ends_with("/cargo") { "cargo".into() } else { program };
    let words = std::iter::once(program).chain(command.get_args().map(|it| it.to_string_lossy()));
    variables.chain(words.map(|word| quoted(&word))).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests;
