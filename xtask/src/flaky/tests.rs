//! The suites and the parts that run them.

use super::{SUITES, run};
use crate::soak::PARTS;

#[test]
fn every_suite_is_a_part() {
    for suite in SUITES {
        let name = format!("flaky-{}", suite.name);
        let part = PARTS.iter().find(|part| part.name == name);
        let part = part.unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(part.postgres, part.shown().contains("postgres") || needs_postgres(suite.name));
        assert!(part.shown().ends_with(&format!("xtask flaky {}", suite.name)));
    }
}

/// Its tests are on all stores.
fn needs_postgres(suite: &str) -> bool {
    ["handlers", "relays", "backlog"].contains(&suite)
}

#[test]
fn an_unknown_suite_is_refused() {
    let refused = run(["nothing".to_owned()].into_iter()).unwrap_err().to_string();
    assert!(
        refused.starts_with("there is no suite `nothing`; expected one of engine, "),
        "{refused}"
    );
    let refused = run(std::iter::empty()).unwrap_err().to_string();
    assert!(refused.starts_with("which suite is missing"), "{refused}");
}
