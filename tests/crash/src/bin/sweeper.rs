//! A process that sweeps one database until nothing is left to sweep.

fn main() {
    let url = std::env::args().nth(1).expect("the URL of a database");
    idempotent_crash::sweeper::main(&url);
}
