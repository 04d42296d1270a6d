use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::task::{Context, Waker};

use super::*;
use crate::clock::Clock;
use crate::protocol::{ExecutionId, Owner, Token};

fn name(step: &str) -> StepName {
    StepName { step: step.to_owned(), part: String::new() }
}

fn step(of: &str, state: StepState, class: StepClass) -> Step {
    Step {
        name: name(of),
        class,
        reconciles: false,
        state,
        generation: 3,
        version: 2,
        owner: Owner([1; 16]),
        started_at: Micros(0),
        alive_until: Micros(0),
        value: None,
        done_at: None,
    }
}

fn journal(steps: Vec<Step>) -> Arc<Journal> {
    let (asked, answered) = (Duration::from_secs(1), Duration::from_secs(3));
    let taken = Taken { journal: steps, now: Micros(1_000_000_000), asked, answered };
    Journal::new(Some(taken), 900_000)
}

#[test]
fn the_stores_time_lies_between_asked_and_answered() {
    let (journal, at) = (journal(Vec::new()), Duration::from_secs(10));
    assert_eq!(journal.store_time_at_most(at), Some(Micros(1_009_000_000)));
    assert_eq!(journal.store_time_at_least(at), Some(Micros(1_007_000_000)));
    assert_eq!(Journal::new(None, 900_000).store_time_at_least(at), None);
}

fn recorded(of: &str, at: i64) -> Step {
    Step { done_at: Some(Micros(at)), ..step(of, StepState::Recorded, StepClass::Plain) }
}

/// No time passes on it, or all of it at once.
#[derive(Debug)]
struct Still {
    over: bool,
}

impl Clock for Still {
    fn now_us(&self) -> i64 {
        0
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        if self.over { Box::pin(ready(())) } else { Box::pin(pending()) }
    }
}

/// Whether it is this turn now, without anybody else having been polled meanwhile.
fn has_come(turn: &Turn) -> bool {
    let mut coming = std::pin::pin!(turn.come(&Still { over: false }));
    coming.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn recorded_steps_go_first_in_the_order_of_their_records() {
    let journal = journal(vec![recorded("first", 1), recorded("second", 2), recorded("third", 2)]);
    let turn = |of| journal.visit(&name(of)).unwrap().turn;
    let (new, third, second) = (turn("new"), turn("third"), turn("second"));
    assert!(![&new, &third, &second].into_iter().any(has_come));
    // Of those recorded at once the name says which.
    drop(turn("first"));
    assert!(has_come(&second) && !has_come(&third) && !has_come(&new));
    drop(second);
    assert!(has_come(&third) && !has_come(&new));
    drop(third);
    assert!(has_come(&new));
}

#[test]
fn a_step_that_does_not_go_on_is_waited_for_as_long_as_others_do() {
    let journal = journal(vec![recorded("first", 1), recorded("second", 2)]);
    let turn = |of| journal.visit(&name(of)).unwrap().turn;
    let (kept, last) = (turn("first"), turn("last"));
    let mut cx = Context::from_waker(Waker::noop());
    let mut coming = std::pin::pin!(last.come(&Still { over: false }));
    assert!(coming.as_mut().poll(&mut cx).is_pending());
    drop(turn("second"));
    assert!(coming.as_mut().poll(&mut cx).is_pending(), "one of them went on");
    assert!(coming.as_mut().poll(&mut cx).is_pending(), "nobody need have been polled yet");
    assert!(coming.as_mut().poll(&mut cx).is_ready(), "the kept one is not polled");
    drop(kept);
}

#[test]
fn steps_that_the_body_does_not_come_to_are_waited_for_with_patience() {
    let journal = journal(vec![recorded("first", 1), recorded("second", 2), recorded("third", 3)]);
    let turn = |of| journal.visit(&name(of)).unwrap().turn;
    let (second, new) = (turn("second"), turn("new"));
    let mut cx = Context::from_waker(Waker::noop());
    let still = Still { over: false };
    let mut coming = Box::pin(second.come(&still));
    assert!((0..10).all(|_| coming.as_mut().poll(&mut cx).is_pending()), "others yield in vain");
    assert!(!has_come(&new));
    // The body does not come to the first one in time: it holds nobody up any more. The third holds up what is new.
    let over = Still { over: true };
    assert!(Box::pin(second.come(&over)).as_mut().poll(&mut cx).is_ready());
    assert!(coming.as_mut().poll(&mut cx).is_ready(), "it is given up for all");
    drop(coming);
    drop(turn("first"));
    drop(second);
    assert!(!has_come(&new));
    drop(turn("third"));
    assert!(has_come(&new));
}

fn record(of: &str) -> StepRecord {
    StepRecord {
        id: ExecutionId([1; 16]),
        owner: Owner([1; 16]),
        token: Token(1),
        name: name(of),
        class: StepClass::Plain,
        version: 1,
        generation: 0,
        found: StepFound::Happened(Vec::new()),
        earliest: Micros(0),
    }
}

#[test]
fn a_record_that_was_sent_before_is_waited_for() {
    let journal = journal(Vec::new());
    let (slow, quick) = (journal.send(), journal.send());
    let quick = quick.landed(&record("quick"), Micros(2));
    let later = journal.send();
    assert!(!has_come(&quick));
    let slow = slow.landed(&record("slow"), Micros(1));
    assert!(!has_come(&slow), "a third one was sent before it landed");
    assert!(!has_come(&quick), "the slow one lies before it");
    drop(slow);
    assert!(has_come(&quick), "what was sent behind it cannot lie before it");
    drop(later);
}

#[test]
fn a_record_lies_behind_what_is_known_when_it_is_sent() {
    let journal = journal(vec![recorded("first", 5), recorded("second", 7)]);
    let sent = journal.send();
    assert_eq!(sent.earliest, Micros(8));
    let beside = journal.send();
    assert_eq!(beside.earliest, Micros(8), "sent side by side: none of them is handed over yet");
    // Landed with a clock that jumped forward, and is back.
    drop(sent.landed(&record("third"), Micros(1_000)));
    assert_eq!(journal.send().earliest, Micros(1_001));
    drop(beside.landed(&record("fourth"), Micros(8)));
    assert_eq!(journal.send().earliest, Micros(1_001));
    let cleared = StepRecord { found: StepFound::DidNotHappen, ..record("fifth") };
    drop(journal.send().landed(&cleared, Micros(2_000)));
    assert_eq!(journal.send().earliest, Micros(1_001), "it has no value");
}

#[test]
fn a_name_is_visited_once_and_none_after_the_end() {
    let journal = journal(Vec::new());
    assert!(journal.visit(&name("a")).is_ok());
    assert_eq!(journal.visit(&name("a")).unwrap_err(), Refused::Twice);
    let part = StepName { step: "a".to_owned(), part: "1".to_owned() };
    assert!(journal.visit(&part).is_ok());
    journal.close();
    assert_eq!(journal.visit(&name("b")).unwrap_err(), Refused::Ended);
}

#[test]
fn only_started_at_most_once_steps_are_open_in_the_end() {
    let started = |of, class| step(of, StepState::Started, class);
    let harmless = vec![
        started("window", StepClass::ProviderWindow),
        step("done", StepState::Recorded, StepClass::AtMostOnce),
        step("cleared", StepState::Cleared, StepClass::AtMostOnce),
    ];
    assert_eq!(journal(harmless.clone()).open_at_most_once(), None);
    let mut open = harmless;
    open.push(started("once", StepClass::AtMostOnce));
    assert_eq!(journal(open).open_at_most_once(), Some(name("once")));
}

#[test]
fn an_entry_of_a_version_that_is_not_accepted_is_named() {
    let journal = journal(vec![step("a", StepState::Recorded, StepClass::Plain)]);
    assert_eq!(journal.foreign_version(|version| version == 2), None);
    assert_eq!(journal.foreign_version(|version| version == 1), Some(2));
}
