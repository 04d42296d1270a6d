use proc_macro2::TokenStream;

use super::replace_self;

fn replaced(body: &str) -> Option<String> {
    let tokens: TokenStream = body.parse().expect("tokens");
    replace_self(tokens).map(|body| body.to_string())
}

/// The body with `self` written out as the replacement is, for comparison.
fn expected(body: &str) -> Option<String> {
    let tokens: TokenStream = body.replace("SELF", "__idempotent_self").parse().expect("tokens");
    Some(tokens.to_string())
}

#[test]
fn values_are_replaced_at_any_depth() {
    assert_eq!(
        replaced("f(self.a, [&self.b], { self })"),
        expected("f(SELF.a, [&SELF.b], { SELF })")
    );
    assert_eq!(replaced("println!(\"{}\", self.a)"), expected("println!(\"{}\", SELF.a)"));
    assert_eq!(replaced("let f: fn(u8) = { self.f };"), expected("let f: fn(u8) = { SELF.f };"));
}

#[test]
fn paths_and_visibilities_are_not_values() {
    assert_eq!(replaced("self::f(); use a::{self, B}; pub(self) struct S;"), None);
    assert_eq!(replaced("self::f(self)"), expected("self::f(SELF)"));
}

#[test]
fn names_of_fields_are_not_values() {
    // As `#[tracing::instrument]` writes it.
    assert_eq!(
        replaced("span!(\"f\", self = debug(&self), a = self == b)"),
        expected("span!(\"f\", self = debug(&SELF), a = SELF == b)")
    );
}

#[test]
fn nested_items_have_a_self_of_their_own() {
    assert_eq!(replaced("impl T for S { fn f(&self) { self.g() } }"), None);
    assert_eq!(replaced("trait T { fn f(&self) { self.g() } }"), None);
    assert_eq!(
        replaced("impl S { fn f(self) {} } self.f()"),
        expected("impl S { fn f(self) {} } SELF.f()")
    );
    assert_eq!(
        replaced("fn f(x: impl T) -> u8 { 1 } self.f()"),
        expected("fn f(x: impl T) -> u8 { 1 } SELF.f()")
    );
}

#[test]
fn format_strings_name_self_too() {
    assert_eq!(replaced(r#"f!("{self} {self:?}")"#), expected(r#"f!("{SELF} {SELF:?}")"#));
    assert_eq!(replaced(r##"f!(r#"{self}"#)"##), expected(r##"f!(r#"{SELF}"#)"##));
    assert_eq!(replaced(r#"f!("{{self}} {selfish}")"#), None);
    assert_eq!(
        replaced(r#"f!("{{{self:?}}} {{{{self}}}}")"#),
        expected(r#"f!("{{{SELF:?}}} {{{{self}}}}")"#)
    );
}

#[test]
fn other_strings_are_data() {
    for data in [
        r#"f("{self}")"#,
        r#"vec!["{self}"]"#,
        r#"matches!(a, "{self}")"#,
        r#"json!({ "a": "{self}" })"#,
        r#"f!("{}", g("{self}"))"#,
        r#"if !(a == "{self}") {}"#,
    ] {
        assert_eq!(replaced(data), None, "{data}");
    }
}

#[test]
fn a_macro_in_a_macro_is_one_too() {
    assert_eq!(
        replaced(r#"f!(g("{self}"), { h!(x, "{self}") }, self)"#),
        expected(r#"f!(g("{self}"), { h!(x, "{SELF}") }, SELF)"#)
    );
}
