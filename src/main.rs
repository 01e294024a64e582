//! The executable: a runtime's call when `CNI_COMMAND` is set, else the command line.

use std::process::ExitCode;

use host_affine::cni::run::{World, run};
use host_affine::{cli, clock::SystemClock, netlink::Rtnetlink, panic, workload::NoWorkloads};

/// musl's own asks the system for memory, and gives it back, dozens of times in a call.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
fn main() -> ExitCode {
    let variables = |name: &str| std::env::var_os(name);
    if variables("CNI_COMMAND").is_some_and(|command| !command.is_empty()) {
        panic::answer_in_cni();
    }
    let called_as = std::env::args_os().next().unwrap_or_default();
    let called_as = std::path::Path::new(&called_as).file_name().unwrap_or_default().to_string_lossy();
    let world = World {
        variables: &variables,
        called_as: &called_as,
        clock: &SystemClock,
        links: &Rtnetlink,
        workloads: &NoWorkloads,
    };
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    match run(&world, &mut stdin, &mut stdout) {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            drop((stdin, stdout));
            cli::main(std::env::args_os(), &variables)
        }
    }
}
