use idempotent_runtime::idempotent;

#[idempotent(key = "charge:{amount}")]
unsafe extern "C" {
    fn charge(amount: u64);
}

fn main() {}
