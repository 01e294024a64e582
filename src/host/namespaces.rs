//! Looks at network namespaces and processes of this host.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::statfs::{FsType, statfs};
use nix::unistd::Pid;
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};

use super::read_small;
use crate::clock::Timestamp;
use crate::ipam::{FileId, Inhabited, NamespaceFile, Namespaces, Netns, Probe, ProcessId, process_of};

/// The file system of namespaces. Source: `NSFS_MAGIC` of `linux/magic.h`.
const NSFS: FsType = FsType(0x6e73_6673);
/// The PID namespace of this process.
const OWN_PID_NAMESPACE: &str = "/proc/self/ns/pid";
/// The inode of the first PID namespace, in which every process can be seen. Source: `PROC_PID_INIT_INO` of `linux/proc_ns.h`.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// Symbolic links that are followed from a path.
const LINKS_MAX: usize = 8;
/// The field of `/proc/PID/stat` with the start time, counted after the command's name. Source: proc(5).
const START_TIME: usize = 19;

/// The system that this process runs on.
#[derive(Clone, Copy, Debug)]
pub struct ThisHost;

impl Namespaces for ThisHost {
    fn file(&self, path: &Path) -> Probe<NamespaceFile> {
        probe(look(path, StatxFlags::INO).map(|found| NamespaceFile {
            id: FileId { born: None, ..id(&found) },
            is_namespace: statfs(path).is_ok_and(|found| found.filesystem_type() == NSFS),
        }))
    }

    fn directory(&self, path: &Path) -> Probe<FileId> {
        probe(look(path, StatxFlags::INO | StatxFlags::BTIME).map(|found| id(&found)))
    }

    fn process(&self, pid: u32) -> Probe<ProcessId> {
        let Some(pid_namespace) = self.pid_namespace() else {
            return Probe::Unknown("/proc does not show this process".to_owned());
        };
        if exists_hidden(pid) {
            return Probe::Unknown("/proc hides it".to_owned());
        }
        match read_small(Path::new(&format!("/proc/{pid}/stat"))) {
            Ok(text) => match start_of(&text) {
                Some(start) => Probe::Found(ProcessId { start, pid_namespace }),
                None => Probe::Unknown(format!("/proc/{pid}/stat has another form")),
            },
            Err(error) => probe(Err(error)),
        }
    }

    fn pid_namespace(&self) -> Option<u64> {
        // In a `/proc` of another PID namespace this process has another number, or none.
        let own = std::fs::read_link("/proc/self").ok()?;
        let is_ours = own.to_str()?.parse() == Ok(std::process::id());
        if !is_ours {
            return None;
        }
        look(Path::new(OWN_PID_NAMESPACE), StatxFlags::INO).ok().map(|found| found.stx_ino)
    }

    fn inhabited(&self, id: FileId) -> Inhabited {
        static SEEN: OnceLock<Seen> = OnceLock::new();
        let seen = SEEN.get_or_init(Seen::of_processes);
        match (seen.namespaces.contains(&(id.device, id.inode)), seen.is_whole) {
            (true, _) => Inhabited::Yes,
            (false, true) => Inhabited::No,
            (false, false) => Inhabited::NotSeen,
        }
    }

    fn booted(&self) -> Option<Timestamp> {
        static BOOTED: OnceLock<Option<Timestamp>> = OnceLock::new();
        *BOOTED.get_or_init(|| {
            let seconds = u64::try_from(super::boot_time()?).ok()?;
            seconds.checked_mul(1_000_000_000).map(Timestamp::from_nanos)
        })
    }
}

/// Does a process exist that `/proc` does not show, as with its option `hidepid`?
fn exists_hidden(pid: u32) -> bool {
    let exists = i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH));
    exists && look(Path::new(&format!("/proc/{pid}/stat")), StatxFlags::INO).is_err()
}

/// The network namespaces of all processes that can be seen.
struct Seen {
    namespaces: BTreeSet<(u64, u64)>,
    /// Are these all processes of the system?
    is_whole: bool,
}

impl Seen {
    fn of_processes() -> Self {
        let mut seen = Self {
            namespaces: BTreeSet::new(),
            is_whole: ThisHost.pid_namespace() == Some(FIRST_PID_NAMESPACE),
        };
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return Self { is_whole: false, ..seen };
        };
        for entry in entries {
            let Ok(entry) = entry else {
                seen.is_whole = false;
                continue;
            };
            if entry.file_name().to_str().is_none_or(|name| name.parse::<u32>().is_err()) {
                continue;
            }
            match look(&entry.path().join("ns/net"), StatxFlags::INO) {
                Ok(found) => {
                    let id = id(&found);
                    seen.namespaces.insert((id.device, id.inode));
                }
                // It ended meanwhile, or is a zombie, which has no namespace.
                Err(error) if error.kind() == io::ErrorKind::NotFound || is_gone(&error) => {}
                Err(_) => seen.is_whole = false,
            }
        }
        seen
    }
}

/// A path without symbolic links in its last part, since a link may go while the namespace stays. The links of `/proc` are
/// the kernel's and lead nowhere by their text.
fn without_link(path: PathBuf) -> PathBuf {
    let mut path = path;
    for _ in 0..LINKS_MAX {
        if path.starts_with("/proc") {
            break;
        }
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    path
}

/// The identity of a network namespace whose path a runtime names.
#[must_use]
pub fn netns(path: &str) -> Netns {
    let absolute = without_link(std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path)));
    let Some(id) = file_id(&absolute) else {
        return Netns { path: absolute.display().to_string(), ..Netns::default() };
    };
    let process = process_of(&absolute).and_then(|pid| match ThisHost.process(pid) {
        Probe::Found(process) => Some(process),
        Probe::Absent | Probe::Unknown(_) => None,
    });
    let directory =
        absolute.parent().filter(|_| process.is_none()).and_then(|parent| match ThisHost.directory(parent) {
            Probe::Found(id) => Some(id),
            Probe::Absent | Probe::Unknown(_) => None,
        });
    Netns { id: Some(id), directory, process, path: absolute.display().to_string() }
}

/// Device and inode of a file, if it can be looked at.
#[must_use]
pub fn file_id(path: &Path) -> Option<FileId> {
    look(path, StatxFlags::INO).ok().map(|found| FileId { born: None, ..id(&found) })
}

fn look(path: &Path, what: StatxFlags) -> io::Result<Statx> {
    statx(CWD, path, AtFlags::NO_AUTOMOUNT, what).map_err(io::Error::from)
}

fn id(found: &Statx) -> FileId {
    let born = || {
        let seconds = u64::try_from(found.stx_btime.tv_sec).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(u64::from(found.stx_btime.tv_nsec))
    };
    let has_born = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    FileId {
        device: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
        inode: found.stx_ino,
        born: has_born.then(born).flatten(),
    }
}

fn probe<T>(looked: io::Result<T>) -> Probe<T> {
    match looked {
        Ok(found) => Probe::Found(found),
        // A process that ends while its files are read answers ESRCH.
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_gone(&error) => Probe::Absent,
        Err(error) => Probe::Unknown(error.to_string()),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

/// The start time in a `/proc/PID/stat`. The command's name may hold anything, so the last parenthesis ends it.
fn start_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(START_TIME)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_follows_any_command_name() {
        let fields = "S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        for name in ["sleep", "a b", "x) R 1", ""] {
            assert_eq!(start_of(&format!("12 ({name}) {fields}")), Some(4711), "{name}");
        }
        assert_eq!(start_of("12 (sleep) S 1"), None);
    }

    #[test]
    fn own_process_and_namespace_are_found() {
        assert!(matches!(ThisHost.process(std::process::id()), Probe::Found(_)));
        assert_eq!(ThisHost.process(u32::MAX), Probe::Absent);
        let Probe::Found(file) = ThisHost.file(Path::new("/proc/self/ns/net")) else { panic!("a namespace") };
        assert!(file.is_namespace);
        assert_eq!(file_id(Path::new("/proc/self/ns/net")), Some(file.id));
    }

    #[test]
    fn directory_created_again_is_another() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("netns");
        std::fs::create_dir(&path).expect("a directory");
        let before = ThisHost.directory(&path);
        assert_eq!(ThisHost.directory(&path), before);
        std::fs::remove_dir(&path).expect("removed");
        assert_eq!(ThisHost.directory(&path), Probe::Absent);
        // The inode is used again, and the file system's clock ticks every few milliseconds.
        let differs = (0..1_000_000).any(|_| {
            std::fs::create_dir(&path).expect("a directory");
            let now = ThisHost.directory(&path);
            std::fs::remove_dir(&path).expect("removed");
            now != before
        });
        assert!(differs, "the time of birth is part of the identity");
    }
}
