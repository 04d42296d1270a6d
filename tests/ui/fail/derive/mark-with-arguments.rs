use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Order {
    #[key(first)]
    number: u64,
}

fn main() {}
