use super::*;

const NOON: &str = "Wed, 21 Oct 2026 12:00:00 GMT";

fn wait(retry_after: &str, date: Option<&str>) -> Option<Duration> {
    super::retry_after(|name| match name {
        "retry-after" => Some(retry_after),
        "date" => date,
        _ => None,
    })
}

#[test]
fn seconds_are_read_with_or_without_a_date() {
    for date in [None, Some(NOON), Some("yesterday")] {
        assert_eq!(wait("0", date), Some(Duration::ZERO));
        assert_eq!(wait(" 120 ", date), Some(Duration::from_mins(2)));
    }
}

#[test]
fn each_form_of_a_date_is_counted_from_the_answers_own() {
    // RFC 9110, §5.6.7: the one that is written, and two that are read.
    let dates = [
        "Wed, 21 Oct 2026 12:01:30 GMT",
        "Wednesday, 21-Oct-26 12:01:30 GMT",
        "Wed Oct 21 12:01:30 2026",
    ];
    for date in dates {
        assert_eq!(wait(date, Some(NOON)), Some(Duration::from_secs(90)), "{date}");
    }
    assert_eq!(
        wait("Thu, 22 Oct 2026 00:00:01 GMT", Some("Wed, 21 Oct 2026 23:59:59 GMT")),
        Some(Duration::from_secs(2))
    );
}

#[test]
fn a_date_that_is_over_is_no_wait() {
    assert_eq!(wait("Wed, 21 Oct 2026 11:59:59 GMT", Some(NOON)), Some(Duration::ZERO));
    assert_eq!(wait(NOON, Some(NOON)), Some(Duration::ZERO));
}

#[test]
fn a_date_that_cannot_be_counted_from_says_nothing() {
    assert_eq!(wait(NOON, None), None);
    assert_eq!(wait(NOON, Some("")), None);
}

#[test]
fn what_is_neither_seconds_nor_a_date_says_nothing() {
    for asked in ["", "soon", "-1", "1.5", "2026-10-21T12:00:00Z", "Wed, 32 Oct 2026 12:00:00 GMT"]
    {
        assert_eq!(wait(asked, Some(NOON)), None, "{asked}");
    }
}

#[test]
fn an_endless_wait_is_cut() {
    let endless = u64::MAX.to_string();
    assert_eq!(wait(&endless, None), Some(WAIT_MAX));
    assert_eq!(wait("Fri, 31 Dec 9999 23:59:59 GMT", Some(NOON)), Some(WAIT_MAX));
}
