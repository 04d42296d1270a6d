#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::{idempotent, key};
use idempotent_ui::{ChargeError, Receipt};

#[derive(Clone, serde::Serialize)]
struct Turbine {
    r#gen: u64,
}

// In a crate of the edition of 2021 both are written so, without `r#` anywhere.
#[idempotent(key = "{gen}:{turbine.gen}")]
async fn charge(r#gen: u64, turbine: &Turbine) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: r#gen + turbine.r#gen })
}

fn main() {
    let r#gen = 1;
    drop(charge(r#gen, &Turbine { r#gen }));
    assert_eq!(key!("{gen}").expect("renders"), "1");
}
