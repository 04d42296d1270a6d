use super::*;
use crate::protocol::Owner;

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
    Journal::new(Some(Taken { journal: steps, now: Micros(1_000_000_000), asked, answered }))
}

#[test]
fn the_stores_time_lies_between_asked_and_answered() {
    let (journal, at) = (journal(Vec::new()), Duration::from_secs(10));
    assert_eq!(journal.store_time_at_most(at), Some(Micros(1_009_000_000)));
    assert_eq!(journal.store_time_at_least(at), Some(Micros(1_007_000_000)));
    assert_eq!(Journal::new(None).store_time_at_least(at), None);
}

#[test]
fn recorded_steps_lie_ahead_until_they_are_visited() {
    let recorded = |of, at| Step {
        done_at: Some(Micros(at)),
        ..step(of, StepState::Recorded, StepClass::Plain)
    };
    let journal = journal(vec![recorded("first", 1), recorded("second", 2), recorded("third", 3)]);
    assert!(journal.visit(&name("new")).unwrap().recorded_ahead);
    // Of two that are recorded the earlier one goes first.
    assert!(journal.visit(&name("second")).unwrap().recorded_ahead);
    assert!(!journal.visit(&name("first")).unwrap().recorded_ahead);
    assert!(!journal.visit(&name("third")).unwrap().recorded_ahead);
    assert!(!journal.visit(&name("last")).unwrap().recorded_ahead);
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
