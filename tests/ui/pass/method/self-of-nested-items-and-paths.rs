#![deny(warnings, rust_2018_idioms)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[derive(Clone)]
struct Service {
    tenant: String,
    bank: Bank,
}

mod fee {
    pub(super) const FEE: u64 = 1;
}

impl Service {
    #[idempotent(key = "charge:{self.tenant}:{payment.order_id}")]
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        use self::fee::{self as fees};

        struct Sum(u64);

        impl Sum {
            fn add(&self, amount: u64) -> Self {
                Self(self.0 + amount)
            }
        }

        fn total(sum: &Sum) -> u64 {
            sum.add(1).0
        }

        let plus: fn(u64) -> u64 = |amount| amount + fees::FEE;
        let sum = Sum(self::fee::FEE).add(payment.amount);
        self.bank.charge(plus(total(&sum))).await
    }
}

fn service() -> Service {
    Service { tenant: "eu".to_owned(), bank: Bank }
}

fn main() {
    drop(service().charge(Payment::new(1, 2)));
}
