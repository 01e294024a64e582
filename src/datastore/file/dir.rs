//! Opening, checking and reading files beneath the store's directory, and nowhere else.
//!
//! Every name is opened relative to a directory's descriptor; no symbolic link is followed on the way. What is opened
//! belongs to root or to us, and nobody else may write to it.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, mkdirat};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, unlinkat};

use super::open_file::{OpenFile, check_owner, failed, io_error, is_symlink, not_a_file, unsafe_because};
use crate::datastore::{Error, Verb};

/// What every open has: a FIFO does not block it, and no child inherits it.
const ALWAYS: OFlag =
    OFlag::O_CLOEXEC.union(OFlag::O_NOFOLLOW).union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);

/// How much of a directory is read at once, in bytes: several hundred names.
const NAMES_BYTES: usize = 32 << 10;
/// The bytes of an entry besides its name, at least.
const ENTRY_BYTES: usize = 20;

/// A directory of the store.
#[derive(Debug)]
pub(super) struct Dir {
    file: File,
    path: PathBuf,
    /// Whether other users may open it for reading. Only known of the store's directory itself.
    is_open_to_others: bool,
}

impl Dir {
    /// Opens the store's directory itself. `None`: it does not exist.
    pub(super) fn open_store(path: &Path) -> Result<Option<Self>, Error> {
        // A slash at the end would have the last component followed after all.
        let path: PathBuf = path.components().collect();
        // `open` of some C libraries sets the flags of the descriptor once more.
        let opened = openat(AT_FDCWD, &path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | ALWAYS, Mode::empty());
        let file = match opened {
            Ok(fd) => File::from(fd),
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => {
                if path.is_symlink() {
                    return Err(is_symlink(&path));
                }
                return Err(failed(Verb::Open, &path, errno));
            }
        };
        let mut dir = Self { file, path, is_open_to_others: false };
        dir.is_open_to_others = dir.check()? & 0o044 != 0;
        Ok(Some(dir))
    }

    /// Opens a directory beneath. `None`: it does not exist.
    pub(super) fn open_dir(&self, name: &str) -> Result<Option<Self>, Error> {
        let Some(file) = self.open_any(name, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())? else {
            return Ok(None);
        };
        Ok(Some(Self { file, path: self.path_of(name), is_open_to_others: false }))
    }

    /// Refuses a directory in which others could put or remove files. Returns its mode.
    pub(super) fn check(&self) -> Result<u32, Error> {
        let metadata = self.metadata()?;
        check_owner(&self.path, &metadata)?;
        let mode = metadata.mode();
        if mode & 0o022 != 0 && mode & 0o1000 == 0 {
            return Err(unsafe_because(
                &self.path,
                format!("others may write to it (mode {:03o})", mode & 0o777),
            ));
        }
        Ok(mode)
    }

    pub(super) const fn is_open_to_others(&self) -> bool {
        self.is_open_to_others
    }

    pub(super) fn metadata(&self) -> Result<Metadata, Error> {
        self.file.metadata().map_err(|source| io_error(Verb::Inspect, &self.path, source))
    }

    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file of the store. `None`: it does not exist.
    pub(super) fn open_file(&self, name: &str, access: OFlag) -> Result<Option<OpenFile>, Error> {
        let Some(file) = self.open_any(name, access, Mode::empty())? else {
            return Ok(None);
        };
        OpenFile::checked(file, self.path_of(name)).map(Some)
    }

    /// Makes a file that does not exist yet, mode 0600 whatever the umask. `None`: it exists.
    pub(super) fn create_file(&self, name: &str) -> Result<Option<File>, Error> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        let opened = openat(&self.file, name, flags | ALWAYS, Mode::S_IRUSR | Mode::S_IWUSR);
        let file = match opened {
            Ok(fd) => File::from(fd),
            Err(Errno::EEXIST) => return Ok(None),
            Err(errno) => return Err(failed(Verb::Create, &self.path_of(name), errno)),
        };
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(|source| io_error(Verb::Create, &self.path_of(name), source))?;
        Ok(Some(file))
    }

    /// Makes a file anew, with its content not flushed yet; a left-over of that name goes.
    pub(super) fn write_new(&self, name: &str, content: &[u8]) -> Result<File, Error> {
        let made = match self.create_file(name)? {
            None => {
                self.remove(name)?;
                self.create_file(name)?
            }
            made => made,
        };
        let file = made.ok_or_else(|| failed(Verb::Create, &self.path_of(name), Errno::EEXIST))?;
        file.write_all_at(content, 0).map_err(|source| io_error(Verb::Write, &self.path_of(name), source))?;
        Ok(file)
    }

    /// Reads a whole file. `None`: it does not exist.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.open_file(name, OFlag::O_RDONLY)?.map(|file| file.read()).transpose()
    }

    /// Makes a directory, mode 0700 whatever the umask, and opens it. It may exist.
    pub(super) fn make_dir(&self, name: &str) -> Result<Self, Error> {
        make_dir(&self.file, Path::new(name), &self.path_of(name))?;
        let dir =
            self.open_dir(name)?.ok_or_else(|| failed(Verb::Open, &self.path_of(name), Errno::ENOENT))?;
        dir.check()?;
        Ok(dir)
    }

    /// Whether there is something of that name. A link that leads nowhere is not.
    pub(super) fn exists(&self, name: &str) -> Result<bool, Error> {
        match faccessat(&self.file, name, AccessFlags::F_OK, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(failed(Verb::Inspect, &self.path_of(name), errno)),
        }
    }

    /// Removes a file that may be gone already.
    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        match unlinkat(&self.file, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(failed(Verb::Remove, &self.path_of(name), errno)),
        }
    }

    /// Moves a file of this directory to `name` in `to`, over what stands there.
    pub(super) fn rename(&self, from: &str, to: &Dir, name: &str) -> Result<(), Error> {
        renameat(&self.file, from, &to.file, name)
            .map_err(|errno| failed(Verb::Rename, &to.path_of(name), errno))
    }

    /// Flushes the entries of the directory.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(|source| io_error(Verb::Sync, &self.path, source))
    }

    /// Calls `each` with the name of every entry.
    pub(super) fn for_each_name(self, each: impl FnMut(&str)) -> Result<(), Error> {
        self.for_names(each, |_| true)
    }

    /// Calls `each` with the names of entries. After each buffer it asks whether to go on, and says whether that one was
    /// full: after one that was not, no file system of a local disk has more.
    pub(super) fn for_names(
        self,
        mut each: impl FnMut(&str),
        mut goes_on: impl FnMut(bool) -> bool,
    ) -> Result<(), Error> {
        let mut buffer = Vec::with_capacity(NAMES_BYTES);
        let mut used = 0;
        // Not with the C library's, which asks three more questions of each directory, and for memory of its own.
        let mut entries = rustix::fs::RawDir::new(&self.file, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|error| io_error(Verb::List, &self.path, error.into()))?;
            used += ENTRY_BYTES + entry.file_name().count_bytes();
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                each(name);
            }
            if entries.is_buffer_empty() && !goes_on(used > NAMES_BYTES / 2) {
                break;
            }
        }
        Ok(())
    }

    fn open_any(&self, name: &str, access: OFlag, mode: Mode) -> Result<Option<File>, Error> {
        let flags = access | ALWAYS;
        let how = OpenHow::new()
            .flags(flags)
            .mode(mode)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH);
        let opened = match openat2(&self.file, name, how) {
            // An old kernel does not have it, and an old sandbox does not know it.
            Err(Errno::ENOSYS | Errno::EPERM) => open_stepwise(self.file.as_fd(), name, flags),
            other => other,
        };
        match opened {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ELOOP) => Err(is_symlink(&self.path_of(name))),
            Err(Errno::ENOTDIR) if self.path_of(name).is_symlink() => Err(is_symlink(&self.path_of(name))),
            Err(Errno::EISDIR) => Err(not_a_file(&self.path_of(name))),
            Err(errno) => Err(failed(Verb::Open, &self.path_of(name), errno)),
        }
    }
}

/// Opens component by component what the kernel cannot open at once without following links.
fn open_stepwise(start: std::os::fd::BorrowedFd<'_>, name: &str, flags: OFlag) -> nix::Result<OwnedFd> {
    let (folders, last) = name.rsplit_once('/').unwrap_or(("", name));
    let mut at: Option<OwnedFd> = None;
    for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | ALWAYS;
        let from = at.as_ref().map_or(start, AsFd::as_fd);
        at = Some(openat(from, folder, flags, Mode::empty())?);
    }
    openat(at.as_ref().map_or(start, AsFd::as_fd), last, flags, Mode::empty())
}

/// Makes a directory beneath another one, mode 0700 whatever the umask. False: it exists.
fn make_dir(at: impl AsFd, name: &Path, path: &Path) -> Result<bool, Error> {
    let at = at.as_fd();
    match mkdirat(at, name, Mode::S_IRWXU) {
        Ok(()) => {}
        Err(Errno::EEXIST) => return Ok(false),
        Err(errno) => return Err(failed(Verb::Create, path, errno)),
    }
    // By name: a directory without any permission, which some umasks make, could not be opened by its owner.
    fchmodat(at, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)
        .map_err(|errno| failed(Verb::Create, path, errno))?;
    Ok(true)
}

/// Makes a directory and those above it that do not exist.
pub(super) fn make_path(path: &Path) -> Result<(), Error> {
    let path: PathBuf = path.components().collect();
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists())
        .collect();
    for ancestor in missing.into_iter().rev() {
        make_dir(AT_FDCWD, ancestor, ancestor)?;
    }
    Ok(())
}

/// Flushes the entry of a directory in its parent, and so on to the root: any of them may just have been made. Those
/// that were there before may be of a kind or owner that does not let us.
pub(super) fn sync_ancestors(path: &Path) -> Result<(), Error> {
    let path = std::path::absolute(path).map_err(|source| io_error(Verb::Inspect, path, source))?;
    for ancestor in path.ancestors().skip(1) {
        match File::open(ancestor).and_then(|dir| dir.sync_all()) {
            Err(source) if !is_refusal(&source) => return Err(io_error(Verb::Sync, ancestor, source)),
            _ => {}
        }
    }
    Ok(())
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Unsupported
            | io::ErrorKind::ReadOnlyFilesystem
    )
}
