//! What tells one state of the database from another.

use std::hash::{Hash, Hasher};

use idempotent_runtime::protocol::State;

use super::Db;
use crate::config::{Class, Config};
use crate::request::result_of;
use crate::time::{NOW, tick, tick_record, tick_step};

impl Db {
    /// A millisecond later.
    pub(crate) fn tick(&mut self) {
        self.record.iter_mut().for_each(tick_record);
        self.step.iter_mut().for_each(tick_step);
        if let Some(message) = &mut self.message {
            tick(&mut message.due_at, 1);
        }
    }

    /// Forgets what nothing in this world depends on.
    pub(crate) fn forget(&mut self, config: &Config) {
        if let Some(record) = &mut self.record {
            if record.state != State::Running {
                record.attempt_started_at = NOW;
            }
            if record.state.is_finished() {
                record.lease_until = NOW;
                record.not_before = None;
            }
            if !config.waits_for_the_living() {
                record.alive_until = NOW;
            }
            record.attempts = 1;
            record.created_at = NOW;
            record.reason = None;
        }
        if let Some(step) = &mut self.step {
            step.done_at = step.done_at.map(|_| NOW);
            if !step.is_open() || config.class != Class::Window {
                step.started_at = NOW;
            }
            if !step.is_open() || !config.waits_for_the_living() {
                step.alive_until = NOW;
            }
        }
        if let Some(message) = &mut self.message {
            message.attempts = 1;
            message.created_at = NOW;
            message.last_error = None;
            message.done_at = message.done_at.map(|_| NOW);
        }
        self.rows = self.rows.min(2);
        self.truth.lapses = self.truth.lapses.min(3);
    }
}

impl Hash for Db {
    fn hash<H: Hasher>(&self, into: &mut H) {
        self.rows.hash(into);
        self.truth.hash(into);
        self.record.is_some().hash(into);
        if let Some(it) = &self.record {
            (it.state, it.owner, it.token, it.lease_until).hash(into);
            (it.attempt_started_at, it.alive_until, it.not_before, it.done_at).hash(into);
            (it.crashes, it.generation, it.open_steps, it.blind_steps).hash(into);
            (&it.fingerprint, result_of(it.result.as_ref())).hash(into);
        }
        self.step.is_some().hash(into);
        if let Some(it) = &self.step {
            (it.state, it.owner, it.generation, it.reconciles).hash(into);
            (it.started_at, it.alive_until, &it.value).hash(into);
        }
        self.message.is_some().hash(into);
        if let Some(it) = &self.message {
            (it.state, it.owner, it.token, it.due_at, it.at_most_once, it.asks).hash(into);
        }
    }
}
