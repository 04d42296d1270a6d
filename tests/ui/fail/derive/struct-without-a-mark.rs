use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Order {
    shop: u64,
    number: u64,
}

fn main() {}
