//! Whether messages arrived, and in which order.

use std::collections::{BTreeMap, HashMap};

use idempotent_runtime::protocol::{MessageRecord, MessageState, State};

use super::{Ended, Promise, Violation};
use crate::outside::Class;
use crate::world::World;

/// Messages of a completed `announce`: two mails, an sms, a page.
const SENT: [(&str, usize); 3] = [("mail", 2), ("sms", 1), ("page", 1)];

pub(super) fn check(
    world: &World,
    ended: &HashMap<String, Ended>,
    violations: &mut Vec<Violation>,
) {
    let messages = world.server.messages();
    let names = &world.server.names;
    let mut by_operation: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for message in &messages {
        let place = (names.execution(message.execution), message.topic.as_str());
        *by_operation.entry(place).or_default() += 1;
    }
    let mut broken = |promise, what| violations.push(Violation::new(promise, what));
    for ended in ended.values().filter(|it| it.key.starts_with("announce:")) {
        for (topic, count) in SENT {
            let expected = if ended.state == State::Completed { count } else { 0 };
            let sent = by_operation.get(&(ended.key.clone(), topic)).copied().unwrap_or(0);
            if sent != expected {
                let what = format!(
                    "{} is {:?}, and has {sent} messages to {topic}",
                    ended.key, ended.state
                );
                broken(Promise::MessagesArrive, what);
            }
        }
    }
    let effects = world.outside.effects();
    let arrived = |message: &MessageRecord| {
        let name = names.message(message.id);
        effects.iter().position(|it| it.wish.of == name)
    };
    for message in &messages {
        let name = names.message(message.id);
        let came = arrived(message).is_some();
        let fine = match message.state {
            MessageState::Delivered => came,
            MessageState::Review => message.topic != "mail",
            MessageState::Pending | MessageState::Sending | MessageState::Dead => false,
        };
        if !fine {
            let what =
                format!("{name} is {:?}, came: {came}, {:?}", message.state, message.last_error);
            broken(Promise::MessagesArrive, what);
        }
    }
    if !world.scenario.forgets {
        for what in out_of_order(world, &messages, arrived) {
            broken(Promise::MessagesInOrder, what);
        }
        for effect in effects
            .iter()
            .filter(|it| matches!(it.wish.class, Class::Mail | Class::Sms | Class::Page))
        {
            if !messages.iter().any(|it| names.message(it.id) == effect.wish.of) {
                broken(
                    Promise::MessagesArrive,
                    format!("{} came, and was never committed", effect.wish.of),
                );
            }
        }
    }
}

/// The mails to one customer, in the order of commit, arrive one after the other.
fn out_of_order(
    world: &World,
    messages: &[MessageRecord],
    arrived: impl Fn(&MessageRecord) -> Option<usize>,
) -> Vec<String> {
    let ordered: Vec<&MessageRecord> = messages.iter().filter(|it| it.topic == "mail").collect();
    let pairs = ordered.windows(2).filter_map(|pair| {
        let (Some(first), Some(second)) = (arrived(pair[0]), arrived(pair[1])) else { return None };
        let names = &world.server.names;
        let said =
            || format!("{} came before {}", names.message(pair[1].id), names.message(pair[0].id));
        (second < first).then(said)
    });
    pairs.collect()
}
