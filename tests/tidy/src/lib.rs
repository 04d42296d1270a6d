//! The rules of this repository that neither rustfmt nor clippy knows.
//!
//! Each rule is a function of a file's path and text, so that it can be shown a planted violation; `tests/repository.rs` runs
//! every rule over the files as they are.

pub mod code;
pub mod docs;
pub mod imports;
pub mod manifests;
pub mod reports;
pub mod shape;
pub mod text;

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// A file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path from the repository's root, with `/`.
    pub path: String,
    /// What it holds, or `None` if that is no text.
    pub text: Option<String>,
}

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file.
    pub path: String,
    /// The line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// What is wrong; what to do instead.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, message } = self;
        if *line == 0 {
            write!(f, "{path}: {message}")
        } else {
            write!(f, "{path}:{line}: {message}")
        }
    }
}

impl File {
    /// A text file.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: Some(text.to_owned()) }
    }

    /// Its text, or nothing.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Whether it is Rust.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    /// Whether it holds tests only, by its place.
    #[must_use]
    pub fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }

    /// A violation in this file.
    #[must_use]
    pub fn violation(&self, line: usize, message: impl Into<String>) -> Violation {
        Violation { path: self.path.clone(), line, message: message.into() }
    }
}

/// Whether a path ends with this extension.
#[must_use]
pub fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|it| it == extension)
}

/// What builds and installations leave behind, and git's own.
const NOT_WRITTEN_HERE: [&str; 5] = [".git", "target", "node_modules", ".venv", "__pycache__"];

/// All files of the repository, sorted by path; what builds leave behind is no part of it.
///
/// # Errors
///
/// If a folder or file cannot be read.
pub fn repository() -> io::Result<Vec<File>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            let skipped = NOT_WRITTEN_HERE.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && !skipped {
                folders.push(path);
            } else if kind.is_file() && !skipped {
                let text = String::from_utf8(fs::read(entry.path())?).ok();
                files.push(File { path: slashed(&path), text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn slashed(path: &Path) -> String {
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}
