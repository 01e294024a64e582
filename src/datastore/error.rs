use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Fault;

/// Why a datastore could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused. Nothing was changed.
    #[error("could not {verb} {}", shown(.path))]
    Io {
        /// What was tried.
        verb: Verb,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else kept the lock. Nothing was changed; the same call may work later.
    #[error("could not lock {} within {} s{}", shown(.path), .waited.as_secs(), holder_note(.holder.as_deref()))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
        /// Who took it last, as that process noted it.
        holder: Option<String>,
    },
    /// A file holds what no version of this program writes. Nothing was changed.
    #[error("{} is damaged: {problem}", shown(.path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The store was written by a newer version. Nothing was changed.
    #[error("{} is of format {found}; this version reads up to format {supported}", shown(.path))]
    NewerFormat {
        /// The file that says so.
        path: PathBuf,
        /// The format found.
        found: String,
        /// The newest format that is understood.
        supported: u32,
    },
    /// Somebody else could change the store. Nothing was read or changed.
    #[error("{} is not safe to use: {problem}", shown(.path))]
    Unsafe {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The store lies on a file system where locks mean something else. Nothing was read or changed.
    #[error("{} lies on a network file system ({file_system}), where a lock may not exclude other machines", shown(.path))]
    NetworkFileSystem {
        /// The store's directory.
        path: PathBuf,
        /// Its kind.
        file_system: &'static str,
    },
    /// The journal has no room for a change that takes space. Nothing was changed; what releases still works.
    #[error("the journal {} is full ({used} bytes wait to be written out)", shown(.path))]
    JournalFull {
        /// The journal.
        path: PathBuf,
        /// How much of it is in use.
        used: u64,
    },
    /// A server of the store did not do it.
    #[error("{} {server}: {problem}", .fault.headline())]
    Remote {
        /// Which, or which option.
        server: String,
        /// What that means.
        fault: Fault,
        /// What it said, or what happened.
        problem: String,
    },
    /// The outcome of a commit could not be found out. It may have been applied.
    #[error("it is unknown whether the change of {what} was stored")]
    OutcomeUnknown {
        /// What was to be changed.
        what: String,
    },
    /// The store keeps that place for something else. Nothing was changed.
    #[error("{what} cannot be stored: {problem}")]
    NotStorable {
        /// What was to be stored.
        what: String,
        /// Why not.
        problem: String,
    },
}

/// A path or key on one line: names in it may hold line ends and other control characters.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    if text.chars().any(char::is_control) { text.escape_debug().to_string() } else { text }
}

fn holder_note(holder: Option<&str>) -> String {
    holder.map(|holder| format!("; last taken by {}", holder.escape_debug())).unwrap_or_default()
}

impl Error {
    /// What the caller may do next.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Locked { .. } => Class::Retry,
            Error::Remote { fault, .. } => fault.class(),
            Error::NewerFormat { .. }
            | Error::Unsafe { .. }
            | Error::NetworkFileSystem { .. }
            | Error::NotStorable { .. } => Class::Refused,
            Error::Io { .. }
            | Error::Damaged { .. }
            | Error::JournalFull { .. }
            | Error::OutcomeUnknown { .. } => Class::Broken,
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Error::Io { path, source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    format!("free space on the file system of {}; nothing was changed", shown(path))
                }
                io::ErrorKind::PermissionDenied => "run it as the owner of the store".to_owned(),
                io::ErrorKind::ReadOnlyFilesystem => "make the file system writable; reading works meanwhile".to_owned(),
                _ => "nothing was changed; mend the file system and ask again".to_owned(),
            },
            Error::Locked { .. } => "nothing was changed; a runtime asks again by itself".to_owned(),
            Error::Damaged { .. } => {
                "nothing was changed; put the file back from a backup; calls that do not need it go on working".to_owned()
            }
            Error::NewerFormat { .. } => "install the version that wrote the store, or a newer one".to_owned(),
            Error::Unsafe { path, .. } => format!(
                "make {} a directory or file of root's that nobody else may write to, or name another store",
                shown(path)
            ),
            Error::NetworkFileSystem { .. } => {
                "use a local directory, or set `\"allowNetworkFilesystem\": true` in `ipam.datastore`".to_owned()
            }
            Error::JournalFull { path, .. } => format!(
                "releases still work; free space on the file system of {} so that it can be written out",
                shown(path)
            ),
            Error::NotStorable { .. } => "nothing was changed; choose another name".to_owned(),
            Error::Remote { fault, .. } => fault.hint().to_owned(),
            Error::OutcomeUnknown { .. } => "a DEL frees what it may have stored; then ask again".to_owned(),
        }
    }
}

/// What was tried with a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the word that the message prints")]
pub enum Verb {
    Open,
    Create,
    Read,
    Write,
    Sync,
    List,
    Rename,
    Remove,
    Lock,
    Inspect,
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Verb::Open => "open",
            Verb::Create => "create",
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::Sync => "flush",
            Verb::List => "list",
            Verb::Rename => "rename",
            Verb::Remove => "remove",
            Verb::Lock => "lock",
            Verb::Inspect => "inspect",
        })
    }
}

/// What the caller of a failed operation may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Ask again later, unchanged.
    Retry,
    /// Change the request or the configuration.
    Refused,
    /// Look again: what was read has changed.
    Stale,
    /// Mend something outside.
    Broken,
}
