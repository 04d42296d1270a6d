//! The table in the docs says what the code does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Disposition, Error, ErrorKind};
use crate::store::{StoreError, StoreErrorKind};

const CARRIED: Duration = Duration::from_millis(1_234);

/// One error of each kind. A new kind does not compile until it has one.
fn sample(kind: ErrorKind) -> Error {
    let text = || "because".to_owned();
    let source = || StoreError::new(StoreErrorKind::Other, "because");
    match kind {
        ErrorKind::InFlight => Error::InFlight { retry_after: CARRIED },
        ErrorKind::NotDue => Error::NotDue { retry_after: CARRIED },
        ErrorKind::NeedsReview => Error::NeedsReview { reason: text() },
        ErrorKind::PayloadMismatch => Error::PayloadMismatch { fields: vec![text()] },
        ErrorKind::TooOld => Error::TooOld,
        ErrorKind::EmptyKeyPart => Error::EmptyKeyPart { placeholder: text() },
        ErrorKind::KeyTooLong => Error::KeyTooLong { bytes: 513, bytes_max: 512 },
        ErrorKind::KeyHasNul => Error::KeyHasNul { placeholder: text() },
        ErrorKind::NoRuntime => Error::NoRuntime,
        ErrorKind::RuntimeEnded => Error::RuntimeEnded,
        ErrorKind::ShuttingDown => Error::ShuttingDown,
        ErrorKind::Reentrant => Error::Reentrant,
        ErrorKind::LeaseLost => Error::LeaseLost,
        ErrorKind::MaxRuntime => Error::MaxRuntime { max_runtime: CARRIED },
        ErrorKind::Unrecorded => Error::Unrecorded { source: source() },
        ErrorKind::RolledBack => Error::RolledBack { source: source() },
        ErrorKind::ResultUnavailable => {
            Error::ResultUnavailable { stored: 1, current: 2, reason: text() }
        }
        ErrorKind::JournalMismatch => Error::JournalMismatch { reason: text() },
        ErrorKind::DuplicateStep => Error::DuplicateStep { step: text(), part: text() },
        ErrorKind::StepRefused => Error::StepRefused { step: text(), reason: text() },
        ErrorKind::StepTimeout => Error::StepTimeout { step: text(), timeout: CARRIED },
        ErrorKind::MessageRefused => Error::MessageRefused { topic: text(), reason: text() },
        ErrorKind::CompletionRefused => Error::CompletionRefused { reason: text() },
        ErrorKind::CompletionFenced => Error::CompletionFenced,
        ErrorKind::Payload => Error::Payload { reason: text() },
        ErrorKind::Stale => Error::Stale,
        ErrorKind::Unsupported => Error::Unsupported { reason: text() },
        ErrorKind::Config => Error::Config { setting: "lease", reason: text() },
        ErrorKind::Schema => Error::Schema { source: source() },
        ErrorKind::Store => Error::Store { source: source() },
    }
}

/// A row of the table behind its name: retry?, disposition, status.
type Row = (&'static str, &'static str, u16);

fn table() -> BTreeMap<&'static str, Row> {
    let rows = include_str!("table.md").lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let &[name, _meaning, retry, disposition, status, _look_at] = cells.as_slice() else {
            panic!("six cells, not {}: {line}", cells.len());
        };
        let status = status.parse().unwrap_or_else(|_| panic!("no status: {line}"));
        (name.trim_matches('`'), (retry, disposition.trim_matches('`'), status))
    })
    .collect()
}

/// The variants of `enum` in this module's source, in its order.
fn variants(of: &str) -> Vec<&'static str> {
    let source = include_str!("../error.rs");
    let (_, body) = source.split_once(of).unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let names = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    names.map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap()).collect()
}

const ALL: &[ErrorKind] = &[
    ErrorKind::InFlight,
    ErrorKind::NotDue,
    ErrorKind::NeedsReview,
    ErrorKind::PayloadMismatch,
    ErrorKind::TooOld,
    ErrorKind::EmptyKeyPart,
    ErrorKind::KeyTooLong,
    ErrorKind::KeyHasNul,
    ErrorKind::NoRuntime,
    ErrorKind::RuntimeEnded,
    ErrorKind::ShuttingDown,
    ErrorKind::Reentrant,
    ErrorKind::LeaseLost,
    ErrorKind::MaxRuntime,
    ErrorKind::Unrecorded,
    ErrorKind::RolledBack,
    ErrorKind::ResultUnavailable,
    ErrorKind::JournalMismatch,
    ErrorKind::DuplicateStep,
    ErrorKind::StepRefused,
    ErrorKind::StepTimeout,
    ErrorKind::MessageRefused,
    ErrorKind::CompletionRefused,
    ErrorKind::CompletionFenced,
    ErrorKind::Payload,
    ErrorKind::Stale,
    ErrorKind::Unsupported,
    ErrorKind::Config,
    ErrorKind::Schema,
    ErrorKind::Store,
];

#[test]
fn every_variant_has_its_kind_and_its_row() {
    let kinds: Vec<String> = ALL.iter().map(|kind| format!("{kind:?}")).collect();
    assert_eq!(kinds, variants("pub enum ErrorKind {"), "`ALL` has every kind");
    assert_eq!(kinds, variants("pub enum Error {"), "variant and kind have one name");
    let rows: BTreeSet<&str> = table().into_keys().collect();
    assert_eq!(rows, kinds.iter().map(String::as_str).collect(), "one row for each");
    for kind in ALL {
        assert_eq!(sample(*kind).kind(), *kind);
    }
}

#[test]
fn retry_and_disposition_are_those_of_the_table() {
    let table = table();
    for error in ALL.iter().map(|kind| sample(*kind)) {
        let name = format!("{:?}", error.kind());
        let (retry, disposition, status) = table[name.as_str()];
        let is = match error.disposition() {
            Disposition::Ack => "Ack",
            Disposition::DeadLetter => "DeadLetter",
            Disposition::RetryAfter(CARRIED) => "RetryAfter(retry_after)",
            Disposition::RetryAfter(super::RETRY_AFTER_DEFAULT) => "RetryAfter(1 s)",
            Disposition::RetryAfter(other) => panic!("{name}: {other:?}"),
        };
        assert_eq!(is, disposition, "{name}");
        assert_eq!(if error.is_retryable() { "yes" } else { "no" }, retry, "{name}");
        assert_eq!(error.retry_after().is_some(), error.is_retryable(), "{name}");
        assert!((400..600).contains(&status), "{name}: {status} is not an error's status");
    }
}

#[test]
fn only_what_may_succeed_later_has_a_status_that_clients_retry() {
    let table = table();
    for error in ALL.iter().map(|kind| sample(*kind)) {
        let name = format!("{:?}", error.kind());
        let (_, _, status) = table[name.as_str()];
        if matches!(status, 409 | 503) {
            assert!(error.is_retryable(), "{name}: {status} invites a retry");
        }
    }
}
