//! Runs every case and prints the table.

use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    idempotent_benches::cases::run(std::env::args().skip(1)).await
}
