//! The protocol, gone through: what holds, what a wrong protocol breaks, and what nobody can hold.
#![expect(clippy::print_stdout, reason = "what was gone through is shown")]

use idempotent_model::{Checked, Expected, FAILOVERS, LONG, Mutant, NAPS, Promise, USUAL, check};
use idempotent_soak::Chunk;

/// Goes through all of a world, which breaks what is expected and nothing else.
fn goes_through(expected: &Expected, threads: usize) -> Checked {
    let checked = check(expected.world, threads, None);
    println!("{checked}");
    assert_eq!(checked.broken, expected.broken(), "{}:{}", checked.name, checked.paths);
    assert_eq!(checked.unreached, Vec::<&str>::new(), "{}", checked.name);
    checked
}

fn go_through(worlds: &[Expected]) {
    let checked: Vec<Checked> = worlds.iter().map(|world| goes_through(world, 1)).collect();
    let states: usize = checked.iter().map(|checked| checked.states).sum();
    println!("{} worlds, {states} states", checked.len());
}

#[test]
fn every_promise_holds_in_every_state_of_two_processes() {
    go_through(USUAL);
}

#[test]
fn a_lossy_failover_breaks_at_most_once_and_what_was_acknowledged() {
    go_through(FAILOVERS);
    let at_most_once = FAILOVERS.iter().filter(|it| it.broken.contains(&Promise::AtMostOnce));
    assert_eq!(at_most_once.count(), 1);
}

#[test]
fn a_process_that_sleeps_for_too_long_before_its_effect_breaks_what_the_documentation_says() {
    go_through(NAPS);
}

#[test]
fn every_mutant_is_caught_by_the_promise_that_it_breaks() {
    for mutant in Mutant::ALL {
        let checked = check(mutant.world(), 1, Some(mutant.breaks()));
        println!("{mutant:?} breaks \"{}\": {checked}", mutant.breaks().name());
        assert!(checked.broken.contains(&mutant.breaks()), "{mutant:?}: {:?}", checked.broken);
    }
    println!("{} mutants", Mutant::ALL.len());
}

#[test]
#[ignore = "soak: three processes, and two to which everything happens"]
fn every_promise_holds_in_every_state_of_three_processes() {
    let worlds = u64::try_from(LONG.len()).expect("a few worlds");
    for unit in &Chunk::of("model", worlds, "worlds") {
        let place = usize::try_from(unit.number()).expect("a place in the list");
        goes_through(&LONG[place], 2);
    }
}
