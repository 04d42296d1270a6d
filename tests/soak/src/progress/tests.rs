//! What counts as done.

use super::Progress;

#[test]
fn units_are_given_out_from_where_the_last_chunk_ended() {
    let mut progress = Progress::new(3, 5);
    assert_eq!(progress.take(), Some(3));
    assert_eq!(progress.take(), Some(4));
    assert_eq!(progress.take(), None);
}

#[test]
fn a_goal_that_is_reached_gives_nothing() {
    assert_eq!(Progress::new(5, 5).take(), None);
    assert_eq!(Progress::new(9, 5).take(), None);
    assert_eq!(Progress::new(9, 5).done(), 5);
}

#[test]
fn a_gap_holds_back_what_is_done() {
    let mut progress = Progress::new(0, 10);
    for number in 0..3 {
        assert_eq!(progress.take(), Some(number));
    }
    progress.pass(2);
    progress.pass(1);
    assert_eq!(progress.done(), 0);
    assert!(!progress.is_idle());
    progress.pass(0);
    assert_eq!(progress.done(), 3);
    assert!(progress.is_idle());
}

#[test]
fn a_failed_unit_ends_the_chunk_and_is_the_next_one() {
    let mut progress = Progress::new(0, 10);
    for _ in 0..4 {
        progress.take();
    }
    progress.pass(0);
    progress.pass(1);
    progress.fail(3);
    progress.fail(2);
    assert_eq!(progress.take(), None);
    assert_eq!((progress.done(), progress.failed), (2, Some(2)));
}
