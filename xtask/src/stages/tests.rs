//! The order of stages, and what is said when one fails.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::{Stage, clock, run, table};
use crate::failure::Failure;

#[test]
fn stages_run_in_order_and_stop_at_the_first_failure() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let stage = |name: &'static str, fails: bool| {
        let log = Rc::clone(&log);
        Stage::new(name, move || {
            log.borrow_mut().push(name);
            if fails { Err(Failure::new("exit status: 1 from:\n    cargo x")) } else { Ok(()) }
        })
    };
    run(vec![stage("a", false), stage("b", false)]).unwrap();
    assert_eq!(log.take(), ["a", "b"]);
    let failed = run(vec![stage("a", false), stage("b", true), stage("c", false)]).unwrap_err();
    assert_eq!(log.take(), ["a", "b"]);
    let failed = failed.to_string();
    assert!(failed.contains("in [2/3] b: exit status: 1 from:\n    cargo x"), "{failed}");
}

#[test]
fn the_table_lists_what_each_stage_took() {
    let done = [
        ("one".to_owned(), Duration::from_secs(5)),
        ("another".to_owned(), Duration::from_secs(65)),
    ];
    let shown = table(&done, Duration::from_secs(70));
    assert_eq!(shown, "\none          0:05\nanother      1:05\ntotal        1:10");
}

#[test]
fn time_is_shown_in_minutes() {
    assert_eq!(clock(Duration::from_secs(3_599)), "59:59");
}
