use std::path::PathBuf;

use super::{Handler, check};

static CHARGE: Handler =
    Handler::new("charge", "shop", "charge:{order_id}").fingerprint(&["payment"]);
static RENAMED: Handler =
    Handler::new("bill", "shop", "charge:{order_id}").fingerprint(&["payment"]);
static REKEYED: Handler =
    Handler::new("charge", "shop", "charge:{customer}").fingerprint(&["payment"]);
static UNPRINTED: Handler = Handler::new("charge", "shop", "charge:{order_id}");
static SECOND: Handler = Handler::new("charge", "shop", "charge:{order_id}")
    .fingerprint(&["payment"])
    .version(2, (1, 2));

fn file(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("handlers-lock-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn after_charge(name: &str, handler: &'static Handler) -> Result<(), String> {
    let path = file(name);
    check(&path, [&CHARGE].into_iter(), true).unwrap();
    let checked = check(&path, [handler].into_iter(), false);
    std::fs::remove_file(path).unwrap();
    checked
}

#[test]
fn the_same_handlers_pass() {
    after_charge("same", &CHARGE).unwrap();
}

#[test]
fn a_rename_is_told_with_what_follows() {
    let report = after_charge("renamed", &RENAMED).unwrap_err();
    assert!(report.contains("`charge` is gone"), "{report}");
    assert!(report.contains("write `name = \"charge\"`"), "{report}");
    assert!(report.contains("`bill` is new"), "{report}");
    assert!(report.contains("IDEMPOTENT_LOCK=write"), "{report}");
}

#[test]
fn a_changed_key_is_told() {
    let report = after_charge("rekeyed", &REKEYED).unwrap_err();
    assert!(report.contains("key `charge:{order_id}` became `charge:{customer}`"), "{report}");
}

#[test]
fn a_changed_fingerprint_is_told() {
    let report = after_charge("unprinted", &UNPRINTED).unwrap_err();
    assert!(report.contains("fingerprint [\"payment\"] became []"), "{report}");
}

#[test]
fn a_changed_version_is_told() {
    let report = after_charge("second", &SECOND).unwrap_err();
    assert!(report.contains("version 1 became 2"), "{report}");
}

#[test]
fn a_missing_file_says_how_to_make_it() {
    let report = check(&file("missing"), [&CHARGE].into_iter(), false).unwrap_err();
    assert!(report.contains("run the test once with IDEMPOTENT_LOCK=write"), "{report}");
}

#[test]
fn two_handlers_of_one_name_are_refused() {
    let report = check(&file("two"), [&CHARGE, &SECOND].into_iter(), true).unwrap_err();
    assert!(report.contains("two handlers are named `charge`"), "{report}");
}

#[test]
fn a_binary_without_handlers_guards_nothing_and_says_so() {
    let path = file("none");
    for write in [true, false] {
        let report = check(&path, [].into_iter(), write).unwrap_err();
        assert!(report.contains("holds no handler"), "{report}");
    }
    assert!(!path.exists());
}
