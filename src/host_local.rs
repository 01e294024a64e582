//! The directory that the `host-local` plugin keeps for a network.
//!
//! One file per address, with the address as its name: the container's ID and, from version 0.8 on, the interface's name
//! on a second line. host-local locks `lock` in the directory (flock) while it changes anything. So do we, for as short as
//! possible, except during an import. `crate::ipam` decides what becomes of the records; see the import module there.
//!
//! Two things in the directory are ours, and host-local ignores both: the mark on a record (its sticky bit, which has no
//! meaning on a file), and the stamp `.host-affine`.

mod record;
mod stamp;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use nix::fcntl::OFlag;

use crate::datastore::{Access, Error, Verb, lock_within};
use crate::host;
use crate::ipam::{
    Attachment, Claim, HostLocalLease, HostLocalRecords, ImportSource, Look, Scan, ValidAttachments,
};
use crate::net::parse_address;
use crate::netlink::Links;
use record::Record;

/// The name of host-local's lock file.
const LOCK: &str = "lock";

/// How long host-local's lock is waited for. With many records host-local needs about a second for one call.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Entries of the directory that a DEL looks at when nothing tells the address.
const SEARCH_MAX: usize = 512;

/// host-local's directory of one network.
pub struct HostLocalDirectory<'a> {
    path: PathBuf,
    links: &'a dyn Links,
    lock_timeout: Duration,
    boot_time: fn() -> Option<i64>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// host-local's lock, during an import.
    lock: Option<File>,
    /// The directory was there at the last look.
    exists: bool,
}

impl<'a> HostLocalDirectory<'a> {
    /// The directory at a path. It need not exist.
    pub fn new(path: PathBuf, links: &'a dyn Links) -> Self {
        Self {
            path,
            links,
            lock_timeout: LOCK_TIMEOUT,
            boot_time: host::boot_time,
            state: RefCell::default(),
        }
    }

    /// Removes the records of an attachment that was deleted, so that they are not imported later, and host-local finds
    /// no lease of it should it serve the network again.
    ///
    /// `addresses`: those that the store freed just now. Where it freed none, nothing tells the address, and a bounded
    /// number of records is read.
    ///
    /// # Errors
    /// When there is a directory that cannot be locked or read, or a record that cannot be removed.
    pub fn forget(&self, container_id: &str, ifname: &str, addresses: &[IpAddr]) -> Result<(), Error> {
        let is_its = |record: &Record| record.container_id == container_id && record.ifname == ifname;
        if !addresses.is_empty() || self.meta()?.is_none() {
            return self.remove_if(addresses, &is_its);
        }
        let mut found = Vec::new();
        for (seen, entry) in std::fs::read_dir(&self.path).map_err(self.failed(Verb::List))?.enumerate() {
            let entry = entry.map_err(self.failed(Verb::List))?;
            if seen == SEARCH_MAX {
                log::info!("{}: no record of container {container_id} among the first", self.path.display());
                break;
            }
            let Some(address) = entry.file_name().to_str().and_then(parse_address) else { continue };
            if self.read(address)?.is_some_and(|record| record.is_named() && is_its(&record)) {
                found.push(address);
            }
        }
        self.remove_if(&found, &is_its)
    }

    /// Removes the records of addresses that GC freed, unless they name an attachment that is valid.
    ///
    /// # Errors
    /// As [`HostLocalDirectory::forget`].
    pub fn forget_invalid(&self, addresses: &[IpAddr], valid: &ValidAttachments) -> Result<(), Error> {
        self.remove_if(addresses, &|record: &Record| {
            !valid.contains(&(record.container_id.clone(), record.ifname.clone()))
        })
    }

    /// Removes records by what they say, under host-local's lock.
    fn remove_if(&self, addresses: &[IpAddr], gone: &dyn Fn(&Record) -> bool) -> Result<(), Error> {
        if addresses.is_empty() || self.meta()?.is_none() {
            return Ok(());
        }
        let _lock = self.lock()?;
        let was_current = self.is_current()?;
        for &address in addresses {
            if self.read(address)?.is_some_and(|record| record.is_named() && gone(&record)) {
                self.remove(address)?;
            }
        }
        self.restamp(was_current)
    }

    fn remove(&self, address: IpAddr) -> Result<(), Error> {
        let path = self.path_of(address);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Io { verb: Verb::Remove, path, source })
            }
            _ => Ok(()),
        }
    }

    fn read(&self, address: IpAddr) -> Result<Option<Record>, Error> {
        let path = self.path_of(address);
        Record::read(&path).map_err(|source| Error::Io { verb: Verb::Read, path, source })
    }

    fn path_of(&self, address: IpAddr) -> PathBuf {
        self.path.join(address.to_string())
    }

    fn failed(&self, verb: Verb) -> impl Fn(io::Error) -> Error + '_ {
        move |source| Error::Io { verb, path: self.path.clone(), source }
    }

    /// The directory's metadata; `None`: there is none.
    fn meta(&self) -> Result<Option<Metadata>, Error> {
        match std::fs::metadata(&self.path) {
            Ok(meta) => Ok(Some(meta).filter(Metadata::is_dir)),
            // No directory can have such a name, either.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(self.failed(Verb::Inspect)(error)),
        }
    }

    /// Takes host-local's lock until the file is dropped; `None`: the import has it.
    fn lock(&self) -> Result<Option<File>, Error> {
        if self.state.borrow().lock.is_some() {
            return Ok(None);
        }
        let path = self.path.join(LOCK);
        // As host-local makes it, where only its records were copied here.
        let opened = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(&path);
        let file = opened.map_err(|source| Error::Io { verb: Verb::Open, path: path.clone(), source })?;
        self.wait_for(&file, path, Access::Change)?;
        Ok(Some(file))
    }

    /// Takes host-local's lock for reading; `None`: there is no lock, so host-local never ran on this directory.
    fn lock_shared(&self) -> Result<Option<File>, Error> {
        let path = self.path.join(LOCK);
        match File::open(&path) {
            Ok(file) => {
                self.wait_for(&file, path, Access::Read)?;
                Ok(Some(file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { verb: Verb::Open, path, source }),
        }
    }

    fn wait_for(&self, lock: &File, path: PathBuf, access: Access) -> Result<(), Error> {
        match lock_within(lock, access, self.lock_timeout) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Locked { path, waited: self.lock_timeout, holder: None }),
            Err(source) => Err(Error::Io { verb: Verb::Lock, path, source }),
        }
    }

    fn is_current(&self) -> Result<bool, Error> {
        Ok(self.meta()?.is_some_and(|meta| stamp::is_current(&self.path, &meta)))
    }

    /// Stamps the directory again after a change of our own.
    fn restamp(&self, was_current: bool) -> Result<(), Error> {
        if was_current { stamp::renew(&self.path).map_err(self.failed(Verb::Write)) } else { Ok(()) }
    }

    fn scan_locked(&self, scan: Scan, wanted: &dyn Fn(IpAddr) -> bool) -> Result<HostLocalRecords, Error> {
        let mut records = HostLocalRecords::default();
        let mut aged = BTreeSet::new();
        let mut boot_time = None;
        for entry in std::fs::read_dir(&self.path).map_err(self.failed(Verb::List))? {
            let entry = entry.map_err(self.failed(Verb::List))?;
            let address = entry.file_name().to_str().and_then(parse_address);
            let Some(address) = address.filter(|address| wanted(*address)) else { continue };
            if scan == Scan::Unmarked && record::is_marked(&self.path_of(address)) {
                continue;
            }
            // `None`: it was freed meanwhile, or is no record at all.
            let Some(record) = self.read(address)? else { continue };
            if !record.is_named() {
                records.nameless.push(address);
                continue;
            }
            // Where the kernel does not tell, nothing is from before.
            let began = || (self.boot_time)().unwrap_or(i64::MIN);
            if record.changed < *boot_time.get_or_insert_with(began) {
                aged.insert(address);
            }
            records.leases.push(HostLocalLease {
                address,
                container_id: record.container_id,
                ifname: record.ifname,
                is_marked: record.is_marked,
            });
        }
        records.leases.sort_by_key(|lease| lease.address);
        records.nameless.sort_unstable();
        self.take_out_dead(&mut records, &aged);
        Ok(records)
    }

    /// Old records whose addresses no network namespace has are dead. In doubt they are not.
    fn take_out_dead(&self, records: &mut HostLocalRecords, aged: &BTreeSet<IpAddr>) {
        if aged.is_empty() {
            return;
        }
        let in_use = match self.links.addresses_everywhere() {
            Ok(in_use) => in_use,
            Err(error) => {
                log::warn!("records from before this boot count as alive: {error}");
                return;
            }
        };
        let is_dead =
            |lease: &HostLocalLease| aged.contains(&lease.address) && !in_use.contains(&lease.address);
        let (dead, alive) = std::mem::take(&mut records.leases).into_iter().partition(is_dead);
        (records.dead, records.leases) = (dead, alive);
    }
}

impl ImportSource for HostLocalDirectory<'_> {
    fn directory(&self) -> String {
        self.path.display().to_string()
    }

    fn look(&self) -> Result<Option<Look>, Error> {
        let meta = self.meta()?;
        self.state.borrow_mut().exists = meta.is_some();
        Ok(meta.map(|meta| Look { inode: meta.ino(), is_unchanged: stamp::is_current(&self.path, &meta) }))
    }

    fn scan(&self, scan: Scan, wanted: &dyn Fn(IpAddr) -> bool) -> Result<HostLocalRecords, Error> {
        if scan == Scan::Show {
            let _lock = self.lock_shared()?;
            return self.scan_locked(scan, wanted);
        }
        let lock = self.lock()?;
        if lock.is_some() {
            self.state.borrow_mut().lock = lock;
        }
        self.scan_locked(scan, wanted)
    }

    fn mark(&self, leases: &[HostLocalLease]) -> Result<(), Error> {
        for lease in leases.iter().filter(|lease| !lease.is_marked) {
            let path = self.path_of(lease.address);
            record::mark(&path).map_err(|source| Error::Io { verb: Verb::Write, path, source })?;
        }
        Ok(())
    }

    fn finish(&self, records: &HostLocalRecords) -> Result<(), Error> {
        for lease in &records.dead {
            self.remove(lease.address)?;
            log::info!("{}: {} is of a container from before this boot", self.path.display(), lease.address);
        }
        let stamped = stamp::set(&self.path, &records.nameless).map_err(self.failed(Verb::Write));
        self.state.borrow_mut().lock = None;
        stamped
    }

    fn claim(&self, address: IpAddr, attachment: &Attachment) -> Result<Claim, Error> {
        if !self.state.borrow().exists {
            return Ok(Claim::Held);
        }
        let _lock = self.lock()?;
        let was_current = self.is_current()?;
        let path = self.path_of(address);
        let claimed = record::claim(&path, &attachment.container_id, &attachment.ifname);
        let claim = claimed.map_err(|source| Error::Io { verb: Verb::Create, path, source })?;
        self.restamp(was_current)?;
        Ok(claim)
    }

    fn withdraw(&self, addresses: &[IpAddr], attachment: &Attachment) {
        let is_its = |record: &Record| {
            record.is_marked
                && record.container_id == attachment.container_id
                && record.ifname == attachment.ifname
        };
        if let Err(error) = self.remove_if(addresses, &is_its) {
            log::warn!("records of addresses that were not assigned remain: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
