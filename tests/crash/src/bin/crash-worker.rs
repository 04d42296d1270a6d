//! A worker process of the crash tests; see [`idempotent_crash::worker`].

use idempotent_crash::worker;

fn main() {
    let config = std::env::args().nth(1).expect("a configuration as the one argument");
    worker::run(&serde_json::from_str(&config).expect("a configuration"));
}
