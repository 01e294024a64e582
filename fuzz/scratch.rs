//! A directory in memory for one process.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let above = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = above.join(format!("host-affine-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a directory");
    folder
});

/// The directory.
pub(crate) fn folder() -> &'static Path {
    &FOLDER
}
