//! The repository's own commands. `cargo xtask help` lists them.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to the person who called it"
)]

mod failure;
mod features;
mod flaky;
mod mutants;
mod setup;
mod soak;
mod stages;
mod test;

use std::process::ExitCode;

use failure::Failure;

const HELP: &str = "\
The repository's own commands:

    cargo xtask test    everything that must hold: format, lints, each feature alone, documentation,
                        licences, all tests on all stores, and the quickstart; sets up what it needs
    cargo xtask setup   only sets up the servers that tests and examples start
    cargo xtask soak    what takes longer, in chunks that go on where the last one ended:
                        cargo xtask soak [part..] [--minutes M] [--list]
                        for two hours in all if nothing is said; what was done is kept in target/soak
    cargo xtask mutants the soak's part of that name, by hand: mistakes that the tests must catch
    cargo xtask flaky   the same for a suite of concurrent tests, run again and again; with a suite's name,
                        and with none it says which there are
    cargo xtask help    this text

`cargo test` alone runs what needs nothing but the toolchain.";

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|it| it == "--help" || it == "-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    match command.as_deref() {
        Some("soak") => return ended(soak::run(arguments)),
        Some("flaky") => return ended(flaky::run(arguments)),
        _ => {}
    }
    let result = match (command.as_deref(), arguments.next()) {
        (Some("test"), None) => test::run(),
        (Some("setup"), None) => test::set_up(),
        (Some("mutants"), None) => mutants::run(),
        (Some("help"), None) => {
            println!("{HELP}");
            Ok(())
        }
        (Some(other), None) => {
            Err(Failure::new(format!("there is no command `{other}`\n\n{HELP}")))
        }
        (Some(command), Some(more)) => {
            Err(Failure::new(format!("`{command}` takes no arguments, but got `{more}`\n\n{HELP}")))
        }
        (None, _) => Err(Failure::new(HELP)),
    };
    ended(result)
}

fn ended(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
