//! Kernels of the fleet: files in place of the boot ID and of `/proc/stat`, which several hosts can share.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// How long ago the first boot was, in seconds.
const FIRST_BOOT_AGO: u64 = 3600;

/// A kernel that can boot again.
#[derive(Debug)]
pub(super) struct Kernel {
    folder: PathBuf,
    number: usize,
    /// How often it has booted.
    pub(super) boots: u32,
    /// How often another boot ID was put over its own.
    masks: u32,
    since: u64,
}

impl Kernel {
    pub(super) fn new(lab: &Path, number: usize) -> Self {
        let folder = lab.join(format!("kernel-{number}"));
        fs::create_dir(&folder).expect("a directory for the kernel");
        let new = Self { folder, number, boots: 1, masks: 0, since: now() - FIRST_BOOT_AGO };
        new.write();
        new
    }

    /// The directory with `boot_id` and `stat`.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Boots again. Everything so far happened before the boot; the kernel tells its beginning in whole seconds.
    pub(super) fn reboot(&mut self) {
        self.boots += 1;
        self.since = (now() + 1).max(self.since + 1);
        self.write();
    }

    /// Shows another boot ID, as a container manager does with a mount. Nothing has booted.
    pub(super) fn mask(&mut self) {
        self.masks += 1;
        self.write();
    }

    /// The files keep their inodes, so that mounts of them show the new text.
    fn write(&self) {
        let id = format!("{:08x}-{:04x}-4000-8000-{:012x}\n", self.number, self.masks, self.boots);
        fs::write(self.folder.join("boot_id"), id).expect("a boot ID");
        let stat = fs::read_to_string("/proc/stat").expect("the kernel's own");
        let line = |line: &str| {
            if line.starts_with("btime ") {
                format!(
                    "btime {}
",
                    self.since
                )
            } else {
                format!(
                    "{line}
"
                )
            }
        };
        let stat: String = stat.lines().map(line).collect();
        fs::write(self.folder.join("stat"), stat).expect("the beginning of the boot");
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}
