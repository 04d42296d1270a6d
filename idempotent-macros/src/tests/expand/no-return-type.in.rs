#[idempotent(key = "charge:{id}")]
async fn charge(id: u64) {}
