//! What a chunk's lines make of the state.

use std::time::Duration;

use super::{Chunk, State};
use crate::soak::parts::tests::SEEDS;

fn begin(before: &State) -> Chunk<'static> {
    let chunk = Chunk::begin(&SEEDS, before);
    Chunk { machine: "a machine".into(), commit: "1234567".into(), ..chunk }
}

fn before() -> State {
    State {
        done: 10,
        goal: Some(100),
        units: "seeds".into(),
        seconds: 5,
        chunks: 1,
        log: vec!["the first".into()],
        ..State::default()
    }
}

#[test]
fn a_chunk_adds_to_those_before_it() {
    let mut state = before();
    let mut chunk = begin(&state);
    assert!(!chunk.hear("running 1 test"));
    assert!(chunk.hear("soak: seeds 20 of 100 seeds, 20.00 %, 1.0/s, 10 of 60 s"));
    chunk.keep(&mut state, Duration::from_secs(10));
    assert_eq!((state.done, state.seconds, state.chunks), (20, 15, 2));
    assert!(chunk.hear("soak: seeds 25 of 100 seeds"));
    chunk.keep(&mut state, Duration::from_secs(60));
    assert_eq!((state.done, state.seconds, state.chunks), (25, 65, 2));
    assert_eq!(chunk.failure(true, "exit status: 0"), None);
    let date = &state.date;
    let line = format!("{date}  10 to 25 in 60 s at 1234567");
    assert_eq!(state.log, ["the first".to_owned(), line]);
}

#[test]
fn a_failure_keeps_what_passed_before_it() {
    let mut state = before();
    let mut chunk = begin(&state);
    chunk.hear("soak: seeds failed at unit 17");
    chunk.hear("soak: seeds 17 of 100 seeds");
    chunk.keep(&mut state, Duration::from_secs(1));
    assert_eq!((state.done, state.failed.as_deref()), (17, Some("unit 17")));
    assert!(state.log[1].ends_with("10 to 17 in 1 s at 1234567, failed at unit 17"));
    assert_eq!(chunk.failure(false, "exit status: 101").as_deref(), Some("unit 17"));
}

#[test]
fn a_chunk_that_is_killed_keeps_what_it_said() {
    let mut state = before();
    let mut chunk = begin(&state);
    chunk.hear("soak: seeds 20 of 100 seeds, 20.00 %, 1.0/s, 10 of 60 s");
    chunk.keep(&mut state, Duration::from_secs(10));
    assert_eq!(state.done, 20);
    let failure = chunk.failure(false, "signal: 9 (SIGKILL)").unwrap();
    assert_eq!(failure, "no unit: signal: 9 (SIGKILL)");
}

#[test]
fn a_chunk_that_says_nothing_has_failed() {
    let failure = begin(&before()).failure(true, "exit status: 0").unwrap();
    assert_eq!(failure, "nothing was run: no line `soak: seeds ..`");
}

#[test]
fn another_goal_than_the_tables_is_a_failure() {
    for line in ["soak: seeds 20 of 1000 seeds", "soak: seeds 20 of 100 cases"] {
        let mut chunk = begin(&before());
        chunk.hear(line);
        let failure = chunk.failure(true, "exit status: 0").unwrap();
        assert!(failure.ends_with("the table 100 seeds"), "{failure}");
    }
}
