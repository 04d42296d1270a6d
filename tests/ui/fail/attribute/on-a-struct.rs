use idempotent_runtime::idempotent;

#[idempotent(key = "charge:{order_id}")]
struct Charge {
    order_id: u64,
}

fn main() {
    let _ = Charge { order_id: 1 }.order_id;
}
