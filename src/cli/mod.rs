//! The command line of whoever is on call.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs a command line.
pub fn main(args: impl Iterator<Item = OsString>, variables: &dyn Fn(&str) -> Option<OsString>) -> ExitCode {
    let _ = (args.count(), variables("HOST_AFFINE_DATASTORE"));
    ExitCode::SUCCESS
}
