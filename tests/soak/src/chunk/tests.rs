//! What a chunk gives out, and what it says.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use super::{Chunk, percent, rate};
use crate::settings::Settings;

fn chunk(from: u64, goal: u64, seconds: u64) -> Chunk {
    Chunk::with("part", goal, "units", &Settings { from, time: Duration::from_secs(seconds) })
}

#[test]
fn it_goes_on_to_the_goal() {
    let chunk = chunk(7, 10, 60);
    let mut done = Vec::new();
    chunk.each(|number| done.push(number));
    assert_eq!(done, [7, 8, 9]);
    assert_eq!(chunk.shared.line(), "soak: part 10 of 10 units");
}

#[test]
fn without_time_it_does_one_unit() {
    let chunk = chunk(7, 10, 0);
    let mut done = Vec::new();
    chunk.each(|number| done.push(number));
    assert_eq!((done.as_slice(), chunk.done()), ([7].as_slice(), 8));
}

#[test]
fn threads_share_it() {
    let chunk = chunk(0, 1_000, 60);
    let done = Mutex::new(Vec::new());
    chunk.each_on(NonZeroUsize::new(4).unwrap(), |number| done.lock().unwrap().push(number));
    let mut done = done.into_inner().unwrap();
    done.sort_unstable();
    assert_eq!(done, (0..1_000).collect::<Vec<_>>());
    assert_eq!(chunk.done(), 1_000);
}

#[test]
fn a_unit_that_panics_keeps_what_passed_before_it() {
    let chunk = chunk(2, 10, 60);
    let work = || chunk.each(|number| assert_ne!(number, 5));
    assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    assert_eq!(chunk.shared.line(), "soak: part 5 of 10 units");
    assert_eq!((&chunk).next().map(|unit| unit.number()), None);
}

#[test]
fn a_unit_that_fails_says_why() {
    let chunk = chunk(0, 10, 60);
    let work = || (&chunk).next().map(|unit| -> () { unit.fail("two rows") });
    let why = *catch_unwind(AssertUnwindSafe(work)).unwrap_err().downcast::<String>().unwrap();
    assert_eq!(why, "unit 0 of part: two rows");
    assert_eq!(chunk.done(), 0);
}

#[test]
fn shares_and_rates_are_short() {
    assert_eq!(percent(1_234, 10_000), "12.34 %");
    assert_eq!(percent(0, 0), "0.00 %");
    assert_eq!(rate(45, Duration::from_secs(10)), "4.5");
}
