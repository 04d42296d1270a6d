//! When an operation was issued.

use std::time::{SystemTime, UNIX_EPOCH};

/// An instant that the producer of an operation wrote down when it made it: `issued_at`.
///
/// [`SystemTime`], and with the feature of the crate: chrono's `DateTime`, time's `OffsetDateTime`
/// and `UtcDateTime`, jiff's `Timestamp` and `ZonedDateTime`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say when the operation was issued",
    label = "write an instant: `SystemTime`, or one of `chrono`, `time` or `jiff` with the feature of that name"
)]
pub trait IssuedAt {
    /// Microseconds since the Unix epoch; what an `i64` cannot hold is its nearest.
    fn micros(&self) -> i64;
}

impl IssuedAt for SystemTime {
    fn micros(&self) -> i64 {
        match self.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros)
            }
        }
    }
}

impl<T: IssuedAt + ?Sized> IssuedAt for &T {
    fn micros(&self) -> i64 {
        T::micros(self)
    }
}

#[cfg(feature = "chrono")]
impl<Tz: chrono::TimeZone> IssuedAt for chrono::DateTime<Tz> {
    fn micros(&self) -> i64 {
        self.timestamp_micros()
    }
}

#[cfg(feature = "time")]
impl IssuedAt for time::OffsetDateTime {
    fn micros(&self) -> i64 {
        nearest(self.unix_timestamp_nanos() / 1000)
    }
}

#[cfg(feature = "time")]
impl IssuedAt for time::UtcDateTime {
    fn micros(&self) -> i64 {
        nearest(self.unix_timestamp_nanos() / 1000)
    }
}

#[cfg(feature = "time")]
fn nearest(micros: i128) -> i64 {
    i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(feature = "jiff")]
impl IssuedAt for jiff::Timestamp {
    fn micros(&self) -> i64 {
        self.as_microsecond()
    }
}

#[cfg(feature = "jiff")]
impl IssuedAt for jiff::ZonedDateTime {
    fn micros(&self) -> i64 {
        self.timestamp().as_microsecond()
    }
}

/// Never implemented.
#[diagnostic::on_unimplemented(
    message = "a number does not say when the operation was issued: its unit is unknown",
    label = "write an instant, such as `SystemTime::UNIX_EPOCH + Duration::from_millis(payment.created_ms)`"
)]
pub trait NumberAsInstant {}

macro_rules! refuse {
    ($($number:ty)*) => {$(
        // As in `refused.rs`: the bound never holds, and rustc tells why.
        impl<'a> IssuedAt for $number
        where
            &'a $number: NumberAsInstant,
        {
            fn micros(&self) -> i64 {
                i64::MAX
            }
        }
    )*};
}

refuse!(u32 u64 u128 i32 i64 i128 f64);
