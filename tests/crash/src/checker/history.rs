//! The ledger, sorted by order.

use std::collections::{BTreeMap, HashMap};

use crate::ledger::{Answer, Asked, Event, Line, Mark, Told};

/// What happened, by order.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) orders: BTreeMap<u64, Past>,
}

/// What happened to one order.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) calls: Vec<Call>,
    pub(super) began: Vec<(u32, Mark)>,
    pub(super) effects: Vec<Mark>,
    pub(super) answers: Vec<Answer>,
}

/// One call of the store.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) process: u32,
    /// When it was about to be sent.
    pub(super) asked_at: i64,
    pub(super) asked: Asked,
    /// When it had been answered, and how; `None` if its process died first.
    pub(super) told: Option<(i64, Told)>,
}

/// An attempt that was granted, and whose process lived to write it down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) process: u32,
    pub(super) token: i64,
    pub(super) attempts: u32,
    /// The token that was taken over.
    pub(super) seen: Option<i64>,
    pub(super) asked_at: i64,
    pub(super) told_at: i64,
    pub(super) lease_us: i64,
}

impl History {
    pub(super) fn of(lines: &[Line]) -> Self {
        let mut history = Self::default();
        let mut numbers: HashMap<&str, u64> = HashMap::new();
        let mut places: HashMap<(u32, u64), (u64, usize)> = HashMap::new();
        for Line(at, process, event) in lines {
            match event {
                Event::Began(mark) => {
                    history.past(mark.order).began.push((*process, mark.clone()));
                }
                Event::Effect(mark) => history.past(mark.order).effects.push(mark.clone()),
                Event::Answered { order, answer } => {
                    history.past(*order).answers.push(answer.clone());
                }
                Event::Asked { call, id, what } => {
                    if let Asked::Claim { key, .. } = what {
                        let number = key.strip_prefix("order:").and_then(|key| key.parse().ok());
                        numbers
                            .insert(id, number.expect("the handler's keys are `order:{number}`"));
                    }
                    // An execution is claimed or found before anything else is asked about it.
                    let order = numbers[id.as_str()];
                    let calls = &mut history.past(order).calls;
                    places.insert((*process, *call), (order, calls.len()));
                    let (asked_at, asked) = (*at, what.clone());
                    calls.push(Call { process: *process, asked_at, asked, told: None });
                }
                Event::Told { call, told } => {
                    let (order, place) = places[&(*process, *call)];
                    history.past(order).calls[place].told = Some((*at, told.clone()));
                }
            }
        }
        history
    }

    fn past(&mut self, order: u64) -> &mut Past {
        self.orders.entry(order).or_default()
    }
}

impl Past {
    /// The attempts that were granted, by token.
    pub(super) fn grants(&self) -> Vec<Grant> {
        let grant = |call: &Call| {
            let Some((told_at, Told::Granted { token, attempts })) = call.told else { return None };
            let (seen, lease_ms) = match call.asked {
                Asked::Claim { lease_ms, .. } => (None, lease_ms),
                Asked::TakeOver { seen, lease_ms, .. } => (Some(seen), lease_ms),
                Asked::Renew { .. } | Asked::Complete { .. } | Asked::Release { .. } => {
                    return None;
                }
            };
            let lease_us = i64::try_from(lease_ms * 1_000).expect("a short lease");
            let Call { process, asked_at, .. } = *call;
            Some(Grant { process, token, attempts, seen, asked_at, told_at, lease_us })
        };
        let mut grants: Vec<_> = self.calls.iter().filter_map(grant).collect();
        grants.sort_by_key(|grant| grant.token);
        grants
    }

    /// Claims and takeovers that may have been granted without anybody knowing.
    pub(super) fn grants_unknown(&self) -> usize {
        let asks = |call: &&Call| {
            matches!(call.asked, Asked::Claim { .. } | Asked::TakeOver { review: false, .. })
        };
        self.calls.iter().filter(asks).filter(|call| call.unknown()).count()
    }

    /// Whether somebody sent the execution to review.
    pub(super) fn reviewed(&self) -> bool {
        self.calls.iter().any(|call| matches!(call.asked, Asked::TakeOver { review: true, .. }))
    }
}

impl Call {
    /// Whether nobody knows what became of it.
    pub(super) fn unknown(&self) -> bool {
        matches!(self.told, None | Some((_, Told::Failed(_))))
    }

    /// Whether it was answered with `told`.
    pub(super) fn was_told(&self, told: &Told) -> bool {
        self.told.as_ref().is_some_and(|(_, answer)| answer == told)
    }

    /// The token under which an attempt wrote.
    pub(super) fn token(&self) -> Option<i64> {
        match self.asked {
            Asked::Renew { token }
            | Asked::Complete { token, .. }
            | Asked::Release { token, .. } => Some(token),
            Asked::Claim { .. } | Asked::TakeOver { .. } => None,
        }
    }

    /// Whether it ended the attempt of that token, if it was its own.
    pub(super) fn ends(&self, of: i64) -> bool {
        match self.asked {
            Asked::Complete { token, .. } | Asked::Release { token, .. } => token == of,
            Asked::Claim { .. } | Asked::TakeOver { .. } | Asked::Renew { .. } => false,
        }
    }
}
