#[idempotent(
    key = "charge:{payment.order_id}:{payment.lines.0}:{payment.part()}",
    name = "take the money",
    version = 3,
    accepts = 1..3,
    fingerprint = [payment.amount, payment.customer],
    lease = "10s",
    max_runtime = "1h30m",
    max_crashes = 3,
    wait = "500ms",
    retain = "90d",
    issued_at = payment.created_at,
    terminal = ChargeError::is_final,
    backoff = "1s..5m",
    on_drop = finish,
    runtime = RUNTIME.get(),
    tenant = if payment.test { "test" } else { "live" },
)]
async fn charge(payment: Payment) -> Charged {
    Ok(payment.receipt())
}
