//! Runs every case and prints the table.

use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    idempotent_bench_dbos::run().await
}
