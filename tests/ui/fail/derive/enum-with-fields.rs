use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
enum Method {
    Card { number: u64 },
    Cash,
}

fn main() {}
