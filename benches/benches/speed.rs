//! Runs every case and prints the table.

use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let counting = env!("CARGO_BIN_EXE_in-flight");
    idempotent_benches::cases::run(std::env::args().skip(1), counting).await
}
