use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
#[key]
struct OrderId(u64);

fn main() {}
