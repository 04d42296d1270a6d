use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

macro_rules! handler {
    () => {
        async fn charge(amount: u64) -> Result<Receipt, ChargeError> {
            Ok(Receipt { amount })
        }
    };
}

#[idempotent(key = "charge:{amount}")]
handler!();

fn main() {
    drop(charge(1));
}
