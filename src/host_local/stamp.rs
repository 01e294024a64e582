//! The stamp of a directory that was read to its end: the file `.host-affine`.
//!
//! Its time of modification is set to the directory's time of change, which the kernel renews with every file that is
//! added or removed, and which nobody can set back. Two changes within one tick of the kernel's clock have one time, and a
//! clock may be set back: so the stamp may miss a change. Nothing but the moment of an import depends on it.
//!
//! A record that is filled in does not change the directory. Its text lists the records that were empty; a stamp holds
//! only for as long as they are there and empty.

use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use crate::net::parse_address;

/// Its name, which is no address.
const STAMP: &str = ".host-affine";

/// Whether nothing was added to or removed from a directory since it was stamped.
pub(super) fn is_current(dir: &Path, meta: &Metadata) -> bool {
    let path = dir.join(STAMP);
    let Ok(stamp) = std::fs::symlink_metadata(&path) else {
        return false;
    };
    (stamp.mtime(), stamp.mtime_nsec()) == (meta.ctime(), meta.ctime_nsec())
        && (stamp.len() == 0 || are_still_empty(dir, &path))
}

fn are_still_empty(dir: &Path, stamp: &Path) -> bool {
    let is_empty = |name: &str| std::fs::symlink_metadata(dir.join(name)).is_ok_and(|meta| meta.len() == 0);
    let names = std::fs::read_to_string(stamp);
    names.is_ok_and(|names| names.lines().all(|name| parse_address(name).is_some() && is_empty(name)))
}

/// Stamps a directory, which has these empty records.
pub(super) fn set(dir: &Path, empty: &[IpAddr]) -> io::Result<()> {
    let names: Vec<String> = empty.iter().map(ToString::to_string).collect();
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(dir.join(STAMP))?;
    file.write_all(names.join("\n").as_bytes())?;
    renew(dir)
}

/// Stamps a directory again after a change of our own.
pub(super) fn renew(dir: &Path) -> io::Result<()> {
    let meta = std::fs::metadata(dir)?;
    let time = TimeSpec::new(meta.ctime(), meta.ctime_nsec());
    utimensat(AT_FDCWD, &dir.join(STAMP), &time, &time, UtimensatFlags::NoFollowSymlink)?;
    Ok(())
}
