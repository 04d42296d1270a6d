//! What each class of effect promises, held against what was seen.

use idempotent_crash::matrix::Class;

use crate::outside::Heard;

/// What is known of an operation when it is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The execution's state, by its stored number; nothing where there is no execution.
    pub state: Option<i64>,
    /// Attempts so far.
    pub attempts: i64,
    /// What was heard outside.
    pub heard: Heard,
    /// The numbers that transactions wrote.
    pub written: Vec<u64>,
    /// Messages that are not delivered, and not for a person either.
    pub undelivered: i64,
    /// Messages of which nobody knows whether they arrived.
    pub held_back: i64,
    /// The numbers that callers were answered with.
    pub answers: Vec<u64>,
    /// A caller was told that a person has to decide.
    pub needs_review: bool,
}

const COMPLETED: i64 = 3;
const REVIEW: i64 = 5;

/// What the class promises and was not kept, in words.
#[must_use]
pub fn broken(class: Class, seen: &Seen) -> Vec<String> {
    let mut broken = effects_broken(class, seen);
    let may_need_review = matches!(class, Class::AtMostOnce);
    match seen.state {
        Some(COMPLETED) if !seen.needs_review => {
            if seen.answers.is_empty() {
                broken.push("nobody was answered".to_owned());
            }
        }
        Some(REVIEW) if may_need_review && seen.needs_review => {}
        state => broken.push(format!("the execution is in state {state:?}: its key is blocked")),
    }
    if seen.answers.windows(2).any(|pair| pair[0] != pair[1]) {
        broken.push(format!("callers were answered differently: {:?}", seen.answers));
    }
    broken
}

/// What the class promises of effects and was not kept, in words.
#[must_use]
pub fn effects_broken(class: Class, seen: &Seen) -> Vec<String> {
    let Heard { requests, keys } = seen.heard;
    let mut broken = Vec::new();
    let mut holds = |kept: bool, what: &str| {
        if !kept {
            broken.push(format!("{class:?}: {what}"));
        }
    };
    match class {
        Class::ProviderWindow | Class::ProviderForgot => holds(keys == 1, "one provider key"),
        Class::Plain => holds(requests >= 1, "at least one effect"),
        Class::AtMostOnce => {
            holds(requests <= 1, "at most one effect");
            holds(requests == 1 || seen.needs_review, "an effect, or a person knows");
        }
        Class::Reconciled => holds(requests == 1, "one effect"),
        Class::Transaction | Class::TransactionStep => {
            holds(seen.written.len() == 1, "one effect in the database");
            let told = |answer| seen.written.contains(answer);
            holds(seen.answers.iter().all(told), "the answer is what was written");
        }
        Class::Outbox => {
            holds(keys == 1, "one message");
            holds(seen.undelivered == 0, "every message is delivered");
        }
        Class::OutboxAtMostOnce | Class::OutboxReconciled => {
            holds(requests <= 1, "at most one delivery");
            holds(requests == 1 || seen.held_back == 1, "a delivery, or a person knows");
            holds(seen.undelivered == 0, "no message waits");
        }
    }
    broken
}
