//! Each rule of the comparison on entries written by hand.

use super::{Comparison, Entry, compare};

fn entries(pairs: &[(u32, u8)]) -> Vec<Entry> {
    pairs.iter().map(|&(path, byte)| Entry { path, digest: [byte; 7] }).collect()
}

fn compared(stored: &[(u32, u8)], current: &[(u32, u8)]) -> Comparison {
    compare(&entries(stored), &entries(current))
}

#[test]
fn an_entry_with_another_digest_differs() {
    assert_eq!(compared(&[(1, 1), (2, 2)], &[(1, 1), (2, 3)]), Comparison::Differ(vec![1]));
}

#[test]
fn an_added_path_is_ignored() {
    assert_eq!(compared(&[(2, 2)], &[(1, 1), (2, 2), (3, 3)]), Comparison::Same);
}

#[test]
fn a_removed_path_is_ignored() {
    assert_eq!(compared(&[(1, 1), (2, 2), (3, 3)], &[(2, 2)]), Comparison::Same);
}

#[test]
fn an_added_path_hides_no_difference() {
    assert_eq!(compared(&[(2, 2)], &[(1, 1), (2, 9)]), Comparison::Differ(vec![1]));
}

#[test]
fn a_path_removed_and_another_added_differ() {
    assert_eq!(compared(&[(1, 1), (2, 2)], &[(1, 1), (3, 2)]), Comparison::Differ(vec![1]));
}

#[test]
fn an_inequality_that_no_entry_accounts_for_differs() {
    assert_eq!(compared(&[(1, 1)], &[(1, 1)]), Comparison::Differ(vec![]));
    assert_eq!(compared(&[], &[]), Comparison::Differ(vec![]));
}

#[test]
fn paths_of_one_hash_are_compared_together() {
    assert_eq!(compared(&[(1, 1), (1, 2), (5, 5)], &[(1, 1), (1, 2)]), Comparison::Same);
    assert_eq!(compared(&[(1, 1), (1, 2)], &[(1, 1), (1, 3)]), Comparison::Differ(vec![0, 1]));
    assert_eq!(compared(&[(1, 1), (1, 2)], &[(1, 1)]), Comparison::Differ(vec![0]));
}
