/// Charges.
#[idempotent(key = "charge:{payment.order_id}", lease = "10s")]
pub async fn charge(payment: Payment, #[context] bank: Bank) -> Result<Receipt, ChargeError> {
    bank.charge(&payment).await
}
