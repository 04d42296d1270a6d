#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct OrderId(u64);

#[derive(KeyPart)]
struct Named {
    only: String,
}

#[derive(KeyPart)]
enum Method {
    Card,
    r#Iban,
    Cash = 7,
}

#[derive(KeyPart)]
struct Line(#[key] OrderId, #[key] Method, String);

fn main() {
    fn part(_: &impl KeyPart) {}
    part(&OrderId(1));
    part(&Named { only: String::new() });
    for method in [Method::Card, Method::Iban, Method::Cash] {
        let line = Line(OrderId(1), method, String::new());
        part(&line);
        drop(line.2);
    }
}
