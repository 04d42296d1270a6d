//! Key templates: nothing panics, parts are what was written, and whatever is accepted keeps its values apart.

use idempotent_fuzz::template::{Part, parse};
use proptest::strategy::{Strategy as _, Union};

use crate::{bytes, corpus, in_tests, soak, thousand, words};

/// What templates are made of.
const WORDS: [&str; 24] = [
    "{",
    "}",
    "{{",
    "}}",
    "{a}",
    "{order.id}",
    "{self.x}",
    "{p.0}",
    "{id()}",
    "{a.b()}",
    ":",
    "/",
    "-",
    "%",
    "charge",
    ".",
    " ",
    "{r#type}",
    "{type}",
    "\0",
    "é",
    "{é}",
    "{a:?}",
    "{now}",
];

fn run(seed: u64) {
    corpus("templates").iter().for_each(|kept| check(&String::from_utf8_lossy(kept)));
    let any = bytes("templates").prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    thousand(seed, &Union::new([any.boxed(), words(&WORDS, 8)]), |source| check(&source));
}

fn check(source: &str) {
    match parse(source) {
        Ok(parts) => {
            assert_eq!(parse(&written(&parts)).as_ref(), Ok(&parts), "`{source}`");
            assert!(are_apart(&parts), "`{source}`: {parts:?}");
        }
        Err(reasons) => {
            assert!(!reasons.is_empty() && reasons.iter().all(|reason| !reason.is_empty()));
        }
    }
}

/// The template that has these parts.
fn written(parts: &[Part]) -> String {
    let one = |part: &Part| match part {
        Part::Text(text) => text.replace('{', "{{").replace('}', "}}"),
        Part::Placeholder(text) => format!("{{{text}}}"),
    };
    parts.iter().map(one).collect()
}

/// Between two placeholders stands what no value can contain.
fn are_apart(parts: &[Part]) -> bool {
    let of_a_value = |c: char| c.is_ascii_alphanumeric() || "-_.%".contains(c);
    let places: Vec<usize> =
        (0..parts.len()).filter(|place| matches!(parts[*place], Part::Placeholder(_))).collect();
    places.windows(2).all(|pair| {
        parts[pair[0] + 1..pair[1]].iter().any(|part| match part {
            Part::Text(text) => !text.chars().all(of_a_value),
            Part::Placeholder(_) => false,
        })
    })
}

#[test]
fn keep_their_values_apart() {
    in_tests("templates", run);
}

#[test]
#[ignore = "soak: a million inputs"]
fn a_million() {
    soak("fuzz-templates", run);
}
