use super::{Limits, parse, show};

#[test]
fn every_unit_is_read() {
    assert_eq!(parse("500ms"), Ok(500));
    assert_eq!(parse("30s"), Ok(30_000));
    assert_eq!(parse("15m"), Ok(900_000));
    assert_eq!(parse("1h30m"), Ok(5_400_000));
    assert_eq!(parse("30d"), Ok(2_592_000_000));
}

#[test]
fn what_is_shown_reads_back() {
    for text in ["500ms", "1m30s", "1h", "30d", "1d1h1m1s1ms"] {
        assert_eq!(parse(text).map(show).as_deref(), Ok(text));
    }
    assert_eq!(show(0), "0s");
}

#[test]
fn what_is_not_a_duration_is_refused() {
    for text in ["", "30", "s", "-1s", "1.5s", "30 s", "1s1s", "1s1m", "5 minutes", "1w", "1µs"] {
        assert!(parse(text).is_err(), "{text}");
    }
    assert!(parse("99999999999999999999d").is_err());
    assert!(parse("9999999999999999d").is_err());
}

#[test]
fn limits_are_inclusive() {
    let limits = Limits { least: 100, most: 1000 };
    assert_eq!(limits.check("lease", 100), Ok(100));
    assert_eq!(limits.check("lease", 1000), Ok(1000));
    for out in [0, 99, 1001] {
        assert!(limits.check("lease", out).is_err(), "{out}");
    }
}
