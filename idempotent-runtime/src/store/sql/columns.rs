//! The columns that are read, in one place for both stores.

/// The columns of a record, in the order in which they are read.
pub(in crate::store) const RECORD: &[&str] = &[
    "id",
    "owner",
    "token",
    "state",
    "result",
    "result_format",
    "reason",
    "done_at",
    "version",
    "lease_until",
    "attempt_started_at",
    "alive_until",
    "not_before",
    "attempts",
    "crashes",
    "generation",
    "open_steps",
    "blind_steps",
    "lease_ms",
    "max_runtime_ms",
    "crashes_max",
    "retain_ms",
    "fingerprint",
    "created_at",
];

/// The columns of an execution beside those of its record.
pub(in crate::store) const EXECUTION: &[&str] = &["namespace", "tenant", "handler", "key"];

/// The columns of what an attempt was granted.
pub(in crate::store) const GRANTED: &[&str] = &["token", "attempts", "crashes", "generation"];

/// The columns of a step.
pub(in crate::store) const STEP: &[&str] = &[
    "id",
    "step",
    "part",
    "class",
    "reconciles",
    "state",
    "generation",
    "version",
    "owner",
    "started_at",
    "alive_until",
    "value",
    "done_at",
];

/// A select list of `columns`, each behind `alias` and a dot.
pub(in crate::store) fn list(alias: &str, columns: &[&str]) -> String {
    columns.iter().map(|column| format!("{alias}.{column}")).collect::<Vec<_>>().join(", ")
}
