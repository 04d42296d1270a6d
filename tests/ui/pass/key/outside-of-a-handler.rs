#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::{Error, key};
use idempotent_ui::Payment;

struct Shop {
    tenant: String,
}

impl Shop {
    fn key(&self, payment: &Payment) -> Result<String, Error> {
        key!("charge:{self.tenant}:{payment.order_id}:{payment.id()}")
    }
}

fn main() {
    let shop = Shop { tenant: "a b".to_owned() };
    let payment = Payment::new(7, 1);
    assert_eq!(shop.key(&payment).ok().as_deref(), Some("charge:a%20b:7:7"));
    assert_eq!(key!("nightly").ok().as_deref(), Some("nightly"));
    let r#type = 'x';
    assert_eq!(key!("{r#type}").ok().as_deref(), Some("x"));
    assert!(shop.tenant.len() > 1);
}
