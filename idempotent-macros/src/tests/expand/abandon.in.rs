#[idempotent(key = "charge:{payment.order_id}", on_drop = abandon)]
async fn charge(payment: &Payment, #[context] bank: &mut Bank) -> Result<Receipt, ChargeError> {
    bank.charge(payment).await
}
