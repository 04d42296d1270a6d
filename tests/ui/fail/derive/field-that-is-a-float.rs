use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Amount(f64);

fn main() {}
