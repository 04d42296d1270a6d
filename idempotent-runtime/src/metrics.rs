//! Counters and histograms, through whatever recorder the application installed.
//!
//! Labels are handler names and outcomes, never keys, ids or payloads.

use std::time::Duration;

use ::metrics::{Key, Label, Level, Metadata, with_recorder};

use crate::handler::Handler;
use crate::protocol::{ExecutionId, State};

/// Claims by handler and outcome.
pub(crate) const CLAIMS: &str = "idempotent_claims_total";
/// Attempts by handler and how they ended.
pub(crate) const ATTEMPTS: &str = "idempotent_attempts_total";
/// Lapsed and retryable executions that a claimer took over, by handler.
pub(crate) const TAKEOVERS: &str = "idempotent_takeovers_total";
/// Lapsed leases that the reaper or a claimer found, by handler and state that followed.
pub(crate) const LAPSES: &str = "idempotent_lapses_total";
/// How long bodies ran, in seconds, by handler.
pub(crate) const RUNTIME: &str = "idempotent_handler_runtime_seconds";
/// Tries of steps, and steps answered from the journal, by handler and outcome.
pub(crate) const STEPS: &str = "idempotent_steps_total";
/// Executions that the purge deleted.
pub(crate) const PURGED: &str = "idempotent_purged_total";
/// Deliveries of messages by topic and how they ended.
pub(crate) const DELIVERIES: &str = "idempotent_deliveries_total";

/// Tells the application's recorder what each metric is.
pub(crate) fn describe() {
    use ::metrics::{Unit, describe_counter, describe_histogram};
    describe_counter!(CLAIMS, "calls of handlers, by what was found");
    describe_counter!(ATTEMPTS, "runs of bodies, by how they ended");
    describe_counter!(TAKEOVERS, "executions taken over from an attempt before");
    describe_counter!(LAPSES, "lapsed leases that a claimer or the reaper found, by what followed");
    describe_histogram!(RUNTIME, Unit::Seconds, "how long bodies ran");
    describe_counter!(DELIVERIES, "deliveries of messages, by how they ended");
    describe_counter!(STEPS, "tries of steps, and steps answered from the journal");
    describe_counter!(PURGED, "executions deleted after their retention");
}

/// The metrics that a handler's usual calls count. Kept with the handler: making one takes two allocations and a hash.
#[derive(Debug)]
pub(crate) struct Keys {
    granted: Key,
    replayed: Key,
    completed: Key,
    runtime: Key,
}

impl Keys {
    pub(crate) fn new(handler: &'static str) -> Self {
        let handler = || Label::from_static_parts("handler", handler);
        let claims = |outcome| {
            Key::from_parts(CLAIMS, vec![handler(), Label::from_static_parts("outcome", outcome)])
        };
        let ended = Label::from_static_parts("ended", "completed");
        Self {
            granted: claims("granted"),
            replayed: claims("replayed"),
            completed: Key::from_parts(ATTEMPTS, vec![handler(), ended]),
            runtime: Key::from_parts(RUNTIME, vec![handler()]),
        }
    }
}

static METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

fn count(key: &Key) {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA)).increment(1);
}

/// What a caller found. Also an event, at debug level: no key, no payload.
pub(crate) fn claim(handler: &'static Handler, id: ExecutionId, outcome: &'static str) {
    let (keys, name) = (handler.metrics(), handler.name());
    match outcome {
        "granted" => count(&keys.granted),
        "replayed" => count(&keys.replayed),
        _ => ::metrics::counter!(CLAIMS, "handler" => name, "outcome" => outcome).increment(1),
    }
    tracing::debug!(handler = name, execution = %id.short(), outcome, "claimed");
}

pub(crate) fn attempt(handler: &'static Handler, ended: &'static str, ran: Duration) {
    let (keys, name) = (handler.metrics(), handler.name());
    match ended {
        "completed" => count(&keys.completed),
        _ => ::metrics::counter!(ATTEMPTS, "handler" => name, "ended" => ended).increment(1),
    }
    with_recorder(|recorder| recorder.register_histogram(&keys.runtime, &METADATA))
        .record(ran.as_secs_f64());
}

pub(crate) fn step(handler: &'static str, outcome: &'static str) {
    ::metrics::counter!(STEPS, "handler" => handler, "outcome" => outcome).increment(1);
}

/// What a claimer took over: a lapsed execution, or a retryable one.
pub(crate) fn takeover(handler: &'static str, from: State) {
    ::metrics::counter!(TAKEOVERS, "handler" => handler).increment(1);
    if from == State::Running {
        lapse(handler, "running");
    }
}

pub(crate) fn lapse(handler: impl Into<::metrics::SharedString>, to: &'static str) {
    ::metrics::counter!(LAPSES, "handler" => handler.into(), "to" => to).increment(1);
}

pub(crate) fn delivery(topic: &str, ended: &'static str) {
    ::metrics::counter!(DELIVERIES, "topic" => topic.to_owned(), "ended" => ended).increment(1);
}

pub(crate) fn purged(executions: u64) {
    ::metrics::counter!(PURGED).increment(executions);
}
