//! How many files the test may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// As many as the system lets it: a thousand calls at once need some thousands.
pub(crate) fn allow_many_open() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("up to what is allowed");
}
