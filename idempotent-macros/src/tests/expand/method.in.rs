impl Service {
    #[idempotent(key = "charge:{self.tenant}:{payment.order_id}", runtime = self.runtime)]
    pub async fn charge(&self, payment: &Payment, mut note: &str) -> Result<Receipt, ChargeError> {
        note = note.trim();
        self.bank.charge(payment, format!("{self}: {note}")).await
    }
}
