//! Writes the manual pages of the command line, one for each verb: `cargo run --example man -- DIRECTORY`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> std::io::Result<ExitCode> {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Ok(ExitCode::from(2));
    };
    std::fs::create_dir_all(&directory)?;
    clap_mangen::generate_to(host_affine::cli::command(), &directory)?;
    Ok(ExitCode::SUCCESS)
}
