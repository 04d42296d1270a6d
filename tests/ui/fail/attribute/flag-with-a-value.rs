use idempotent_runtime::idempotent;
use idempotent_ui::ChargeError;

#[idempotent(key = "nightly", singleton = true)]
async fn nightly() -> Result<(), ChargeError> {
    Ok(())
}

fn main() {}
