#[idempotent(key = "book:{order.id}")]
async fn book(
    order: Order,
    mut lines: Vec<Line>,
    #[context] bank: Bank,
    _note: u8,
    #[transaction] tx: &mut PgConnection,
) -> Result<u64, BookError> {
    lines.sort();
    insert(tx, &order, lines).await
}
