use super::*;
use crate::store::StoreErrorKind;
use crate::store::sql::schema::Stored;

#[test]
fn names_are_checked_quoted_and_qualified() {
    let names = Names::new("idempotent_", Some("order")).unwrap();
    assert_eq!(names.execution, "\"order\".\"idempotent_execution\"");
    assert_eq!(names.created_at_index, "\"idempotent_execution_created\"");
    let error = Names::new("idempotent_", Some("a\".b")).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Config);
    assert!(error.to_string().contains("schema \"a\\\".b\""), "{error}");
    assert!(Names::new(&"x".repeat(48), None).is_ok());
    assert!(Names::new(&"x".repeat(49), None).is_err());
}

#[test]
fn stretches_of_time_stay_in_the_range_of_a_column() {
    assert_eq!(ms(30_000), 30_000);
    assert_eq!(ms(u64::MAX), MS_MAX);
    const { assert!(i64::MAX / 1_000 / 100 > MS_MAX) };
    assert_eq!((ms_between(-5), ms_between(1), ms_between(1_001)), (1, 1, 2));
    assert_eq!(rows(u32::MAX).1, i64::from(u32::MAX) + 1);
}

#[test]
fn a_schema_is_judged_by_what_it_says_itself() {
    let judged = |version, readable_by| {
        judge(Some(Stored { version, readable_by }), "t").map_err(|error| error.to_string())
    };
    assert_eq!(judged(1, 1), Ok(()));
    assert_eq!(judged(7, 1), Ok(()));
    assert!(judged(0, 0).unwrap_err().contains("run the migrations"));
    assert!(judged(7, 2).unwrap_err().contains("deploy a newer one"));
    assert!(judge(None, "t").unwrap_err().to_string().contains("run the migrations"));
}

#[test]
fn options_keep_the_url_to_themselves() {
    let clock = std::sync::Arc::new(crate::SystemClock::new());
    let options = ConnectOptions::new("postgres://user:secret@host/db", clock);
    assert!(!format!("{options:?}").contains("secret"));
}
