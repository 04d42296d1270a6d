//! A process of the fault matrix; see [`idempotent_crash::matrix`].

use idempotent_crash::matrix;

fn main() {
    let job = std::env::args().nth(1).expect("a job as the one argument");
    matrix::main(serde_json::from_str(&job).expect("a job"));
}
