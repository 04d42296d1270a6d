//! Lines that parts print.

use super::Line;

#[test]
fn the_last_line_is_read() {
    let line = Line::parse("model", "soak: model 3 of 10 runs of three workers");
    assert_eq!(line, Some(Line::At { done: 3, goal: 10, units: "runs of three workers" }));
}

#[test]
fn progress_is_read_although_the_harness_began_the_line() {
    let line = "test a_million ... soak: simulation 12 of 1000 seeds, 1.20 %, 3.0/s, 4 of 60 s";
    let at = Line::At { done: 12, goal: 1_000, units: "seeds" };
    assert_eq!(Line::parse("simulation", line), Some(at));
}

#[test]
fn a_failure_names_its_unit() {
    let line = Line::parse("kills-sqlite", "soak: kills-sqlite failed at unit 7");
    assert_eq!(line, Some(Line::Failed { at: "unit 7" }));
}

#[test]
fn what_is_about_another_part_is_not_read() {
    assert_eq!(Line::parse("kills", "soak: kills-sqlite 3 of 10 kills"), None);
    assert_eq!(Line::parse("kills", "kills 3 of 10 kills"), None);
    assert_eq!(Line::parse("kills", "soak: kills x of 10 kills"), None);
}
