//! The turn of a process among those of its host, as Calico's plugin takes it too: by the lock of one file. Nothing
//! depends on it but how often processes get in each other's way, so one that cannot be had is done without.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use nix::fcntl::OFlag;

/// The stack of the thread that waits, in bytes: it makes one system call.
const WAITER_STACK_BYTES: usize = 64 << 10;

/// Held as long as it lives.
#[derive(Debug)]
pub(super) struct Turn {
    _file: File,
}

impl Turn {
    /// Waits for the lock for some time. `None`: it goes without.
    pub(super) fn take(path: &Path, timeout: Duration) -> Option<Self> {
        match lock(path, timeout) {
            Ok(Some(file)) => return Some(Self { _file: file }),
            Ok(None) => log::warn!("no turn by {} within {} s", path.display(), timeout.as_secs()),
            Err(error) => log::info!("no turn by {}: {error}", path.display()),
        }
        None
    }
}

fn lock(path: &Path, timeout: Duration) -> io::Result<Option<File>> {
    let file = open(path)?;
    match fs2::FileExt::try_lock_exclusive(&file) {
        Ok(()) => return Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    if timeout.is_zero() {
        return Ok(None);
    }
    // A lock that waits cannot be given a time, so a thread waits for it, through a copy of the descriptor. Should it
    // come too late, it goes with the copy.
    let copy = file.try_clone()?;
    let (done, outcome) = mpsc::channel();
    let wait = move || {
        if done.send(fs2::FileExt::lock_exclusive(&copy)).is_err() {
            let _ = fs2::FileExt::unlock(&copy);
        }
    };
    std::thread::Builder::new().name("turn".to_owned()).stack_size(WAITER_STACK_BYTES).spawn(wait)?;
    match outcome.recv_timeout(timeout) {
        Ok(taken) => taken.map(|()| Some(file)),
        Err(_) => Ok(None),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW.bits();
    let try_open = || {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
    };
    match (try_open(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(parent)?;
            try_open()
        }
        (opened, _) => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_it_and_nobody_fails_without() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("calico/ipam.lock");
        let first = Turn::take(&path, Duration::ZERO);
        assert!(first.is_some());
        assert!(Turn::take(&path, Duration::ZERO).is_none());
        let (path_of_other, waits) = (path.clone(), Duration::from_secs(60));
        let other = std::thread::spawn(move || Turn::take(&path_of_other, waits).is_some());
        drop(first);
        assert!(other.join().expect("the other ends"), "the turn passes on");
        assert!(Turn::take(Path::new("/proc/nothing/lock"), Duration::ZERO).is_none());
    }
}
