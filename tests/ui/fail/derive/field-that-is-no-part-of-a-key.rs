use idempotent_runtime::KeyPart;

struct Inner;

#[derive(KeyPart)]
struct Outer {
    #[key]
    inner: Inner,
    note: String,
}

fn main() {}
