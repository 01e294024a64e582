//! The network namespaces of this host.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;

/// Directory of named namespaces.
const NAMED: &str = "/run/netns";
const PROCESSES: &str = "/proc";
/// The counters of a process's network namespace.
const COUNTERS: &str = "net/dev";

/// Device and inode.
type Id = (u64, u64);
/// Paths at which one namespace is found.
type Paths = Vec<PathBuf>;
/// A path that could not be looked at.
type Failed = (PathBuf, io::Error);

/// Every network namespace that has a name or a process, each once, with all its paths: a process may end meanwhile.
///
/// The kernel hides the namespace of a process that has more privileges than the caller. It shows the process's network
/// counters all the same, which are one file per namespace: so a namespace that another process leads to is known.
pub(super) fn all() -> Result<Vec<Paths>, Failed> {
    let mut found: BTreeMap<Id, Paths> = BTreeMap::new();
    for name in names_in(Path::new(NAMED))? {
        let path = Path::new(NAMED).join(name);
        if let Some(id) = id_of(&path).map_err(|error| (path.clone(), error))? {
            found.entry(id).or_default().push(path);
        }
    }
    let mut counters: BTreeMap<Id, Id> = BTreeMap::new();
    let mut hidden = Vec::new();
    for name in names_in(Path::new(PROCESSES))? {
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let process = Path::new(PROCESSES).join(name);
        let path = process.join("ns/net");
        match id_of(&path) {
            Ok(Some(id)) => {
                if let Entry::Vacant(unknown) = counters.entry(id)
                    && let Ok(Some(counted)) = id_of(&process.join(COUNTERS))
                {
                    unknown.insert(counted);
                }
                found.entry(id).or_default().push(path);
            }
            Ok(None) => {}
            Err(error) => hidden.push((process, path, error)),
        }
    }
    for (process, path, error) in hidden {
        match id_of(&process.join(COUNTERS)) {
            Ok(Some(counted)) if counters.values().any(|known| *known == counted) => {}
            Ok(None) => {}
            _ => return Err((path, error)),
        }
    }
    Ok(found.into_values().collect())
}

/// `None`: nothing is there any more.
fn id_of(path: &Path) -> io::Result<Option<Id>> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some((meta.dev(), meta.ino()))),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a namespace; `None`: it is gone.
pub(super) fn open(paths: &Paths) -> Result<Option<File>, Failed> {
    for path in paths {
        // A pipe without a writer must not be waited for.
        match File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path) {
            Ok(file) => return Ok(Some(file)),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err((path.clone(), error)),
        }
    }
    Ok(None)
}

fn names_in(dir: &Path) -> Result<Vec<String>, Failed> {
    let failed = |error| (dir.to_owned(), error);
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        match name.into_string() {
            Ok(name) => names.push(name),
            Err(name) => return Err((dir.join(name), io::ErrorKind::InvalidInput.into())),
        }
    }
    Ok(names)
}

/// Nothing is at the path any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOENT | Errno::ESRCH))
}
