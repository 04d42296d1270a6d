use idempotent_runtime::idempotent;

#[idempotent(key = "charge:{amount}")]
const CHARGE: fn(u64) -> u64 = |amount| amount;

fn main() {}
