use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
union Bits {
    number: u32,
    bytes: [u8; 4],
}

fn main() {}
