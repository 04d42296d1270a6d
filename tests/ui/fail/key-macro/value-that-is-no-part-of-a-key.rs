use idempotent_runtime::key;

fn main() {
    let half = 0.5f32;
    drop(key!("charge:{half}"));
}
