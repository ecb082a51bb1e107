//! The program `recount`.

use std::process::ExitCode;

fn main() -> ExitCode {
    recount::cli::run()
}
