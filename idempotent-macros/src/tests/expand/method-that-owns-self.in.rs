impl Service {
    #[idempotent(key = "charge:{self.tenant}:{payment.order_id}")]
    async fn charge(self: Arc<Self>, payment: Payment) -> Result<Receipt, ChargeError> {
        self.bank.charge(&payment).await
    }
}
