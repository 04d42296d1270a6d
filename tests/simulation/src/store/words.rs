//! Requests and answers in words, for the timeline.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use idempotent_runtime::protocol::{
    Claimed, DeliveryEndTo, ExecutionId, MessageId, Owner, ReleaseTo, SettleTo, StepFound,
    StepName, StepRecorded, StepStarted, StoredResult, TakenOver, Target,
};

use super::request::{Answer, Request};

/// Short names of what has long ones.
#[derive(Debug, Default)]
pub(crate) struct Names {
    owners: Mutex<HashMap<Owner, usize>>,
    executions: Mutex<HashMap<ExecutionId, String>>,
    messages: Mutex<HashMap<MessageId, String>>,
}

impl Names {
    /// Learns what a request says.
    pub(crate) fn learn(&self, request: &Request) {
        if let Request::Claim(claims) = request {
            let mut known = lock(&self.executions);
            for claim in claims {
                let key = claim.identity.key.clone().unwrap_or_default();
                known.entry(claim.id).or_insert(key);
            }
        } else if let Request::Complete(completions) = request {
            let mut known = lock(&self.messages);
            for completion in completions {
                let key = self.execution(completion.id);
                for (message, number) in completion.messages.iter().zip(1..) {
                    let name = || format!("{} {number} of {key}", message.topic);
                    known.entry(message.id).or_insert_with(name);
                }
            }
        }
    }

    /// The key of an execution.
    pub(crate) fn execution(&self, id: ExecutionId) -> String {
        lock(&self.executions).get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    pub(crate) fn message(&self, id: MessageId) -> String {
        lock(&self.messages).get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    fn owner(&self, owner: Owner) -> String {
        let mut known = lock(&self.owners);
        let next = known.len() + 1;
        format!("a{}", known.entry(owner).or_insert(next))
    }

    fn by(&self, id: ExecutionId, owner: Owner) -> String {
        format!("{} by {}", self.execution(id), self.owner(owner))
    }

    /// A request in words.
    pub(crate) fn request(&self, request: &Request) -> String {
        let each = |what: &str, of: Vec<String>| format!("{what} {}", of.join(", "));
        match request {
            Request::Claim(it) => {
                each("claim", it.iter().map(|it| self.by(it.id, it.owner)).collect())
            }
            Request::TakeOver(it) => {
                let to = |it: &Target| if *it == Target::Run { "" } else { ", to review" };
                let one = it.iter().map(|it| self.by(it.id, it.owner) + to(&it.target));
                each("take over", one.collect())
            }
            Request::Renew(it) => {
                each("renew", it.iter().map(|it| self.by(it.id, it.owner)).collect())
            }
            Request::Complete(it) => {
                let one = it.iter().map(|it| {
                    let messages = it.sent().len();
                    let with = if messages == 0 {
                        String::new()
                    } else {
                        format!(", {messages} messages")
                    };
                    format!("{} with {}{with}", self.by(it.id, it.owner), result(&it.result))
                });
                each("complete", one.collect())
            }
            Request::Release(it) => {
                let one = it.iter().map(|it| {
                    let to = match it.to {
                        ReleaseTo::Retry { delay_ms: 0 } => "retry".to_owned(),
                        ReleaseTo::Retry { delay_ms } => format!("retry in {delay_ms} ms"),
                        ReleaseTo::Crash => "crashed".to_owned(),
                        ReleaseTo::Review => "review".to_owned(),
                    };
                    format!("{}: {to}, \"{}\"", self.by(it.id, it.owner), it.reason)
                });
                each("release", one.collect())
            }
            Request::Settle(_) | Request::StartSteps(_) | Request::RecordSteps(_) => {
                self.about_steps(request)
            }
            Request::Journals(it) => {
                each("journals of", it.iter().map(|id| self.execution(*id)).collect())
            }
            Request::Read(it) => each("read", it.iter().map(|id| self.execution(*id)).collect()),
            Request::ListReview(..) => "list review".to_owned(),
            Request::Reap(..) => "reap".to_owned(),
            Request::Purge(..) => "purge".to_owned(),
            Request::ClaimMessages(_)
            | Request::RenewMessages(_)
            | Request::EndDeliveries(_)
            | Request::DecideMessages(_)
            | Request::ReadMessages(_)
            | Request::ListMessages(_)
            | Request::CountMessages(_)
            | Request::PurgeMessages(..) => self.about_messages(request),
        }
    }

    fn about_steps(&self, request: &Request) -> String {
        let each = |what: &str, of: Vec<String>| format!("{what} {}", of.join(", "));
        if let Request::Settle(it) = request {
            let one = it.iter().map(|it| {
                let to = match &it.to {
                    SettleTo::Retry => "retry".to_owned(),
                    SettleTo::Reopen => "reopen".to_owned(),
                    SettleTo::Step { name, found } => {
                        format!("{}: {}", step(name), happened(found))
                    }
                    SettleTo::Completed(_) => "completed".to_owned(),
                    SettleTo::Failed(_) => "failed".to_owned(),
                };
                format!("{}: {to}", self.execution(it.id))
            });
            return each("settle", one.collect());
        }
        if let Request::StartSteps(it) = request {
            let one =
                it.iter().map(|it| format!("{} of {}", step(&it.name), self.by(it.id, it.owner)));
            return each("start step", one.collect());
        }
        let Request::RecordSteps(it) = request else { return format!("{request:?}") };
        let one = it.iter().map(|it| {
            format!("{} of {}: {}", step(&it.name), self.by(it.id, it.owner), happened(&it.found))
        });
        each("record step", one.collect())
    }

    fn about_messages(&self, request: &Request) -> String {
        let each = |what: &str, of: Vec<String>| format!("{what} {}", of.join(", "));
        if let Request::ClaimMessages(it) = request {
            let one = it.iter().map(|it| {
                let again = if it.again { " again" } else { "" };
                format!("{} by {}{again}", it.topic, self.owner(it.owner))
            });
            return each("claim messages of", one.collect());
        }
        if let Request::RenewMessages(it) = request {
            let one =
                it.iter().map(|it| format!("{} by {}", self.message(it.id), self.owner(it.owner)));
            return each("renew", one.collect());
        }
        if let Request::EndDeliveries(it) = request {
            let one = it.iter().map(|it| {
                let to = match &it.to {
                    DeliveryEndTo::Delivered => "delivered",
                    DeliveryEndTo::Retry { .. } => "retry",
                    DeliveryEndTo::Ask { .. } => "ask",
                    DeliveryEndTo::Dead { .. } => "dead",
                    DeliveryEndTo::Review { .. } => "review",
                    DeliveryEndTo::Released => "released",
                };
                format!("{} by {}: {to}", self.message(it.id), self.owner(it.owner))
            });
            return each("end", one.collect());
        }
        if matches!(request, Request::PurgeMessages(..)) {
            return "purge messages".to_owned();
        }
        format!("{request:?}")
    }

    /// An answer in words.
    pub(crate) fn answer(&self, answer: &Answer) -> String {
        let all = |of: Vec<String>| of.join(", ");
        match answer {
            Answer::Claimed(it) => all(it.iter().map(|it| self.claimed(it)).collect()),
            Answer::TakenOver(it) => all(it.iter().map(taken_over).collect()),
            Answer::Renewed(it) => format!("{it:?}"),
            Answer::Written(it) => format!("{it:?}"),
            Answer::Settled(it) => format!("{it:?}"),
            Answer::Started(it) => all(it.iter().map(started).collect()),
            Answer::Recorded(it) => {
                let one = |it: &StepRecorded| match it {
                    StepRecorded::Done { .. } => "recorded".to_owned(),
                    StepRecorded::Fenced => "fenced".to_owned(),
                };
                all(it.iter().map(one).collect())
            }
            Answer::Reaped(it) => {
                let one = |(id, _, state): &(ExecutionId, String, _)| {
                    format!("{} is {state:?}", self.execution(*id))
                };
                format!("lapsed: [{}]", all(it.lapsed.iter().map(one).collect()))
            }
            Answer::MessagesClaimed(it) => {
                let names =
                    it.iter().flat_map(|it| it.messages.iter().map(|it| self.message(it.id)));
                let reviewed = it
                    .iter()
                    .flat_map(|it| &it.reviewed)
                    .map(|id| format!("{} to review", self.message(*id)));
                format!("[{}]", all(names.chain(reviewed).collect()))
            }
            Answer::Journals(it) => format!("{} journals", it.len()),
            Answer::Read(it) => {
                let one = it.iter().map(|it| {
                    it.as_ref()
                        .map_or_else(|| "absent".to_owned(), |it| format!("{:?}", it.record.state))
                });
                all(one.collect())
            }
            Answer::Review(it) => all(it.iter().map(|it| self.execution(it.record.id)).collect()),
            Answer::Purged(it) => format!("{} deleted, {} to review", it.deleted, it.reviewed),
            Answer::ReadMessages(_) | Answer::Messages(_) | Answer::Counts(_) => "read".to_owned(),
            Answer::Number(it) => it.to_string(),
        }
    }

    fn claimed(&self, claimed: &Claimed) -> String {
        match claimed {
            Claimed::Granted(_) => "granted, attempt 1".to_owned(),
            Claimed::Found(seen) => {
                let record = &seen.record;
                let owner = self.owner(record.owner);
                format!("found {:?}, attempt {} of {owner}", record.state, record.attempts)
            }
            Claimed::TooOld => "too old".to_owned(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A step and its part.
pub(crate) fn step(name: &StepName) -> String {
    match name.part.as_str() {
        "" => name.step.clone(),
        part => format!("{}/{part}", name.step),
    }
}

fn happened(found: &StepFound) -> String {
    match found {
        StepFound::Happened(value) => format!("happened, {}", String::from_utf8_lossy(value)),
        StepFound::DidNotHappen => "did not happen".to_owned(),
    }
}

fn taken_over(taken: &TakenOver) -> String {
    match taken {
        TakenOver::Granted { granted, journal, .. } => {
            let steps: Vec<String> = journal
                .iter()
                .map(|it| format!("{} {:?}", step(&it.name), it.state).to_lowercase())
                .collect();
            format!("granted, attempt {} with [{}]", granted.attempts, steps.join(", "))
        }
        TakenOver::Reviewed => "in review now".to_owned(),
        TakenOver::Outrun => "outrun".to_owned(),
    }
}

fn started(started: &StepStarted) -> String {
    match started {
        StepStarted::Started { .. } => "started".to_owned(),
        StepStarted::Found(step) => format!("found {:?}", step.state),
        StepStarted::Fenced => "fenced".to_owned(),
    }
}

fn result(result: &StoredResult) -> String {
    match result {
        StoredResult::Json(json) => String::from_utf8_lossy(json).into_owned(),
        StoredResult::Absent { reason } => format!("no result: {reason}"),
    }
}
