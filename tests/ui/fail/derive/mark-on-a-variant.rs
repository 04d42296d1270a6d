use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
enum Method {
    #[key]
    Card,
    Cash,
}

fn main() {}
