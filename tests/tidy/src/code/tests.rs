//! What is code and what is not.

use super::{code, paths};

#[test]
fn comments_are_no_code() {
    assert_eq!(code("a // sqlx\nb"), "a        \nb");
    assert_eq!(code("a /* x /* y */\n z */ b"), "a             \n      b");
    assert_eq!(code("a / b"), "a / b");
}

#[test]
fn the_insides_of_literals_are_no_code() {
    assert_eq!(code(r#"f("sqlx\" //", b)"#), r#"f("         ", b)"#);
    assert_eq!(code("r#\"a \" b\"# c"), "r#\"      # c".to_owned());
    assert_eq!(code("'\"' 'a' '\\'' x"), "' ' ' ' '  ' x");
}

#[test]
fn lifetimes_are_code() {
    assert_eq!(code("fn f<'a>(s: &'a str)"), "fn f<'a>(s: &'a str)");
}

#[test]
fn paths_are_read_by_segment() {
    assert_eq!(paths("use crate::store::Store;"), [vec!["use"], vec!["crate", "store", "Store"]]);
    assert_eq!(paths("sqlx::query(a)"), [vec!["sqlx", "query"], vec!["a"]]);
    assert_eq!(paths("a: b"), [vec!["a"], vec!["b"]]);
}
