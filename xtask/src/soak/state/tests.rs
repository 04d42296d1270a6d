//! What is kept between chunks.

use std::path::PathBuf;

use super::State;
use crate::soak::parts::Part;
use crate::soak::parts::tests::SEEDS;

fn folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("xtask-soak-{}-{test}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    folder
}

fn state() -> State {
    State {
        done: 12,
        goal: Some(100),
        units: SEEDS.units.into(),
        seconds: 34,
        chunks: 2,
        date: "2026-01-31 17:05 UTC".into(),
        machine: "linux x86_64, 2 cores".into(),
        failed: Some("unit 12".into()),
        log: vec!["2026-01-31 17:05 UTC  0 to 12 in 34 s at 1234567".into()],
    }
}

#[test]
fn it_comes_back_as_it_was() {
    let folder = folder("back");
    state().write(&folder, SEEDS.name).unwrap();
    assert_eq!(State::read(&folder, &SEEDS).unwrap(), state());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_person_can_read_it() {
    let text = "part: seeds\ndone: 12\ngoal: 100\nunits: seeds\nseconds: 34\nchunks: 2\n\
                date: 2026-01-31 17:05 UTC\nmachine: linux x86_64, 2 cores\nfailed: unit 12\n\
                chunk: 2026-01-31 17:05 UTC  0 to 12 in 34 s at 1234567\n";
    assert_eq!(state().text(SEEDS.name), text);
}

#[test]
fn before_the_first_chunk_nothing_is_done() {
    let state = State::read(&folder("none"), &SEEDS).unwrap();
    assert_eq!((state.done, state.goal, state.is_complete()), (0, Some(100), false));
}

#[test]
fn a_new_goal_rules() {
    let folder = folder("goal");
    State { done: 100, failed: None, ..state() }.write(&folder, SEEDS.name).unwrap();
    assert!(State::read(&folder, &SEEDS).unwrap().is_complete());
    let more = Part { goal: Some(200), ..SEEDS };
    assert!(!State::read(&folder, &more).unwrap().is_complete());
    let counted = Part { goal: None, ..SEEDS };
    assert_eq!(State::read(&folder, &counted).unwrap().goal, Some(100));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_failed_is_not_complete() {
    assert!(!State { done: 100, ..state() }.is_complete());
}

#[test]
fn a_damaged_file_is_refused_with_its_line() {
    assert_eq!(State::parse("done 1"), Err("line 1, `done 1`, is no `field: value`".into()));
    assert_eq!(State::parse("part: x\ndone: y"), Err("line 2, `done: y`, holds no number".into()));
    assert_eq!(State::parse("color: red"), Err("line 1, `color: red`, has no meaning".into()));
}
