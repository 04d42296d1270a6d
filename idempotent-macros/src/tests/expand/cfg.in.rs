#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(
    payment: Payment,
    #[cfg(feature = "notes")] note: &str,
    #[cfg(feature = "shops")] Shop { id }: Shop,
    #[cfg(feature = "banks")]
    #[context]
    bank: &Bank,
) -> Result<Receipt, ChargeError> {
    Ok(payment.receipt())
}
