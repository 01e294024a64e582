//! Import of the leases that host-local recorded for a network.
//!
//! The promise: no address that a record of host-local names is ever given to somebody else, and host-local never gives
//! an address that was assigned here.
//!
//! # Two mechanisms
//!
//! **Claims carry the promise.** Before an address is committed, its record is created in host-local's directory, the way
//! host-local does it: exclusively, under host-local's lock ([`ImportSource::claim`]). If a record exists already, the
//! address is somebody's, and the search goes on without it. So nothing depends on when a record was written, by which of
//! several configurations of one network name, or with which times. A record without text is held by somebody unknown; it
//! is asked for again by every call that would choose its address. The cost is the same whatever the directory holds. And
//! host-local finds all addresses on record: it can serve the network again, or at the same time.
//!
//! **The import makes leases known to the store**, so that an ADD that is repeated, DEL, GC and `show` find them. It reads
//! the directory at the first ADD of each configuration, and after something in it changed. An unchanged directory is told
//! by a stamp ([`ImportSource::look`]). The stamp rests on times, and so may miss a change; then a lease is imported later,
//! or when its address would be chosen, and the claim keeps it from being given meanwhile.
//!
//! # Marks
//!
//! A record that the store knows is marked, in the record itself: the leases that were imported, and our own claims. The
//! store decides about the address of such a record. Therefore an address that was freed by another way than DEL (GC,
//! `ipam release`, a boot) is usable again although its record remains. A record is marked only after its lease was
//! committed, while host-local's lock is held from the reading to the mark: host-local cannot replace the record between.
//! Marks count only where the store has an [`Import`] of the very directory (host, path, inode). A store that was created
//! again, or a copy of the directory, imports everything again.
//!
//! # Records from before this boot
//!
//! They are dead if, besides, no network namespace of this host has the address; [`Scan`] tells them apart. They are not
//! imported, and their files are removed under host-local's lock: a record that stays would keep its address from both.

mod leases;

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Error;
use super::assign::{Assign, Assigned, Progress};
use super::owner::Attachment;
use super::policy::Policy;
use crate::datastore::{self, Import, ImportedDirectory, Revision};
use crate::net::Cidr;

/// A lease that host-local recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLocalLease {
    /// The address.
    pub address: IpAddr,
    /// The container.
    pub container_id: String,
    /// Its interface; `eth0` where an old version recorded none.
    pub ifname: String,
    /// The record bears the mark of a lease that a store knows.
    pub is_marked: bool,
}

/// The records of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLocalRecords {
    /// Leases of containers that may live, by address.
    pub leases: Vec<HostLocalLease>,
    /// Leases from before this boot whose addresses no network namespace of this host has.
    pub dead: Vec<HostLocalLease>,
    /// Addresses of records without text: somebody's.
    pub nameless: Vec<IpAddr>,
}

/// Purpose of a scan of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Every record, to be shown. Changes nothing.
    Show,
    /// Every record, to be imported. Holds host-local's lock until [`ImportSource::finish`].
    All,
    /// Records without a mark, to be imported. Holds host-local's lock until [`ImportSource::finish`].
    Unmarked,
}

/// Present state of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Its inode.
    pub inode: u64,
    /// Nothing was added or removed since [`ImportSource::finish`], as far as its stamp tells.
    pub is_unchanged: bool,
}

/// Outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The record is the attachment's, or there is no directory of host-local.
    Held,
    /// The record belongs to another attachment, which the store does not know.
    Recorded,
    /// The record has no text.
    Nameless,
}

/// host-local's directory of one network.
pub trait ImportSource {
    /// Its path.
    fn directory(&self) -> String;

    /// Its present state; `None`: there is no such directory.
    ///
    /// # Errors
    /// When it cannot be looked at.
    fn look(&self) -> Result<Option<Look>, datastore::Error>;

    /// Its records, of the addresses that `wanted` names.
    ///
    /// # Errors
    /// When the lock cannot be had in time, or the directory cannot be read: then nothing may be assigned.
    fn scan(&self, scan: Scan, wanted: &dyn Fn(IpAddr) -> bool)
    -> Result<HostLocalRecords, datastore::Error>;

    /// Marks records of leases that the store has.
    ///
    /// # Errors
    /// When a record cannot be changed.
    fn mark(&self, leases: &[HostLocalLease]) -> Result<(), datastore::Error>;

    /// Ends an import: removes the dead records, stamps the directory and releases host-local's lock.
    ///
    /// # Errors
    /// When the directory cannot be changed.
    fn finish(&self, records: &HostLocalRecords) -> Result<(), datastore::Error>;

    /// Creates the record of an address that is about to be assigned. The record of the attachment itself serves as well;
    /// a marked one of another is replaced.
    ///
    /// # Errors
    /// When the lock cannot be had in time, or the record cannot be written.
    fn claim(&self, address: IpAddr, attachment: &Attachment) -> Result<Claim, datastore::Error>;

    /// Removes the records of claims that came to nothing. Best effort: they are marked, so the store decides.
    fn withdraw(&self, addresses: &[IpAddr], attachment: &Attachment);
}

/// What the store knows of the import into it.
fn known<'a>(policy: &'a Policy, network: &str) -> Option<&'a (Revision, Import)> {
    policy.imports.iter().find(|(_, known)| known.network == network)
}

/// The host's part of the record, if it is of the very directory.
fn of_directory<'a>(
    policy: &'a Policy,
    network: &str,
    source: &dyn ImportSource,
    look: Look,
) -> Option<&'a ImportedDirectory> {
    let imported = known(policy, network)?.1.hosts.get(&policy.host)?;
    (imported.inode == look.inode && imported.directory == source.directory()).then_some(imported)
}

/// Whether marks on the directory's records count: the store imported this very directory.
pub(super) fn trusts_marks(policy: &Policy, network: &str, source: &dyn ImportSource, look: Look) -> bool {
    of_directory(policy, network, source, look).is_some()
}

/// When the directory has to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Due {
    /// If it changed, or was not read for these ranges.
    #[default]
    IfChanged,
    /// Before anything else.
    Now,
    /// Not any more in this call.
    Done,
}

/// Whether the directory has to be read before anything is assigned.
pub(super) fn is_due(policy: &Policy, request: &Assign<'_>, progress: &mut Progress) -> Result<bool, Error> {
    let Some(source) = request.import else {
        return Ok(false);
    };
    match std::mem::replace(&mut progress.import, Due::Done) {
        Due::Now => return Ok(true),
        Due::Done => return Ok(false),
        Due::IfChanged => {}
    }
    let Some(look) = source.look()? else {
        return Ok(false);
    };
    let imported = of_directory(policy, &request.owner.attachment.network, source, look);
    let has_all =
        |ranges: &BTreeSet<Cidr>| request.pools.iter().all(|asked| ranges.contains(&asked.pool.spec.cidr));
    Ok(!look.is_unchanged || imported.is_none_or(|imported| !has_all(&imported.ranges)))
}

/// Claims the records of the new addresses of a plan. False: one is somebody else's, and `progress` says so.
pub(super) fn claim_records(
    request: &Assign<'_>,
    source: &dyn ImportSource,
    assigned: &Assigned,
    progress: &mut Progress,
) -> Result<bool, Error> {
    for address in assigned.addresses.iter().filter(|address| !address.held_before) {
        let address = address.address;
        if progress.claimed.contains(&address) {
            continue;
        }
        match source.claim(address, &request.owner.attachment)? {
            Claim::Held => progress.claimed.push(address),
            claim => {
                progress.avoid.insert_cidr(Cidr::single(address));
                // One is not alone, as a rule: host-local added it after the directory was read, or its stamp misled.
                if claim == Claim::Recorded && !progress.imported_again {
                    progress.import = Due::Now;
                    progress.imported_again = true;
                }
                return Ok(false);
            }
        }
    }
    Ok(true)
}

impl HostLocalLease {
    /// The attachment that has it.
    pub(super) fn attachment(&self, network: &str) -> Attachment {
        Attachment {
            network: network.to_owned(),
            container_id: self.container_id.clone(),
            ifname: self.ifname.clone(),
        }
    }
}
