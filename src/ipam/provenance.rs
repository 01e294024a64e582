//! Notes of an allocation about the place and time of its ADD: host, boot, and the container's network namespace.
//!
//! They are extra keys of the attribute map, which Calico ignores. Records of Calico, and older ones of ours, note less.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::Host;
use super::owner::key;
use crate::clock::Timestamp;

/// Identity of a file: `device:inode`, for a directory also its time of birth, since inodes are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The device.
    pub device: u64,
    /// The inode on it.
    pub inode: u64,
    /// Nanoseconds from 1970 to its creation, where the file system records that.
    pub born: Option<u64>,
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)?;
        self.born.map_or(Ok(()), |born| write!(f, ":{born}"))
    }
}

impl FromStr for FileId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(':').map(|part| part.parse().map_err(drop));
        let mut next = || parts.next().transpose();
        let (device, inode, born) = (next()?.ok_or(())?, next()?.ok_or(())?, next()?);
        if next()?.is_some() { Err(()) } else { Ok(Self { device, inode, born }) }
    }
}

/// Identity of a process: `start:namespace`, its start time in clock ticks and the inode of its PID namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// Clock ticks from the boot to its start.
    pub start: u64,
    /// The inode of the PID namespace whose numbers `/proc` shows.
    pub pid_namespace: u64,
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.start, self.pid_namespace)
    }
}

impl FromStr for ProcessId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (start, namespace) = text.split_once(':').ok_or(())?;
        Ok(Self { start: start.parse().map_err(drop)?, pid_namespace: namespace.parse().map_err(drop)? })
    }
}

/// The network namespace of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Netns {
    /// Its path, absolute.
    pub path: String,
    /// The file at the path.
    pub id: Option<FileId>,
    /// The directory that holds the path.
    pub directory: Option<FileId>,
    /// The process of a path `/proc/PID/…`.
    pub process: Option<ProcessId>,
}

/// Writes down where and when an ADD runs.
pub(super) fn note(notes: &mut BTreeMap<String, String>, host: &Host, netns: Option<&Netns>) {
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            notes.insert(key.to_owned(), value);
        }
    };
    put(key::BOOT, host.boot.clone());
    put(key::BOOTED, host.booted.map(|began| (began.as_nanos() / 1_000_000_000).to_string()));
    put(key::HOST_NETNS, host.netns.map(|id| id.to_string()));
    if let Some(netns) = netns {
        put(key::NETNS, Some(netns.path.clone()));
        put(key::NETNS_ID, netns.id.map(|id| id.to_string()));
        put(key::NETNS_DIR, netns.directory.map(|id| id.to_string()));
        put(key::NETNS_PROCESS, netns.process.map(|id| id.to_string()));
    }
}

/// The keys that [`note`] writes.
pub(super) const KEYS: [&str; 7] =
    [key::BOOT, key::BOOTED, key::HOST_NETNS, key::NETNS, key::NETNS_ID, key::NETNS_DIR, key::NETNS_PROCESS];

/// Notes that were read. What does not parse counts as not noted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noted<'a> {
    /// The node's name.
    pub node: Option<&'a str>,
    /// The boot ID.
    pub boot: Option<&'a str>,
    /// The beginning of the boot.
    pub booted: Option<Timestamp>,
    /// The network namespace in which the plugin ran.
    pub host_netns: Option<FileId>,
    /// The time of the assignment.
    pub made: Option<Timestamp>,
    /// The path of the container's network namespace.
    pub netns: Option<&'a str>,
    /// The file at that path.
    pub netns_id: Option<FileId>,
    /// The directory that holds the path.
    pub netns_dir: Option<FileId>,
    /// The process of a path `/proc/PID/…`.
    pub process: Option<ProcessId>,
    attached: bool,
}

impl<'a> Noted<'a> {
    /// Reads the notes about an owner.
    #[must_use]
    pub fn of(notes: &'a BTreeMap<String, String>) -> Self {
        let text = |key: &str| notes.get(key).map(String::as_str);
        let id = |key: &str| text(key).and_then(|text| text.parse().ok());
        let seconds =
            |text: &str| text.parse::<u64>().ok()?.checked_mul(1_000_000_000).map(Timestamp::from_nanos);
        Self {
            node: text(key::NODE),
            boot: text(key::BOOT),
            booted: text(key::BOOTED).and_then(seconds),
            host_netns: id(key::HOST_NETNS),
            made: text(key::TIMESTAMP).and_then(Timestamp::parse_go_string),
            netns: text(key::NETNS),
            netns_id: id(key::NETNS_ID),
            netns_dir: id(key::NETNS_DIR),
            process: text(key::NETNS_PROCESS).and_then(|text| text.parse().ok()),
            attached: notes.contains_key(key::NETWORK)
                && !notes.contains_key(key::TYPE)
                && !notes.contains_key(key::VMI_NAME),
        }
    }

    /// Reads the notes about an attachment of a virtual machine, whose node stands beside them.
    #[must_use]
    pub fn of_attachment(node: &'a str, since: Timestamp, notes: &'a BTreeMap<String, String>) -> Self {
        Self { node: Some(node), made: Some(since), attached: true, ..Self::of(notes) }
    }

    /// Did a runtime attach it? Only such an attachment can be dead.
    #[must_use]
    pub const fn is_attachment(&self) -> bool {
        self.attached
    }
}
