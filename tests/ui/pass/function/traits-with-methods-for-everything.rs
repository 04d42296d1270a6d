#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::{KeyPart, Runtime, idempotent, key};
use idempotent_ui::{ChargeError, Receipt};

/// Methods of the names that the expansion calls, on every `&T`.
trait Everything {
    fn key_literal(&self, _: u8) {}
    fn key_part(&self, _: u8) {}
    fn fingerprint(&self) {}
    fn tenant(&self) {}
    fn runtime(&self) {}
    fn issued_at(&self) {}
    fn literal(&self) {}
    fn part(&self) {}
    fn text(&self) {}
    fn render(&self) {}
    fn borrow(&self) {}
    fn to_task(&self) {}
}

impl<T: ?Sized> Everything for T {}

#[derive(KeyPart, Clone, serde::Serialize)]
struct Order {
    #[key]
    shop: String,
    #[key]
    number: u64,
}

#[derive(Clone)]
struct Service {
    tenant: String,
    runtime: Runtime,
}

impl Service {
    #[idempotent(
        key = "charge:{order}",
        runtime = self.runtime,
        tenant = self.tenant,
        issued_at = std::time::SystemTime::UNIX_EPOCH
    )]
    async fn charge(&self, order: &Order, note: &str) -> Result<Receipt, ChargeError> {
        let length = self.tenant.len() + note.len();
        Ok(Receipt { amount: order.number + length as u64 })
    }
}

fn main() {
    let order = Order { shop: "eu".to_owned(), number: 7 };
    assert_eq!(key!("charge:{order}").expect("renders"), "charge:eu:7");
    // All of them are there.
    ().key_literal(1);
    ().key_part(1);
    ().fingerprint();
    ().tenant();
    ().runtime();
    ().issued_at();
    ().literal();
    ().part();
    ().text();
    Everything::render(&());
    ().borrow();
    ().to_task();
    let _ = pay;
}

async fn pay(service: Service, order: Order) -> Result<Receipt, ChargeError> {
    service.charge(&order, "a").await
}
