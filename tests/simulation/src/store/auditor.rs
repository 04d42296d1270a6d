//! Looks at every write of the store: whether it changes what it may change.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use idempotent_runtime::protocol::{ExecutionId, Owner, Record, State, Step, StepName};
use idempotent_runtime::store::Execution;

use super::Request;
use super::words::{self, Names};
use crate::checker::{Promise, Violation};

/// Knows what was written, and what should not have been.
#[derive(Debug, Default)]
pub(crate) struct Auditor(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    violations: Vec<Violation>,
    /// When each attempt was granted, as a place in the order of what was applied.
    granted: HashMap<(String, u32), u64>,
    /// When each step was recorded.
    recorded: HashMap<(String, String), u64>,
}

type Row = (Option<Execution>, Vec<Step>);

/// One execution around one write.
struct Around<'a> {
    key: String,
    now: i64,
    request: &'a Request,
    id: ExecutionId,
}

impl Auditor {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares what was with what is.
    pub(crate) fn audit(
        &self,
        names: &Names,
        (applied, now): (u64, i64),
        request: &Request,
        before: &[Row],
        after: &[Row],
    ) {
        for ((was, old), (is, new)) in before.iter().zip(after) {
            let Some(id) = was.as_ref().or(is.as_ref()).map(|it| it.record.id) else { continue };
            let around = Around { key: names.execution(id), now, request, id };
            let mut books = self.books();
            match (was, is) {
                (Some(was), Some(is)) => {
                    around.changes(&was.record, &is.record, &mut books);
                    around.steps(old, new, &mut books);
                }
                (Some(was), None) if around.is_purged(&was.record) => {}
                (Some(was), None) => {
                    let what = format!("{} is gone, it was {:?}", around.key, was.record.state);
                    books.violations.push(Violation::new(Promise::FinishedIsFinal, what));
                }
                (None, _) => {}
            }
            if let Some(is) = is {
                let attempts = was.as_ref().map_or(0, |it| it.record.attempts);
                if is.record.attempts != attempts {
                    books.granted.insert((around.key.clone(), is.record.attempts), applied);
                }
            }
            let is_new = |step: &&Step| {
                step.is_recorded() && find(old, &step.name).is_none_or(|it| !it.is_recorded())
            };
            for step in new.iter().filter(is_new) {
                books.recorded.insert((around.key.clone(), words::step(&step.name)), applied);
            }
        }
    }

    /// The store has forgotten some of it.
    pub(crate) fn forget(&self) {
        let mut books = self.books();
        books.granted.clear();
        books.recorded.clear();
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.books().violations.clone()
    }

    /// Whether the attempt was granted after the step was recorded, and so was told its value.
    pub(crate) fn knew(&self, key: &str, attempt: u32, step: &str) -> bool {
        let books = self.books();
        let granted = books.granted.get(&(key.to_owned(), attempt));
        let recorded = books.recorded.get(&(key.to_owned(), step.to_owned()));
        matches!((granted, recorded), (Some(granted), Some(recorded)) if recorded < granted)
    }

    /// Whether another attempt was granted after this one and before `applied`.
    pub(crate) fn was_overtaken(&self, key: &str, attempt: u32, applied: u64) -> bool {
        let next = attempt.saturating_add(1);
        self.books().granted.get(&(key.to_owned(), next)).is_some_and(|granted| *granted <= applied)
    }
}

impl Around<'_> {
    /// Whether a purge deletes what is past its retention.
    fn is_purged(&self, was: &Record) -> bool {
        let over = match was.state {
            State::Completed | State::Failed => was.done_at,
            State::Retryable if was.open_steps == 0 => Some(was.lease_until),
            State::Running | State::Retryable | State::Review => None,
        };
        let retain_ms = was.limits.retain_ms;
        matches!(self.request, Request::Purge(..))
            && over.is_some_and(|over| over.plus_ms(retain_ms).0 < self.now)
    }

    fn changes(&self, was: &Record, is: &Record, books: &mut Books) {
        let key = &self.key;
        let mut broken =
            |promise, what: String| books.violations.push(Violation::new(promise, what));
        let settled = matches!(self.request, Request::Settle(_));
        if was.state.is_finished() && !settled && (is.state != was.state || is.result != was.result)
        {
            let what = format!(
                "{key} was finished, and became {:?} with another result or state",
                is.state
            );
            broken(Promise::FinishedIsFinal, what);
        }
        if is.token < was.token {
            broken(Promise::OneOwner, format!("the token of {key} went back"));
        }
        if is.owner != was.owner {
            if is.token == was.token {
                broken(Promise::OneOwner, format!("{key} has another owner under the same token"));
            }
            if was.state == State::Running && was.lease_until.0 >= self.now {
                broken(Promise::NoRunBesideARun, format!("{key} was taken over within its lease"));
            }
            if was.state == State::Retryable && was.not_before.is_some_and(|due| due.0 > self.now) {
                broken(
                    Promise::NoRunBesideARun,
                    format!("{key} was taken over before its backoff was over"),
                );
            }
            if !matches!(was.state, State::Running | State::Retryable) {
                broken(
                    Promise::OneOwner,
                    format!("{key} was taken over while it was {:?}", was.state),
                );
            }
        }
        if is != was
            && let Some(owners) = self.writers()
            && !owners.contains(&was.owner)
        {
            broken(
                Promise::OneOwner,
                format!("a write of an attempt that does not own {key} changed it"),
            );
        }
    }

    /// Whose attempts write. A process renews an attempt beside the one that took over from it.
    fn writers(&self) -> Option<Vec<Owner>> {
        let id = self.id;
        let owners = |all: &mut dyn Iterator<Item = (ExecutionId, Owner)>| {
            let owners: Vec<Owner> = all.filter(|it| it.0 == id).map(|it| it.1).collect();
            (!owners.is_empty()).then_some(owners)
        };
        match self.request {
            Request::Renew(it) => owners(&mut it.iter().map(|it| (it.id, it.owner))),
            Request::Complete(it) => owners(&mut it.iter().map(|it| (it.id, it.owner))),
            Request::Release(it) => owners(&mut it.iter().map(|it| (it.id, it.owner))),
            Request::StartSteps(it) => owners(&mut it.iter().map(|it| (it.id, it.owner))),
            Request::RecordSteps(it) => owners(&mut it.iter().map(|it| (it.id, it.owner))),
            Request::Claim(_)
            | Request::TakeOver(_)
            | Request::Settle(_)
            | Request::Journals(_)
            | Request::Read(_)
            | Request::ListReview(..)
            | Request::Reap(..)
            | Request::Purge(..)
            | Request::ClaimMessages(_)
            | Request::RenewMessages(_)
            | Request::EndDeliveries(_)
            | Request::DecideMessages(_)
            | Request::ReadMessages(_)
            | Request::ListMessages(_)
            | Request::CountMessages(_)
            | Request::PurgeMessages(..) => None,
        }
    }

    fn steps(&self, old: &[Step], new: &[Step], books: &mut Books) {
        for was in old.iter().filter(|step| step.is_recorded()) {
            let is = find(new, &was.name);
            if is.is_none_or(|is| is.value != was.value) {
                let what =
                    format!("{} of {} was recorded, and changed", words::step(&was.name), self.key);
                books.violations.push(Violation::new(Promise::RecordedIsFinal, what));
            }
        }
        if old != new
            && let Some(owners) = self.writers()
            && let Some(changed) = new.iter().find(|step| find(old, &step.name) != Some(step))
            && !owners.contains(&changed.owner)
        {
            let what = format!("the journal of {} was changed by nobody's attempt", self.key);
            books.violations.push(Violation::new(Promise::OneOwner, what));
        }
    }
}

fn find<'a>(steps: &'a [Step], name: &StepName) -> Option<&'a Step> {
    steps.iter().find(|step| step.name == *name)
}
