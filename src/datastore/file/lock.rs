//! The locks of a store: one on its directory, one on its file `lock`, always taken in this order.
//!
//! The lock on the directory excludes even when somebody removes `lock`; the file is for file systems where a directory
//! cannot be locked. This is the only file that waits.
//!
//! Whoever can open a file or directory for reading can hold a lock on it. So `lock` is its owner's alone, and a directory
//! that other users can open (one that was there before the store) is not locked: the file alone excludes then. Its mode is
//! left as it is, since other programs may use the directory too.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;

use super::Access;
use super::dir::Dir;
use super::open_file::{OpenFile, io_error};
use crate::datastore::{Error, Verb};

/// The name of the lock file.
pub(super) const LOCK: &str = "lock";

/// How much of `lock` is the holder's note, in bytes. Always written whole, so that no longer note shines through.
const NOTE_BYTES: usize = 192;

/// The stack of the thread that waits, in bytes: it makes one system call.
const WAITER_STACK_BYTES: usize = 64 << 10;

/// The locks of one session.
#[derive(Debug)]
pub(super) struct Locks {
    /// `None`: there is no such file, and this session may not make it.
    lock: Option<File>,
    path: PathBuf,
    access: Access,
    timeout: Duration,
    note: String,
}

impl Locks {
    /// Locks a store's directory. The file follows with [`Locks::lock_file`], once it is known that there is a store.
    pub(super) fn lock_directory(
        dir: &Dir,
        access: Access,
        timeout: Duration,
        note: &str,
    ) -> Result<Self, Error> {
        let locks = Self { lock: None, path: dir.path_of(LOCK), access, timeout, note: note.to_owned() };
        locks.take_directory(dir)?;
        Ok(locks)
    }

    /// Locks the file, which is made where it is missing by whoever may change the store.
    pub(super) fn lock_file(&mut self, dir: &Dir) -> Result<(), Error> {
        if self.lock.is_none() {
            self.lock = open(dir, self.access)?;
        }
        let Some(lock) = &self.lock else {
            return Ok(());
        };
        if !self.acquire(lock)? {
            return Err(self.busy(dir));
        }
        if self.access == Access::Change {
            // For others to read who wait. Nothing depends on it, so neither does success.
            let _ = lock.write_all_at(&padded(&self.note), 0);
        }
        Ok(())
    }

    /// Takes both locks again after [`Locks::release`].
    pub(super) fn retake(&mut self, dir: &Dir) -> Result<(), Error> {
        self.take_directory(dir)?;
        self.lock_file(dir)
    }

    /// Lets others in.
    pub(super) fn release(&self, dir: &Dir) {
        // Closing the descriptors releases the locks at the latest, so a failure here delays others, and no more.
        if let Some(lock) = &self.lock {
            let _ = fs2::FileExt::unlock(lock);
        }
        let _ = fs2::FileExt::unlock(dir.file());
    }

    fn take_directory(&self, dir: &Dir) -> Result<(), Error> {
        if dir.is_open_to_others() {
            return Ok(());
        }
        match self.acquire(dir.file()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.busy(dir)),
            // Some file systems lock files only.
            Err(Error::Io { source, .. }) if cannot_lock(&source) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn acquire(&self, file: &File) -> Result<bool, Error> {
        lock_within(file, self.access, self.timeout).map_err(|error| io_error(Verb::Lock, &self.path, error))
    }

    fn busy(&self, dir: &Dir) -> Error {
        Error::Locked { path: self.path.clone(), waited: self.timeout, holder: holder(dir) }
    }
}

/// Locks a file: tries at once; then waits in the kernel's queue, where the lock passes on without a pause. False: it was
/// held by others for all of the time. Closing the file releases the lock.
///
/// # Errors
/// When the file cannot be locked, or there is no thread to wait.
pub fn lock_within(file: &File, access: Access, timeout: Duration) -> io::Result<bool> {
    loop {
        let taken = match access {
            Access::Change => fs2::FileExt::try_lock_exclusive(file),
            Access::Read => fs2::FileExt::try_lock_shared(file),
        };
        match taken {
            Ok(()) => return Ok(true),
            Err(interrupted) if interrupted.kind() == io::ErrorKind::Interrupted => {}
            Err(busy) if busy.kind() == io::ErrorKind::WouldBlock => break,
            Err(other) => return Err(other),
        }
    }
    if timeout.is_zero() {
        return Ok(false);
    }
    queue(file, access, timeout)?.map_or(Ok(false), |outcome| outcome.map(|()| true))
}

/// Waits in the kernel's queue for a lock. `None`: not within the time.
///
/// A lock that waits cannot be given a time, so a thread waits for it: through a copy of the descriptor, to which the
/// lock belongs as well. Should it come too late, nobody takes it off the thread, and it goes with the copy.
fn queue(file: &File, access: Access, timeout: Duration) -> io::Result<Option<io::Result<()>>> {
    let copy = file.try_clone()?;
    let (done, outcome) = std::sync::mpsc::channel();
    let wait = move || {
        let taken = loop {
            let taken = match access {
                Access::Change => fs2::FileExt::lock_exclusive(&copy),
                Access::Read => fs2::FileExt::lock_shared(&copy),
            };
            match taken {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                taken => break taken,
            }
        };
        if done.send(taken).is_err() {
            // Nobody waits any more; releasing fails only where closing does it at once.
            let _ = fs2::FileExt::unlock(&copy);
        }
    };
    std::thread::Builder::new().name("lock".to_owned()).stack_size(WAITER_STACK_BYTES).spawn(wait)?;
    Ok(outcome.recv_timeout(timeout).ok())
}

fn open(dir: &Dir, access: Access) -> Result<Option<File>, Error> {
    let flags = match access {
        Access::Change => OFlag::O_RDWR,
        // Reading is enough for a shared lock, and all that a read-only file system or another user's store allows.
        Access::Read => OFlag::O_RDONLY,
    };
    if let Some(found) = dir.open_file(LOCK, flags)? {
        return Ok(Some(private(found, access)));
    }
    match access {
        Access::Change => match dir.create_file(LOCK)? {
            Some(made) => Ok(Some(made)),
            // Somebody was faster, where the directory could not be locked.
            None => Ok(dir.open_file(LOCK, flags)?.map(|found| private(found, access))),
        },
        Access::Read => Ok(None),
    }
}

/// Takes the permission to open the lock file from other users, who could hold the lock.
fn private(found: OpenFile, access: Access) -> File {
    if access == Access::Change && found.mode & 0o077 != 0 {
        // Fails for who is neither its owner nor root, and locks all the same.
        let _ = found.file.set_permissions(Permissions::from_mode(0o600));
    }
    found.file
}

/// Whether an error of a lock means that this kind of thing cannot be locked here.
fn cannot_lock(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let unsupported = [Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EINVAL, Errno::EBADF, Errno::ENOLCK];
    error.raw_os_error().is_some_and(|code| unsupported.contains(&Errno::from_raw(code)))
}

/// Who took the lock last, as noted there.
fn holder(dir: &Dir) -> Option<String> {
    let file = dir.open_file(LOCK, OFlag::O_RDONLY).ok().flatten()?;
    let mut note = [0; NOTE_BYTES];
    let read = file.file.read_at(&mut note, 0).ok()?;
    let text = String::from_utf8_lossy(note.get(..read)?);
    let line = text.lines().next().unwrap_or_default().trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// A note of fixed length, on one line.
fn padded(note: &str) -> Vec<u8> {
    let mut line = String::with_capacity(NOTE_BYTES);
    for c in note.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() >= NOTE_BYTES {
            break;
        }
        line.push(c);
    }
    let mut bytes = line.into_bytes();
    bytes.resize(NOTE_BYTES - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// The kernels that may use a file system at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernels {
    /// This one alone.
    One,
    /// Perhaps others too.
    Many,
}

/// Refuses a file system on which a lock may not exclude other machines. Cluster file systems, those in user space, and
/// those of a virtual machine's host keep locks, or are local; but other kernels may use them.
pub(super) fn refuse_network(dir: &Dir, path: &Path) -> Result<Kernels, Error> {
    let stat =
        nix::sys::statfs::fstatfs(dir.file()).map_err(|errno| io_error(Verb::Inspect, path, errno.into()))?;
    // The width and sign of the number differ between platforms; the numbers themselves have 32 bits.
    let magic = i128::from(stat.filesystem_type().0) & 0xffff_ffff;
    let file_system = match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x00c3_6400 => "Ceph",
        0x5346_414f | 0x6b41_4653 => "AFS",
        // FUSE and virtiofs, 9P, GFS2, OCFS2, Lustre, GPFS. Source: statfs(2), and the programs' own headers.
        0x6573_5546 | 0x0102_1997 | 0x0116_1970 | 0x7461_636f | 0x0bd0_0bd0 | 0x4750_4653 => {
            return Ok(Kernels::Many);
        }
        _ => return Ok(Kernels::One),
    };
    Err(Error::NetworkFileSystem { path: path.to_owned(), file_system })
}
