//! The records that the `host-local` plugin keeps: one file per address, named after it, in a directory per network;
//! in it the container's ID and, from version 0.8 on, the interface's name on a second line.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::datastore::{Error, Verb};
use crate::ipam::{HostLocalLease, TakeoverRequest};
use crate::net::parse_address;

/// The interface of a record of an old version, which named none.
const OLD_IFNAME: &str = "eth0";

/// host-local's directory of one network.
#[derive(Clone, Debug)]
pub struct HostLocalDirectory {
    path: PathBuf,
}

impl HostLocalDirectory {
    /// The directory at a path. It need not exist.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Removes the record of an attachment that was deleted, so that it is not taken over later, and host-local finds
    /// no lease of the dead should it serve the network again.
    ///
    /// # Errors
    /// When there is a directory that cannot be read, or a record that cannot be removed.
    pub fn forget(&self, container_id: &str, ifname: &str) -> Result<(), Error> {
        if self.modified().is_none() {
            return Ok(());
        }
        for lease in self.leases()? {
            if lease.container_id == container_id && lease.ifname == ifname {
                let path = self.path.join(lease.address.to_string());
                match std::fs::remove_file(&path) {
                    Err(source) if source.kind() != io::ErrorKind::NotFound => {
                        return Err(Error::Io { verb: Verb::Remove, path, source });
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl TakeoverRequest for HostLocalDirectory {
    fn directory(&self) -> String {
        self.path.display().to_string()
    }

    fn modified(&self) -> Option<u64> {
        let meta = std::fs::symlink_metadata(&self.path).ok().filter(std::fs::Metadata::is_dir)?;
        Some(nanos(&meta))
    }

    fn leases(&self) -> Result<Vec<HostLocalLease>, Error> {
        let fail = |verb, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { verb, path, source }
        };
        let mut leases = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(fail(Verb::List, &self.path))? {
            let entry = entry.map_err(fail(Verb::List, &self.path))?;
            let Some(address) = entry.file_name().to_str().and_then(parse_address) else { continue };
            let path = entry.path();
            let meta = match std::fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_file() => meta,
                // Freed meanwhile, or no record at all.
                _ => continue,
            };
            let text = std::fs::read_to_string(&path).map_err(fail(Verb::Read, &path))?;
            if let Some(lease) = parse(address, &text, nanos(&meta)) {
                leases.push(lease);
            }
        }
        leases.sort_by_key(|lease| lease.address);
        Ok(leases)
    }
}

fn nanos(meta: &std::fs::Metadata) -> u64 {
    let seconds = u64::try_from(meta.mtime()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(meta.mtime_nsec()).unwrap_or(0))
}

/// A record's text. `None`: it names nobody, as after a kill between making and writing it.
fn parse(address: IpAddr, text: &str, modified: u64) -> Option<HostLocalLease> {
    let mut lines = text.lines().map(str::trim);
    let container_id = lines.next().filter(|id| !id.is_empty())?.to_owned();
    let ifname = lines.next().filter(|name| !name.is_empty()).unwrap_or(OLD_IFNAME).to_owned();
    Some(HostLocalLease { address, container_id, ifname, modified })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, HostLocalDirectory) {
        let temp = tempfile::tempdir().expect("a directory");
        let directory = HostLocalDirectory::new(temp.path().to_owned());
        (temp, directory)
    }

    #[expect(clippy::disallowed_methods, reason = "host-local's files are not the store's")]
    fn record(temp: &tempfile::TempDir, name: &str, text: &str) {
        std::fs::write(temp.path().join(name), text).expect("a record");
    }

    #[test]
    fn records_of_every_version_are_read_and_all_else_is_passed_over() {
        let (temp, directory) = directory();
        record(&temp, "10.1.0.2", "c1\r\neth1");
        record(&temp, "10.1.0.3", "c2");
        record(&temp, "fd00::5", "c3\r\neth0\r\n");
        record(&temp, "10.1.0.4", "");
        record(&temp, "last_reserved_ip.0", "10.1.0.3");
        record(&temp, "lock", "");
        let leases = directory.leases().expect("leases");
        let seen: Vec<_> =
            leases.iter().map(|l| format!("{} {} {}", l.address, l.container_id, l.ifname)).collect();
        assert_eq!(seen, ["10.1.0.2 c1 eth1", "10.1.0.3 c2 eth0", "fd00::5 c3 eth0"]);
        assert!(directory.modified().is_some());
    }

    #[test]
    fn only_the_attachment_that_is_deleted_is_forgotten() {
        let (temp, directory) = directory();
        record(&temp, "10.1.0.2", "c1\r\neth0");
        record(&temp, "10.1.0.3", "c1\r\neth1");
        record(&temp, "10.1.0.4", "c2\r\neth0");
        directory.forget("c1", "eth0").expect("forgotten");
        let left: Vec<_> =
            directory.leases().expect("leases").into_iter().map(|l| l.address.to_string()).collect();
        assert_eq!(left, ["10.1.0.3", "10.1.0.4"]);
        HostLocalDirectory::new(temp.path().join("absent")).forget("c", "eth0").expect("nothing to forget");
    }
}
