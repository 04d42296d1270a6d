use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Unit;

fn main() {}
