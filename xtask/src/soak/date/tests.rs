//! Dates around the ends of months and years.

use super::format;

#[test]
fn seconds_become_a_date() {
    let dates = [
        (0, "1970-01-01 00:00 UTC"),
        (951_782_399, "2000-02-28 23:59 UTC"),
        (951_782_400, "2000-02-29 00:00 UTC"),
        (951_868_800, "2000-03-01 00:00 UTC"),
        (1_798_761_599, "2026-12-31 23:59 UTC"),
        (1_798_761_600, "2027-01-01 00:00 UTC"),
    ];
    for (seconds, date) in dates {
        assert_eq!(format(seconds), date);
    }
}
