use idempotent_runtime::key;

fn main() {
    let order_id = 7;
    drop(key!("charge:{}", order_id));
}
