impl Service {
    #[idempotent(key = "book:{self.tenant}:{id}", terminal = BookError::is_final)]
    async fn book(
        &self,
        Order { id, .. }: Order,
        #[transaction]
        #[allow(unused_mut)]
        mut tx: &mut SqliteConnection,
        note: &str,
    ) -> Result<u64, BookError> {
        self.insert(tx, id, note).await
    }

    #[idempotent(key = "book:{id}", name = "shared")]
    async fn shared(
        mut self: Arc<Self>,
        id: u64,
        #[cfg(feature = "rates")] rate: u64,
        #[transaction] tx: &mut SqliteConnection,
    ) -> Result<u64, BookError> {
        self.insert(tx, id, rate).await
    }
}
