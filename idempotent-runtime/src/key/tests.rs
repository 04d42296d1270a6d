use std::borrow::Cow;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use uuid::Uuid;

use super::{IssuedAt, KEY_BYTES_MAX, KeyBuilder, KeyPart, KeyWriter, OperationKey, separate};
use crate::error::{Error, ErrorKind};

fn render<T: KeyPart + ?Sized>(value: &T) -> String {
    let mut key = KeyBuilder::escaped();
    key.part("value", value);
    key.finish().expect("a key")
}

fn refused<T: KeyPart + ?Sized>(value: &T) -> Error {
    let mut key = KeyBuilder::escaped();
    key.part("value", value);
    key.finish().expect_err("no key")
}

fn key(parts: &[&str]) -> String {
    let mut key = KeyBuilder::escaped();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            key.literal(":");
        }
        key.part("part", *part);
    }
    key.finish().expect("a key")
}

/// What `#[derive(KeyPart)]` writes.
struct Pair<'a>(&'a str, &'a str);

impl KeyPart for Pair<'_> {
    fn render(&self, key: &mut KeyWriter<'_>) {
        self.0.render(key);
        separate(key);
        self.1.render(key);
    }
}

#[test]
fn values_have_one_spelling() {
    assert_eq!(render(&7u8), "7");
    assert_eq!(render(&i128::MIN), i128::MIN.to_string());
    assert_eq!(render(&-3i64), "-3");
    assert_eq!(render(&NonZero::new(9u32).expect("not zero")), "9");
    assert_eq!(render(&true), "true");
    assert_eq!(render(&'ß'), "%C3%9F");
    assert_eq!(render("order_1.a-b"), "order_1.a-b");
    let uuid = Uuid::from_u128(0xA1B2_C3D4_0000_4000_8000_0000_0000_00FF);
    assert_eq!(render(&uuid), "a1b2c3d4-0000-4000-8000-0000000000ff");
    assert_eq!(render(&OperationKey::from(uuid)), render(&uuid));
}

#[test]
fn a_pointer_renders_what_it_points_to() {
    assert_eq!(render(&&&"a"), "a");
    assert_eq!(render(&Box::<str>::from("a")), "a");
    assert_eq!(render(&Arc::<str>::from("a")), "a");
    assert_eq!(render(&Rc::new(7)), "7");
    assert_eq!(render(&Cow::Borrowed("a")), "a");
}

#[test]
fn what_is_special_is_escaped() {
    assert_eq!(render("a:b c/d%é~"), "a%3Ab%20c%2Fd%25%C3%A9%7E");
    assert_eq!(render("{}"), "%7B%7D");
    assert_eq!(render("\u{1F4B8}"), "%F0%9F%92%B8");
}

#[test]
fn no_value_forges_the_separator() {
    assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
    assert_ne!(key(&["a:b", "c"]), key(&["a", "b:c"]));
    assert_ne!(key(&["a%3Ab", "c"]), key(&["a:b", "c"]));
}

#[test]
fn spellings_that_a_database_may_fold_stay_apart() {
    for (one, two) in [("Request-A", "request-a"), ("k1", "k1 "), ("caf\u{e9}", "cafe\u{301}")] {
        assert_ne!(render(one), render(two));
        assert!(render(one).is_ascii() && render(two).is_ascii());
    }
}

#[test]
fn an_empty_value_is_refused_and_named() {
    for error in [refused(""), refused(&Pair("", "a")), refused(&Pair("a", ""))] {
        assert!(matches!(error, Error::EmptyKeyPart { placeholder } if placeholder == "value"));
    }
}

#[test]
fn a_nul_is_refused_and_named() {
    for error in [refused("a\0"), refused(&'\0'), refused(&Pair("a", "\0"))] {
        assert!(matches!(error, Error::KeyHasNul { placeholder } if placeholder == "value"));
    }
}

#[test]
fn a_key_ends_at_512_bytes() {
    let most = "x".repeat(KEY_BYTES_MAX);
    assert_eq!(render(&most), most);
    let error = refused(&"x".repeat(KEY_BYTES_MAX + 1));
    assert!(matches!(error, Error::KeyTooLong { bytes: 513, bytes_max: 512 }));
    // Three bytes each when escaped.
    assert_eq!(refused(&" ".repeat(171)).kind(), ErrorKind::KeyTooLong);
    // The literal text counts.
    let mut key = KeyBuilder::escaped();
    key.literal("a:");
    key.part("value", &"x".repeat(KEY_BYTES_MAX - 1));
    assert!(matches!(key.finish(), Err(Error::KeyTooLong { bytes: 513, .. })));
}

#[test]
fn a_huge_value_is_counted_and_not_kept() {
    let mut key = KeyBuilder::escaped();
    key.part("value", &"x".repeat(1 << 20));
    key.part("value", "more");
    assert!(key.text.len() <= KEY_BYTES_MAX);
    assert!(matches!(key.finish(), Err(Error::KeyTooLong { bytes: 1_048_580, .. })));
}

#[test]
fn the_first_refusal_is_told() {
    let mut key = KeyBuilder::escaped();
    key.part("order", "");
    key.part("note", "\0");
    assert!(
        matches!(key.finish(), Err(Error::EmptyKeyPart { placeholder }) if placeholder == "order")
    );
}

#[test]
fn a_tenant_is_stored_as_it_is() {
    let tenant = |value: &dyn KeyPart| {
        let mut tenant = KeyBuilder::plain();
        tenant.part("tenant", value);
        tenant.finish()
    };
    assert_eq!(tenant(&"Müller & Söhne: Köln").expect("a tenant"), "Müller & Söhne: Köln");
    assert!(matches!(tenant(&""), Err(Error::EmptyKeyPart { .. })));
    assert!(matches!(tenant(&"\0"), Err(Error::KeyHasNul { .. })));
    // Of several fields, none forges the separator.
    assert_eq!(tenant(&Pair("a:b", "c")).expect("a tenant"), "a%3Ab:c");
    assert_eq!(tenant(&Pair("a", "b:c")).expect("a tenant"), "a:b%3Ac");
    assert_eq!(KeyBuilder::plain().finish().expect("no tenant"), "");
}

#[test]
fn an_operation_key_survives_its_text() {
    let key = OperationKey::new();
    assert_eq!(key.to_string().parse::<OperationKey>().ok(), Some(key));
    assert_ne!(OperationKey::new(), key);
    assert!("order-7".parse::<OperationKey>().is_err());
    let json = serde_json::to_string(&key).expect("encodes");
    assert_eq!(json, format!("\"{key}\""));
    assert_eq!(serde_json::from_str::<OperationKey>(&json).expect("decodes"), key);
}

#[test]
fn instants_count_microseconds() {
    use std::time::{Duration, UNIX_EPOCH};
    assert_eq!((UNIX_EPOCH + Duration::from_millis(1)).micros(), 1000);
    assert_eq!((UNIX_EPOCH - Duration::from_secs(1)).micros(), -1_000_000);
    assert_eq!(UNIX_EPOCH.micros(), 0);
}

#[cfg(feature = "chrono")]
#[test]
fn chrono_has_dates_and_instants() {
    let date = chrono::NaiveDate::from_ymd_opt(2026, 11, 29).expect("a date");
    assert_eq!(render(&date), "2026-11-29");
    let at = date.and_hms_opt(0, 0, 1).expect("a time").and_utc();
    assert_eq!(at.micros(), at.timestamp_micros());
    let before = chrono::DateTime::from_timestamp_micros(-1).expect("an instant");
    assert_eq!(before.micros(), -1);
}

#[cfg(feature = "time")]
#[test]
fn time_has_dates_and_instants() {
    let date = time::Date::from_ordinal_date(2026, 333).expect("a date");
    assert_eq!(render(&date), "2026-11-29");
    let at = time::OffsetDateTime::from_unix_timestamp(2).expect("an instant");
    assert_eq!(at.micros(), 2_000_000);
    assert_eq!(time::UtcDateTime::from_unix_timestamp(2).expect("an instant").micros(), 2_000_000);
}

#[cfg(feature = "jiff")]
#[test]
fn jiff_has_dates_and_instants() {
    assert_eq!(render(&jiff::civil::date(2026, 11, 29)), "2026-11-29");
    let at = jiff::Timestamp::from_microsecond(-5).expect("an instant");
    assert_eq!(at.micros(), -5);
    assert_eq!(at.to_zoned_datetime(jiff::tz::TimeZone::UTC).micros(), -5);
}

/// Strings that try to look like separators and escapes.
fn value() -> impl Strategy<Value = String> {
    let hostile = "[ab%:3A/ \\-_.~{}éß\u{301}]{1,6}";
    prop_oneof![hostile, "[^\u{0}]{1,6}"]
}

/// Literals as the macro lets them stand between two placeholders.
fn separator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![":", "/", "a:b", ".:", ":-", "%:", "::", "é", " to "])
}

fn render_all(values: &[String], separators: &[&'static str]) -> String {
    let mut key = KeyBuilder::escaped();
    key.literal("charge:");
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            key.literal(separators[i - 1]);
        }
        key.part("value", value);
    }
    key.finish().expect("a key")
}

proptest! {
    #[test]
    fn rendering_is_injective(
        separators in prop::collection::vec(separator(), 3),
        one in prop::collection::vec(value(), 4),
        two in prop::collection::vec(value(), 4),
    ) {
        let same = render_all(&one, &separators) == render_all(&two, &separators);
        prop_assert_eq!(same, one == two);
    }

    #[test]
    fn a_character_that_moves_over_a_separator_moves_the_key(
        separator in separator(),
        whole in "[ab%:3A/ .-]{2,8}",
        at in 1usize..8,
    ) {
        let cuts: Vec<_> = (1..whole.len()).collect();
        let (one, two) = (cuts[0], cuts[at % cuts.len()]);
        let cut = |at: usize| vec![whole[..at].to_owned(), whole[at..].to_owned()];
        let same = render_all(&cut(one), &[separator]) == render_all(&cut(two), &[separator]);
        prop_assert_eq!(same, one == two);
    }

    #[test]
    fn a_rendered_value_has_the_characters_of_values_only(value in value()) {
        let text = render(&value);
        prop_assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.%".contains(c)));
    }

    #[test]
    fn fields_of_a_struct_do_not_run_into_each_other(
        a in value(), b in value(), c in value(), d in value(),
    ) {
        let same = render(&Pair(&a, &b)) == render(&Pair(&c, &d));
        prop_assert_eq!(same, (a, b) == (c, d));
    }
}
