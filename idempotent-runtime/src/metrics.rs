//! Counters and histograms, through whatever recorder the application installed.
//!
//! Labels are handler names and outcomes, never keys, ids or payloads.

use std::time::Duration;

/// Claims by handler and outcome.
pub(crate) const CLAIMS: &str = "idempotent_claims_total";
/// Attempts by handler and how they ended.
pub(crate) const ATTEMPTS: &str = "idempotent_attempts_total";
/// Executions taken over from an attempt that ended without an outcome, by handler.
pub(crate) const TAKEOVERS: &str = "idempotent_takeovers_total";
/// Lapsed leases that the reaper or a claimer found, by handler and state that followed.
pub(crate) const LAPSES: &str = "idempotent_lapses_total";
/// How long bodies ran, in seconds, by handler.
pub(crate) const RUNTIME: &str = "idempotent_handler_runtime_seconds";
/// Executions that the purge deleted.
pub(crate) const PURGED: &str = "idempotent_purged_total";

pub(crate) fn claim(handler: &'static str, outcome: &'static str) {
    ::metrics::counter!(CLAIMS, "handler" => handler, "outcome" => outcome).increment(1);
}

pub(crate) fn attempt(handler: &'static str, ended: &'static str, ran: Duration) {
    ::metrics::counter!(ATTEMPTS, "handler" => handler, "ended" => ended).increment(1);
    ::metrics::histogram!(RUNTIME, "handler" => handler).record(ran.as_secs_f64());
}

pub(crate) fn takeover(handler: &'static str) {
    ::metrics::counter!(TAKEOVERS, "handler" => handler).increment(1);
}

pub(crate) fn lapse(handler: impl Into<::metrics::SharedString>, to: &'static str) {
    ::metrics::counter!(LAPSES, "handler" => handler.into(), "to" => to).increment(1);
}

pub(crate) fn purged(executions: u64) {
    ::metrics::counter!(PURGED).increment(executions);
}
