use proc_macro2::Span;
use syn::LitStr;

use super::{Part, Root, Step, Template};
use crate::errors::Errors;

fn parse(source: &str) -> Result<Template, String> {
    let mut errors = Errors::new();
    let literal = LitStr::new(source, Span::call_site());
    let template = Template::parse(literal, None, &mut errors);
    errors.finish().map(|()| template).map_err(|error| {
        let messages: Vec<_> = error.into_iter().map(|it| it.to_string()).collect();
        messages.join("\n")
    })
}

fn texts(source: &str) -> Vec<String> {
    let parts = parse(source).unwrap_or_else(|error| panic!("{source}: {error}")).parts;
    let text = |part| match part {
        Part::Text(text) => text,
        Part::Placeholder(placeholder) => format!("<{}>", placeholder.text),
    };
    parts.into_iter().map(text).collect()
}

fn refused(source: &str) -> String {
    match parse(source) {
        Err(message) => message,
        Ok(_) => panic!("`{source}` was accepted"),
    }
}

#[test]
fn texts_and_placeholders_take_turns() {
    assert_eq!(texts("charge:{a}/{b.c}!"), ["charge:", "<a>", "/", "<b.c>", "!"]);
    assert_eq!(texts("{a}"), ["<a>"]);
    assert_eq!(texts("{{x}}{a}}}"), ["{x}", "<a>", "}"]);
    assert_eq!(texts("nightly"), ["nightly"]);
    assert_eq!(texts("{ a }"), ["<a>"]);
}

#[test]
fn a_placeholder_is_a_path() {
    let template = parse("{order.lines().0.r#type}").expect("a template");
    let placeholder = template.placeholders().next().expect("one");
    assert_eq!(placeholder.root, Root::Name("order".to_owned()));
    let steps = [Step::Call("lines".to_owned()), Step::Index(0), Step::Field("r#type".to_owned())];
    assert_eq!(placeholder.steps, steps);
    let template = parse("{self.tenant}").expect("a template");
    assert_eq!(template.placeholders().next().expect("one").root, Root::SelfValue);
}

#[test]
fn what_is_no_path_is_refused() {
    for source in [
        "{",
        "}",
        "{a",
        "a}",
        "{}",
        "{0}",
        "{a:?}",
        "{a b}",
        "{a.}",
        "{.a}",
        "{a..b}",
        "{a[0]}",
        "{a()}",
        "{a.b(1)}",
        "{a.b(}",
        "{a.await}",
        "{a::B}",
        "{*a}",
        "{&a}",
        "{a?}",
        "{self}",
        "{_}",
        "{a.type}",
        "{type}",
        "{r#self.a}",
        "{a.self}",
        "{super}",
        "{1a}",
        "{a.99999999999}",
        "{a.b()c}",
    ] {
        assert_eq!(refused(source).lines().count(), 1, "{source}: {}", refused(source));
    }
}

#[test]
fn a_keyword_is_advised_to_be_raw_if_it_can_be() {
    assert!(refused("{type}").contains("write `r#type`"));
    for source in ["{super}", "{crate}", "{a.self}", "{Self.a}"] {
        assert!(!refused(source).contains("r#"), "{}", refused(source));
    }
    // A keyword from the edition of 2024 on only.
    assert_eq!(texts("{gen}{{{a.gen}"), ["<gen>", "{", "<a.gen>"]);
}

#[test]
fn values_are_kept_apart() {
    for separator in [":", "/", "#", " ", "a:b", ".:", "é", "{{"] {
        assert!(parse(&format!("{{a}}{separator}{{b}}")).is_ok(), "{separator}");
    }
    for separator in ["", "-", "_", ".", "x", "7", "%", "%3A", "a.b"] {
        assert!(parse(&format!("{{a}}{separator}{{b}}")).is_err(), "{separator}");
    }
}

#[test]
fn names_of_what_changes_are_refused() {
    for name in
        ["day_bucket", "bucket", "now", "job.attempt", "span_id", "clock.now()", "t.nonce.0"]
    {
        assert!(refused(&format!("{{{name}}}")).contains("write an id"), "{name}");
    }
    for name in [
        "business_date",
        "day",
        "date",
        "request_id",
        "attempt_id",
        "nowhere",
        "buckets",
        "random_id",
        "retry_of",
        "created_at",
        "amount",
    ] {
        assert!(parse(&format!("{{{name}}}")).is_ok(), "{name}");
    }
}

#[test]
fn a_singleton_is_what_names_nothing() {
    let parse = |source, singleton| {
        let mut errors = Errors::new();
        Template::parse(LitStr::new(source, Span::call_site()), singleton, &mut errors);
        errors.finish().is_ok()
    };
    assert!(parse("nightly", Some(true)) && !parse("nightly", Some(false)));
    assert!(parse("{a}", Some(false)) && !parse("{a}", Some(true)));
    assert!(parse("nightly", None) && parse("{a}", None));
    assert!(!parse("", None) && !parse("", Some(true)));
}
