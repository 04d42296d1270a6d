//! Starts a private PostgreSQL, prints its port, and holds it until it is killed: the test
//! `a_server_whose_process_is_killed_stops`.

use std::error::Error;

use idempotent_conformance::PostgresServer;

fn main() -> Result<(), Box<dyn Error>> {
    let server = PostgresServer::start()?;
    #[expect(clippy::print_stdout, reason = "the test reads it")]
    {
        println!("{}", server.port());
    }
    // Ends when the test closes the pipe, which it does only if it fails before the kill.
    std::io::read_to_string(std::io::stdin())?;
    Ok(())
}
