//! Each direction, kept and broken.

use super::{drivers_stay_in_stores, expansion_is_private, protocol_is_pure, stores_are_apart};
use crate::{File, Violation};

/// The lines at which a rule finds something.
fn broken(rule: impl Fn(&File) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
    rule(&File::new(path, text)).into_iter().map(|it| it.line).collect()
}

fn pure(file: &File) -> Vec<Violation> {
    protocol_is_pure(file, &["sha2".to_owned(), "serde".to_owned()])
}

#[test]
fn protocol_may_use_std_serde_and_itself() {
    let text = "mod claim;\nuse std::{fmt,\n  mem};\nuse serde::Serialize;\nuse super::Record;\n\
                pub use claim::decide;\npub(crate) use crate::protocol::Token;\nu64::from(fmt::x(1));\n// sha2::x\n";
    assert_eq!(broken(pure, "idempotent-runtime/src/protocol.rs", text), [0; 0]);
}

#[test]
fn protocol_may_not_use_the_store_or_a_crate() {
    let path = "idempotent-runtime/src/protocol/claim.rs";
    assert_eq!(broken(pure, path, "\nuse crate::store::Store;"), [2]);
    assert_eq!(broken(pure, path, "let hash = sha2::digest();"), [1]);
    assert_eq!(broken(pure, path, "pub use tokio::time;"), [1]);
    assert_eq!(broken(pure, path, "crate::clock::now()"), [1]);
    assert_eq!(broken(pure, "idempotent-runtime/src/runtime.rs", "use sha2::Sha256;"), [0; 0]);
}

#[test]
fn a_store_may_use_the_seams_and_what_stores_share() {
    let text = "use crate::protocol::Token;\nuse crate::store::{Store, sql::names};\nuse crate::store::sql::names;\n\
                use crate::store::sqlite::queries;\nuse crate::clock::Clock;\nuse crate::Error;\nuse super::row;";
    assert_eq!(
        broken(stores_are_apart, "idempotent-runtime/src/store/sqlite/runner.rs", text),
        [0; 0]
    );
    assert_eq!(broken(stores_are_apart, "idempotent-runtime/src/store/sqlite.rs", text), [0; 0]);
}

#[test]
fn a_store_may_not_use_another_store_or_the_runtime() {
    let path = "idempotent-runtime/src/store/postgres/runner.rs";
    assert_eq!(broken(stores_are_apart, path, "\nuse crate::store::sqlite::queries;"), [2]);
    assert_eq!(broken(stores_are_apart, path, "crate::store::memory::MemoryStore::new()"), [1]);
    assert_eq!(broken(stores_are_apart, path, "use crate::runtime::Runtime;"), [1]);
}

#[test]
fn only_stores_name_a_driver() {
    let text = "//! sqlx in a comment\nlet why = \"sqlx\";\nsqlx::query(\"\")";
    assert_eq!(broken(drivers_stay_in_stores, "idempotent-runtime/src/runtime.rs", text), [3]);
    assert_eq!(
        broken(drivers_stay_in_stores, "idempotent-runtime/src/runtime.rs", "use redis::Client;"),
        [1]
    );
    assert_eq!(
        broken(drivers_stay_in_stores, "idempotent-runtime/src/store/sqlite.rs", text),
        [0; 0]
    );
    assert_eq!(broken(drivers_stay_in_stores, "tests/conformance/src/lib.rs", text), [0; 0]);
}

#[test]
fn generated_code_names_only_what_is_private() {
    let path = "idempotent-macros/src/generate.rs";
    let text = "quote!(::idempotent_runtime::__private::call)\nquote!(::idempotent_runtime::Error)";
    assert_eq!(broken(expansion_is_private, path, text), [2]);
    assert_eq!(broken(expansion_is_private, path, "/// [`idempotent_runtime::Error`]"), [0; 0]);
}
