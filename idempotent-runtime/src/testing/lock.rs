//! Guards the identity of handlers: a rename makes new keys, and new keys run old operations again.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::handler::{Handler, handlers};

/// Set to `write` to accept the handlers as they are.
const VARIABLE: &str = "IDEMPOTENT_LOCK";

/// What of a handler must not change unnoticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Locked {
    /// The key template as written.
    key: String,
    /// What is fingerprinted, as written.
    fingerprint: Vec<String>,
    /// The steps that stand in its body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
    version: u32,
}

type Lock = BTreeMap<String, Locked>;

/// Checks every handler of this binary against a lock file: name, key template, what is fingerprinted, the names of the
/// steps in its body, version.
///
/// Write it as a test of the crate that holds the handlers, and commit the file. A renamed handler or a changed key
/// template makes new keys, under which operations that are done run again; a changed fingerprint refuses retries in
/// flight; a renamed step loses its journal, and its effect is repeated. Steps in functions that a handler calls are not
/// seen. Where a change is meant, run the test once with `IDEMPOTENT_LOCK=write` and review the file's diff.
///
/// `path` is relative to the package's folder, where `cargo test` runs.
///
/// # Panics
///
/// If the handlers differ from the file, with what differs and what follows from it; if the file is missing or cannot
/// be read; if two handlers have one name; if the test binary holds no handler.
///
/// # Examples
///
/// ```no_run
/// #[test]
/// fn handlers_keep_their_identity() {
///     idempotent_runtime::testing::handlers_lock("handlers.lock");
/// }
/// ```
pub fn handlers_lock(path: impl AsRef<Path>) {
    let write = env::var(VARIABLE).is_ok_and(|value| value == "write");
    if let Err(report) = check(path.as_ref(), handlers(), write) {
        panic!("{report}");
    }
}

fn check(
    path: &Path,
    handlers: impl Iterator<Item = &'static Handler>,
    write: bool,
) -> Result<(), String> {
    let now = lock(handlers)?;
    if now.is_empty() {
        return Err(
            "this test binary holds no handler, so nothing is compared; write the test into \
                    the crate that holds them (a test in `tests/` holds those of a library only if \
                    it uses the library)"
                .to_owned(),
        );
    }
    let shown = path.display();
    if write {
        let mut json = serde_json::to_string_pretty(&now).map_err(|error| error.to_string())?;
        json.push('\n');
        return fs::write(path, json).map_err(|error| format!("`{shown}`: {error}"));
    }
    let text = fs::read_to_string(path).map_err(|error| {
        format!("`{shown}`: {error}; run the test once with {VARIABLE}=write to create it")
    })?;
    let locked: Lock = serde_json::from_str(&text)
        .map_err(|error| format!("`{shown}` is no lock file of handlers: {error}"))?;
    let differences = differences(&locked, &now);
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!(
        "handlers differ from `{shown}`:\n{differences}if this is meant, run the test once with \
         {VARIABLE}=write and commit the file"
    ))
}

fn lock(handlers: impl Iterator<Item = &'static Handler>) -> Result<Lock, String> {
    let mut lock = Lock::new();
    for handler in handlers {
        let locked = Locked {
            key: handler.key_template().to_owned(),
            fingerprint: handler.fingerprinted().iter().map(|&path| path.to_owned()).collect(),
            steps: handler.step_names().iter().map(|&name| name.to_owned()).collect(),
            version: handler.current_version(),
        };
        if lock.insert(handler.name().to_owned(), locked).is_some() {
            let (name, module) = (handler.name(), handler.module());
            return Err(format!(
                "two handlers are named `{name}`, one of them in `{module}`; write \
                 `#[idempotent(name = \"..\")]` on one"
            ));
        }
    }
    Ok(lock)
}

/// One line a difference, with what follows from it.
fn differences(locked: &Lock, now: &Lock) -> String {
    let mut lines = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "  {text}");
    };
    for (name, old) in locked {
        let Some(new) = now.get(name) else {
            line(format_args!(
                "`{name}` is gone: renamed, its keys are new and its operations run again; write \
                 `name = \"{name}\"` to keep them"
            ));
            continue;
        };
        if old.key != new.key {
            line(format_args!(
                "`{name}`: key `{}` became `{}`: its operations get new keys and run again",
                old.key, new.key
            ));
        }
        if old.fingerprint != new.fingerprint {
            line(format_args!(
                "`{name}`: fingerprint {:?} became {:?}: retries of operations that are stored may \
                 be refused",
                old.fingerprint, new.fingerprint
            ));
        }
        for step in old.steps.iter().filter(|step| !new.steps.contains(step)) {
            line(format_args!(
                "`{name}`: step `{step}` is gone: where it is recorded, another name runs its effect again; keep \
                 the name, or raise `version` and leave the old one out of `accepts`"
            ));
        }
        for step in new.steps.iter().filter(|step| !old.steps.contains(step)) {
            line(format_args!("`{name}`: step `{step}` is new"));
        }
        if old.version != new.version {
            line(format_args!(
                "`{name}`: version {} became {}: journals of the old one are accepted only if \
                 `accepts` says so",
                old.version, new.version
            ));
        }
    }
    for name in now.keys().filter(|name| !locked.contains_key(*name)) {
        line(format_args!("`{name}` is new"));
    }
    lines
}

#[cfg(test)]
mod tests;
