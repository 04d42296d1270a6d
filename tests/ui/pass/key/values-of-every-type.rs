#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use idempotent_runtime::{OperationKey, idempotent};
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "{a}:{b}:{c}:{d}:{e}:{f}:{g}:{h}:{i}")]
async fn charge(
    a: u128,
    b: bool,
    c: char,
    d: String,
    e: OperationKey,
    f: NonZeroU64,
    g: &str,
    h: Cow<'static, str>,
    #[context] i: Arc<str>,
) -> Result<Receipt, ChargeError> {
    drop((a, b, c, d, e, f, g.len(), h, i));
    Ok(Receipt { amount: 1 })
}

fn main() {
    let operation = OperationKey::new();
    let seven = NonZeroU64::MIN;
    drop(charge(1, true, 'c', "d".to_owned(), operation, seven, "g", "h".into(), "i".into()));
}
