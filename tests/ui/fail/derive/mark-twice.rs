use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Order {
    #[key]
    #[key]
    number: u64,
}

fn main() {}
