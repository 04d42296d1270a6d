//! How the tables look.

use super::{Row, done, list};
use crate::soak::parts::tests::SEEDS;
use crate::soak::state::State;

fn row() -> Row {
    let state = State {
        done: 25,
        goal: Some(100),
        units: "seeds".into(),
        seconds: 65,
        chunks: 2,
        ..State::default()
    };
    Row { part: &SEEDS, state, before: 10, failure: None }
}

#[test]
fn the_list_says_what_is_run() {
    let command = SEEDS.shown();
    let expected = format!(
        "part   done  goal       share   seconds  command\n\
         seeds  25    100 seeds  25.0 %  65       {command}"
    );
    assert_eq!(list(&[row()]), expected);
}

#[test]
fn the_end_says_what_was_done_and_what_failed() {
    let failed = Row { failure: Some("unit 25".into()), ..row() };
    let mut complete = row();
    complete.state.done = 100;
    let expected = "part   now  done  goal       share    seconds  chunks\n\
                    seeds  15   25    100 seeds  25.0 %   65       2       FAILED: unit 25\n\
                    seeds  90   100   100 seeds  100.0 %  65       2       complete";
    assert_eq!(done(&[failed, complete]), expected);
}
