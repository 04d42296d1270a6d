//! Idempotent handlers.
#![doc(html_no_source)]

mod clock;
mod error;
mod handler;
pub mod protocol;
pub mod store;

pub use clock::{Clock, SystemClock};
pub use error::{Disposition, Error, ErrorKind};
