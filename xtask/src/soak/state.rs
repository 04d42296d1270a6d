//! What was done of a part, kept in a file that a person can read.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::parts::Part;
use crate::failure::Failure;

/// What the chunks so far did together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) done: u64,
    /// As the part says; before the first chunk as the table says, if it knows.
    pub(crate) goal: Option<u64>,
    pub(crate) units: String,
    pub(crate) seconds: u64,
    pub(crate) chunks: u64,
    pub(crate) date: String,
    pub(crate) machine: String,
    /// Where the last chunk failed.
    pub(crate) failed: Option<String>,
    /// A line a chunk: when, what, at which commit.
    pub(crate) log: Vec<String>,
}

impl State {
    /// The state of a part, which is empty before its first chunk.
    pub(crate) fn read(folder: &Path, part: &Part) -> Result<Self, Failure> {
        let path = path(folder, part.name);
        let state = match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text)
                .map_err(|why| Failure::new(format!("{}: {why}", path.display())))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::default(),
            Err(error) => {
                return Err(Failure::new(format!("cannot read {}: {error}", path.display())));
            }
        };
        // A goal that was changed since counts from now on.
        let goal = part.goal.or(state.goal);
        Ok(Self { goal, units: part.units.to_owned(), ..state })
    }

    /// Writes it at once and whole: a soak may be interrupted at any time.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<(), Failure> {
        let path = path(folder, name);
        let new = folder.join(format!(".{name}.new"));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&new, self.text(name)))
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.failed.is_none() && self.goal.is_some_and(|goal| self.done >= goal)
    }

    fn text(&self, name: &str) -> String {
        let mut text = format!("part: {name}\ndone: {}\n", self.done);
        let goal = self.goal.map(|goal| goal.to_string());
        let (seconds, chunks) = (self.seconds.to_string(), self.chunks.to_string());
        let fields = [
            ("goal", goal.as_deref().unwrap_or_default()),
            ("units", &self.units),
            ("seconds", &seconds),
            ("chunks", &chunks),
            ("date", &self.date),
            ("machine", &self.machine),
            ("failed", self.failed.as_deref().unwrap_or_default()),
        ];
        for (field, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            let _ = writeln!(text, "{field}: {value}");
        }
        for chunk in &self.log {
            let _ = writeln!(text, "chunk: {chunk}");
        }
        text
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut state = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let about = |why: &str| format!("line {number}, `{line}`, {why}");
            let (field, value) =
                line.split_once(": ").ok_or_else(|| about("is no `field: value`"))?;
            let parsed = || value.parse::<u64>().map_err(|_| about("holds no number"));
            match field {
                "part" => {}
                "done" => state.done = parsed()?,
                "goal" => state.goal = Some(parsed()?),
                "units" => value.clone_into(&mut state.units),
                "seconds" => state.seconds = parsed()?,
                "chunks" => state.chunks = parsed()?,
                "date" => value.clone_into(&mut state.date),
                "machine" => value.clone_into(&mut state.machine),
                "failed" => state.failed = Some(value.to_owned()),
                "chunk" => state.log.push(value.to_owned()),
                _ => return Err(about("has no meaning")),
            }
        }
        Ok(state)
    }
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

#[cfg(test)]
mod tests;
