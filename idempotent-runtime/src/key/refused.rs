//! What cannot stand in a key, each with the reason.
//!
//! Each type has an implementation under a bound that never holds, so that rustc tells the reason
//! in place of a list of other types. The lifetime keeps the bound from being refused here as
//! trivially false.

use std::time::{Duration, Instant, SystemTime};

use super::{KeyPart, KeyWriter};

/// Never implemented.
#[diagnostic::on_unimplemented(
    message = "a float cannot be part of a key: one value has several spellings, and computing it again may give another",
    label = "write an integer, such as an amount in cents, or the id of what is measured"
)]
pub trait FloatInKey {}

/// Never implemented.
#[diagnostic::on_unimplemented(
    message = "an `Option` cannot be part of a key: all operations that lack the value would share one key",
    label = "write a value that is always there, or refuse the request before the handler"
)]
pub trait OptionInKey {}

/// Never implemented.
#[diagnostic::on_unimplemented(
    message = "an instant cannot be part of a key: a retry happens at another time, and would be a new operation",
    label = "write an id that the producer makes once, or a calendar date that is part of the operation"
)]
pub trait InstantInKey {}

/// Never implemented.
#[diagnostic::on_unimplemented(
    message = "a list cannot be part of a key: it has no one text that tells every two lists apart",
    label = "write the id of what the list belongs to; the list itself is compared by the fingerprint"
)]
pub trait ListInKey {}

macro_rules! refuse {
    ($reason:ident: $($ty:ty)*) => {$(
        impl<'a> KeyPart for $ty
        where
            &'a $ty: $reason,
        {
            fn render(&self, _: &mut KeyWriter<'_>) {}
        }
    )*};
}

refuse!(FloatInKey: f32 f64);
refuse!(InstantInKey: SystemTime Instant Duration);

#[cfg(feature = "chrono")]
refuse!(InstantInKey: chrono::NaiveDateTime chrono::NaiveTime chrono::TimeDelta);

#[cfg(feature = "time")]
refuse!(
    InstantInKey: time::OffsetDateTime time::UtcDateTime time::PrimitiveDateTime time::Time
    time::Duration
);

#[cfg(feature = "jiff")]
refuse!(
    InstantInKey: jiff::Timestamp jiff::ZonedDateTime jiff::civil::DateTime jiff::civil::Time
    jiff::Span jiff::SignedDuration
);

#[cfg(feature = "chrono")]
impl<'a, Tz: chrono::TimeZone + 'a> KeyPart for chrono::DateTime<Tz>
where
    &'a Self: InstantInKey,
{
    fn render(&self, _: &mut KeyWriter<'_>) {}
}

impl<'a, T: 'a> KeyPart for Option<T>
where
    &'a Self: OptionInKey,
{
    fn render(&self, _: &mut KeyWriter<'_>) {}
}

impl<'a, T: 'a> KeyPart for Vec<T>
where
    &'a Self: ListInKey,
{
    fn render(&self, _: &mut KeyWriter<'_>) {}
}

impl<'a, T: 'a, const N: usize> KeyPart for [T; N]
where
    &'a Self: ListInKey,
{
    fn render(&self, _: &mut KeyWriter<'_>) {}
}
