//! Where the mock is put, and where it is looked for.

use super::{STRIPE_MOCK, STRIPE_MOCK_FOLDER, STRIPE_MOCK_VERSION};

#[test]
fn the_example_looks_where_the_mock_is_put() {
    assert_eq!(STRIPE_MOCK_FOLDER, format!("tools/{STRIPE_MOCK}-{STRIPE_MOCK_VERSION}"));
    let example = include_str!("../../../../examples/stripe/src/mock.rs");
    assert!(example.contains(&format!("\"{STRIPE_MOCK_FOLDER}\"")));
}
