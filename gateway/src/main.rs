//! The `onegate` program.
use std::process::ExitCode;

fn main() -> ExitCode {
    gateway::cli::run()
}
