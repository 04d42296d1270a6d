//! What a fake provider remembers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use super::message::{Answer, HungUp, Request, Seen};
use super::script::Script;

/// Requests, effects and keys.
#[derive(Debug, Default)]
pub(super) struct Books {
    seen: Vec<Seen>,
    effects: BTreeMap<String, usize>,
    effects_total: usize,
    keys: HashMap<Scope, Remembered>,
    next: VecDeque<Script>,
    nth: BTreeMap<usize, Script>,
    /// How far the test has moved the time.
    aged: Duration,
}

/// What a key is looked up by: two accounts may use the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    account: Option<String>,
    key: String,
}

/// What is known of a key.
#[derive(Debug)]
struct Remembered {
    request: Request,
    /// When its first request came, by the provider's clock.
    since: Duration,
    /// None while the first request is being executed.
    answer: Option<Answer>,
}

impl Scope {
    /// Where a request's key is kept.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let account = request.account().map(str::to_owned);
        request.key().map(|key| Self { account, key: key.to_owned() })
    }
}

impl Books {
    /// Writes a request down; its number, and its script.
    pub(super) fn arrive(&mut self, request: &Request) -> (usize, Script) {
        self.seen.push(Seen { request: request.clone(), outcome: None });
        let number = self.seen.len();
        let script = self.nth.remove(&number).or_else(|| self.next.pop_front());
        (number, script.unwrap_or_default())
    }

    /// Writes down what became of a request.
    pub(super) fn settle(&mut self, number: usize, outcome: &Result<Answer, HungUp>) {
        if let Some(seen) = number.checked_sub(1).and_then(|index| self.seen.get_mut(index)) {
            seen.outcome = Some(outcome.clone());
        }
    }

    /// Answers a request whose key is known; otherwise remembers the key, and the request is to be executed.
    pub(super) fn admit(
        &mut self,
        scope: &Scope,
        request: &Request,
        now: Duration,
        window: Option<Duration>,
    ) -> Option<Answer> {
        let now = now + self.aged;
        self.keys.retain(|_, known| {
            known.answer.is_none() || window.is_none_or(|window| now < known.since + window)
        });
        let Some(first) = self.keys.get(scope) else {
            let known = Remembered { request: request.clone(), since: now, answer: None };
            self.keys.insert(scope.clone(), known);
            return None;
        };
        if !first.request.asks_the_same(request) {
            let message = "this key was used with other parameters; use another key";
            return Some(Answer::error(400, message));
        }
        Some(match &first.answer {
            None => Answer::error(409, "a request with this key is being executed"),
            Some(answer) => answer.clone().replayed(),
        })
    }

    /// Counts an effect; how many there are now.
    pub(super) fn perform(&mut self, operation: String) -> usize {
        *self.effects.entry(operation).or_default() += 1;
        self.effects_total += 1;
        self.effects_total
    }

    /// Keeps the answer of a key that is in flight.
    pub(super) fn keep(&mut self, scope: Option<&Scope>, answer: &Answer) {
        if let Some(known) = scope.and_then(|scope| self.keys.get_mut(scope)) {
            known.answer = Some(answer.clone());
        }
    }

    pub(super) fn forget(&mut self, key: &str) {
        self.keys.retain(|scope, known| scope.key != key || known.answer.is_none());
    }

    pub(super) fn age(&mut self, by: Duration) {
        self.aged += by;
    }

    pub(super) fn next(&mut self, script: Script) {
        self.next.push_back(script);
    }

    pub(super) fn nth(&mut self, number: usize, script: Script) {
        self.nth.insert(number, script);
    }

    pub(super) fn effects(&self) -> &BTreeMap<String, usize> {
        &self.effects
    }

    pub(super) fn effects_total(&self) -> usize {
        self.effects_total
    }

    pub(super) fn seen(&self) -> &[Seen] {
        &self.seen
    }
}
