#[idempotent(key = "{order_id}:{first}:{r#type}", tenant = customer)]
async fn charge(
    Payment { order_id, mut amount, ref customer, .. }: Payment,
    (&first, second): (&'static u64, u64),
    Line { id, .. }: &Line,
    r#type: u8,
    _: u8,
    _unused: u8,
) -> Result<u64, ChargeError> {
    amount += second + id;
    Ok(amount)
}
