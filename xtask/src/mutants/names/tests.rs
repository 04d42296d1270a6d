//! From the list of cargo-mutants to names.

use super::parse;

#[test]
fn names_have_no_lines_and_protocol_comes_first() {
    let mutants = parse(
        "r/src/execute.rs:40:5: replace call -> Call<R> with Call::new()\n\
         r/src/key.rs:1:2: replace > with >= in push\n\
         r/src/protocol/claim.rs:67:27: replace > with >= in decide\n\
         r/src/protocol/claim.rs:70:27: replace > with >= in decide\n",
    );
    let names: Vec<(usize, &str)> =
        mutants.iter().map(|mutant| (mutant.place, mutant.name.as_str())).collect();
    let expected = [
        (2, "r/src/protocol/claim.rs: replace > with >= in decide"),
        (3, "r/src/protocol/claim.rs: replace > with >= in decide #2"),
        (1, "r/src/key.rs: replace > with >= in push"),
        (0, "r/src/execute.rs: replace call -> Call<R> with Call::new()"),
    ];
    assert_eq!(names, expected);
}
