//! Durations: nothing panics, and what is read is what was written.

use idempotent_fuzz::duration::{parse, show};
use proptest::strategy::{Strategy as _, Union};

use crate::{bytes, corpus, in_tests, soak, thousand, words};

/// What durations are made of.
const WORDS: [&str; 16] = [
    "0",
    "1",
    "9",
    "60",
    "18446744073709551615",
    "h",
    "m",
    "s",
    "ms",
    "d",
    ".",
    " ",
    "x",
    "µ",
    "1h30m",
    "٣",
];

fn run(seed: u64) {
    corpus("durations").iter().for_each(|kept| check(&String::from_utf8_lossy(kept)));
    let any = bytes("durations").prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    thousand(seed, &Union::new([any.boxed(), words(&WORDS, 8)]), |text| check(&text));
}

fn check(text: &str) {
    match parse(text) {
        Ok(ms) => {
            assert_eq!(Some(ms), sum(text), "`{text}`");
            assert_eq!(parse(&show(ms)).ok(), Some(ms), "`{text}` is shown as `{}`", show(ms));
        }
        Err(why) => assert!(why.contains('`') || text.is_empty(), "`{text}`: {why}"),
    }
}

/// The sum of all numbers with their units, read from behind.
fn sum(text: &str) -> Option<u64> {
    let mut total: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &rest[number.len()..] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        rest = number.trim_end_matches(|c: char| c.is_ascii_digit());
        total += number[rest.len()..].parse::<u128>().ok()? * unit;
    }
    u64::try_from(total).ok()
}

#[test]
fn are_read_as_they_are_written() {
    in_tests("durations", run);
}

#[test]
#[ignore = "soak: a million inputs"]
fn a_million() {
    soak("fuzz-durations", run);
}
