use idempotent_runtime::idempotent;

#[idempotent(key = "charge")]
const CHARGE: u8 = 1;

fn main() {
    let _ = CHARGE;
}
