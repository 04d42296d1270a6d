use idempotent_runtime::idempotent;

#[idempotent(key = "charge:{amount}")]
macro_rules! handler {
    () => {};
}

fn main() {}
