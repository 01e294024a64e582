//! What a runtime is told when this program has a fault: an error object, as for anything else.

use std::io::Write as _;

use crate::cni::failure::{Code, Failure};
use crate::cni::version::Version;

/// From now on a panic prints a CNI error object on standard output and ends the process with a failure.
#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "a panic ends here; to abort would print nothing"
)]
pub fn answer_in_cni() {
    std::panic::set_hook(Box::new(|info| {
        let failure = Failure::new(Code::Internal, "host-affine failed by a fault of its own")
            .with_details(format!("{info}; please report it"));
        let line = format!("{}\n", failure.render(Version::LATEST));
        // Nothing is left to be done where this fails.
        let _ = std::io::stdout().write_all(line.as_bytes());
        std::process::exit(1);
    }));
}
