use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{order}", lease = "0s", version = 0, ttl = "1d", on_drop = detach)]
async fn charge(payment: &mut Payment) -> Result<impl Sized, ChargeError> {
    Ok(payment.amount)
}

fn main() {}
