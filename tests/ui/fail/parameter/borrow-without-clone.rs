use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

struct Vault(u64);

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment, #[context] bank: &Vault) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: bank.0 + payment.amount })
}

fn main() {}
