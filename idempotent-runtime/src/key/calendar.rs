//! Calendar dates: `2026-11-29`. A date is part of an operation ("the report for that day") where
//! an instant is not.

#[cfg(any(feature = "chrono", feature = "time", feature = "jiff"))]
macro_rules! dates {
    ($($date:ty)*) => {$(
        impl super::KeyPart for $date {
            fn render(&self, key: &mut super::KeyWriter<'_>) {
                // A `KeyWriter` does not fail; it counts what does not fit.
                let _ = std::fmt::Write::write_fmt(key, format_args!("{self}"));
            }
        }
    )*};
}

#[cfg(feature = "chrono")]
dates!(chrono::NaiveDate);

#[cfg(feature = "time")]
dates!(time::Date);

#[cfg(feature = "jiff")]
dates!(jiff::civil::Date);
