#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

struct Line {
    id: u64,
}

#[derive(Clone, serde::Serialize)]
struct Pair(u64, (u64, u64));

impl Pair {
    fn line(&self) -> Line {
        Line { id: self.0 }
    }

    fn r#type(&self) -> &'static str {
        "pair"
    }
}

#[idempotent(key = "{payment.id()}:{pair.0}:{pair.1.0}:{pair.line().id}:{pair.r#type()}:{ plain }")]
async fn charge(payment: Payment, pair: Pair, plain: u8) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount + pair.0 + u64::from(plain) })
}

fn main() {
    drop(charge(Payment::new(1, 2), Pair(3, (4, 5)), 6));
}
