//! An open file, found to be safe, and the errors that name one.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::datastore::{Error, Verb};

/// The largest file that is read at once, and so the largest that is written. A block of 4,096 addresses takes about
/// 2 MiB.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;

/// An open file of the store, found to be safe.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// In bytes, when it was opened.
    pub(super) size: u64,
    /// The permission bits.
    pub(super) mode: u32,
}

impl OpenFile {
    pub(super) fn checked(file: File, path: PathBuf) -> Result<Self, Error> {
        let metadata = file.metadata().map_err(|source| io_error(Verb::Inspect, &path, source))?;
        if !metadata.is_file() {
            return Err(not_a_file(&path));
        }
        check_owner(&path, &metadata)?;
        if metadata.mode() & 0o022 != 0 {
            return Err(unsafe_because(
                &path,
                format!("others may write to it (mode {:03o})", metadata.mode() & 0o777),
            ));
        }
        Ok(Self { file, size: metadata.len(), mode: metadata.mode() & 0o777, path })
    }

    /// All of it.
    pub(super) fn read(&self) -> Result<Vec<u8>, Error> {
        if self.size > FILE_BYTES_MAX {
            return Err(Error::Damaged {
                path: self.path.clone(),
                problem: format!(
                    "has {} bytes; no file of a store has more than {FILE_BYTES_MAX}",
                    self.size
                ),
            });
        }
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        self.read_at(0, size)
    }

    /// So many bytes from an offset on.
    pub(super) fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut content = vec![0; len];
        self.file
            .read_exact_at(&mut content, offset)
            .map_err(|source| io_error(Verb::Read, &self.path, source))?;
        Ok(content)
    }

    /// So many bytes more of a file whose beginning was read.
    pub(super) fn read_on(&self, content: &mut Vec<u8>, len: usize) -> Result<(), Error> {
        let have = content.len();
        content.resize(have + len, 0);
        let offset = u64::try_from(have).unwrap_or(u64::MAX);
        self.file
            .read_exact_at(content.get_mut(have..).unwrap_or_default(), offset)
            .map_err(|source| io_error(Verb::Read, &self.path, source))
    }
}

pub(super) fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let owner = metadata.uid();
    // Asking who we are costs a system call that a store of root's does not need.
    if owner == 0 || owner == nix::unistd::geteuid().as_raw() {
        return Ok(());
    }
    Err(unsafe_because(path, format!("it belongs to user {owner}, not to root or to whoever runs this")))
}

pub(super) fn is_symlink(path: &Path) -> Error {
    unsafe_because(path, "a symbolic link stands in its place or on the way to it".to_owned())
}

pub(super) fn not_a_file(path: &Path) -> Error {
    unsafe_because(
        path,
        "the store needs this name for a file, and something else stands there (a host-local network of that name?)"
            .to_owned(),
    )
}

pub(super) fn unsafe_because(path: &Path, problem: String) -> Error {
    Error::Unsafe { path: path.to_owned(), problem }
}

/// An error of the operating system.
pub(super) fn io_error(verb: Verb, path: &Path, source: io::Error) -> Error {
    Error::Io { verb, path: path.to_owned(), source }
}

/// That something was there a moment ago.
pub(super) fn vanished(path: &Path) -> Error {
    failed(Verb::Open, path, Errno::ENOENT)
}

pub(super) fn failed(verb: Verb, path: &Path, errno: Errno) -> Error {
    io_error(verb, path, errno.into())
}
