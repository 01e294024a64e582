//! A reference that is too simple to be wrong: who has which address, what is reserved, which pools there are. It knows
//! no blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use host_affine::clock::Timestamp;
use host_affine::ipam::Attachment;
use host_affine::net::{Cidr, Family};

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) attachment: Attachment,
    pub(crate) node: String,
    pub(crate) boot: String,
}

/// When an address was freed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Freed {
    /// Not since its block exists.
    Never,
    /// As so many-th of all.
    AtOnce(u64),
    /// Nobody here knows when it rejoined the others: after a cooldown, or together with others.
    Sometime,
}

/// A pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) range: Cidr,
    pub(crate) block_prefix: u8,
    pub(crate) disabled: bool,
    /// The zone that a node must be labelled with.
    pub(crate) zone: Option<String>,
}

/// What a store is like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    /// Do all hosts run on one kernel? Then the leases of an earlier boot are dead.
    pub(crate) one_kernel: bool,
    /// Whether a call is one step.
    pub(crate) atomic: bool,
}

/// What everybody should see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    pub(crate) leases: BTreeMap<IpAddr, Lease>,
    /// When an address was released that has cooled or still cools, and whether it was seen to have cooled.
    pub(crate) cooling: BTreeMap<IpAddr, (Timestamp, bool)>,
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) reservations: BTreeMap<String, Cidr>,
    /// What people have, by name.
    pub(crate) carved: BTreeMap<String, Cidr>,
    /// The zone of each host.
    pub(crate) zones: BTreeMap<String, String>,
    pub(crate) boots: BTreeMap<String, String>,
    pub(crate) strict: bool,
    /// The most blocks of a family for a host.
    pub(crate) cap: usize,
    pub(crate) auto_allocate: bool,
    pub(crate) cooldown: u64,
    pub(crate) now: Timestamp,
    pub(crate) store: Traits,
    freed: BTreeMap<IpAddr, Freed>,
    releases: u64,
}

impl Reference {
    /// The ranges of pools that may serve a host without being asked for.
    pub(crate) fn pools_for(&self, host: &str, family: Family) -> Vec<&Pool> {
        let selects = |pool: &&Pool| pool.zone.is_none() || pool.zone.as_ref() == self.zones.get(host);
        self.pools
            .values()
            .filter(|pool| !pool.disabled && pool.range.family() == family)
            .filter(selects)
            .collect()
    }

    /// Whether a pool may keep an empty block with a host.
    pub(crate) fn keeps_blocks_of(&self, host: &str, block: Cidr) -> bool {
        self.pools_for(host, block.family()).iter().any(|pool| pool.range.contains(block))
    }

    /// The pool that has an address, whatever its state.
    pub(crate) fn pool_of(&self, address: IpAddr) -> Option<&Pool> {
        self.pools.values().find(|pool| pool.range.contains_address(address))
    }

    /// Whether somebody other than a container has an address.
    pub(crate) fn is_carved(&self, address: IpAddr) -> bool {
        self.carved.values().any(|cidr| cidr.contains_address(address))
    }

    /// Whether some of the block in which an address would lie was carved out, so that there can be no such block.
    pub(crate) fn is_broken(&self, address: IpAddr) -> bool {
        let pool = self.pools.values().find(|pool| pool.range.contains_address(address));
        let block = pool.and_then(|pool| Cidr::containing(address, pool.block_prefix));
        block.is_some_and(|block| self.carved.values().any(|carved| carved.overlaps(block)))
    }

    pub(crate) fn is_reserved(&self, address: IpAddr) -> bool {
        self.reservations.values().any(|cidr| cidr.contains_address(address))
    }

    /// Whether an address may be given to somebody new: nobody has it, and it does not cool.
    pub(crate) fn is_free(&self, address: IpAddr) -> bool {
        !self.leases.contains_key(&address)
            && self.cooling.get(&address).is_none_or(|(released, _)| self.has_cooled(*released))
    }

    /// Whether a store must count an address as free, whatever it has written since.
    pub(crate) fn is_surely_free(&self, address: IpAddr) -> bool {
        !self.leases.contains_key(&address) && !self.cooling.contains_key(&address)
    }

    /// Whether a store may count an address as free.
    pub(crate) fn is_perhaps_free(&self, address: IpAddr) -> bool {
        !self.leases.contains_key(&address) && !self.cools(address)
    }

    /// Whether an address surely cools: it has not even been seen to have cooled under an earlier configuration.
    pub(crate) fn cools(&self, address: IpAddr) -> bool {
        self.cooling.get(&address).is_some_and(|(released, seen)| !seen && !self.has_cooled(*released))
    }

    fn has_cooled(&self, released: Timestamp) -> bool {
        self.cooldown == 0 || self.now.since(released).as_secs() > self.cooldown
    }

    /// Notes what has cooled by now; call it whenever time or configuration have changed.
    pub(crate) fn look_at_cooling(&mut self) {
        let cooled: Vec<IpAddr> = self
            .cooling
            .iter()
            .filter(|(_, (released, _))| self.has_cooled(*released))
            .map(|(address, _)| *address)
            .collect();
        for address in cooled {
            if let Some((_, seen)) = self.cooling.get_mut(&address) {
                *seen = true;
            }
        }
    }

    /// The addresses of an attachment.
    pub(crate) fn held_by(&self, attachment: &Attachment) -> BTreeSet<IpAddr> {
        let own = self.leases.iter().filter(|(_, lease)| lease.attachment == *attachment);
        own.map(|(address, _)| *address).collect()
    }

    /// Was a lease made in an earlier boot of the kernel that this host runs on?
    pub(crate) fn is_dead(&self, address: IpAddr, host: &str) -> bool {
        self.leases.get(&address).is_some_and(|lease| {
            self.store.one_kernel && self.boots.get(host).is_some_and(|boot| *boot != lease.boot)
        })
    }

    /// Gives an address away.
    pub(crate) fn assign(&mut self, address: IpAddr, attachment: &Attachment, node: &str) {
        self.cooling.remove(&address);
        let boot = self.boots.get(node).cloned().unwrap_or_default();
        let lease = Lease { attachment: attachment.clone(), node: node.to_owned(), boot };
        self.leases.insert(address, lease);
    }

    /// Ends leases, in the order of the addresses.
    pub(crate) fn release(&mut self, addresses: &BTreeSet<IpAddr>, at_once: bool) {
        for address in addresses {
            self.leases.remove(address);
            self.releases += 1;
            let freed = if at_once || self.cooldown == 0 {
                Freed::AtOnce(self.releases)
            } else {
                self.cooling.insert(*address, (self.now, false));
                Freed::Sometime
            };
            self.freed.insert(*address, freed);
        }
    }

    /// Forgets in which order addresses were freed.
    pub(crate) fn mix(&mut self, addresses: &BTreeSet<IpAddr>) {
        for address in addresses {
            self.freed.insert(*address, Freed::Sometime);
        }
    }

    /// Forgets when the addresses of a range were freed: they are new.
    pub(crate) fn forget(&mut self, range: Cidr) {
        self.freed.retain(|address, _| !range.contains_address(*address));
    }

    /// When an address was freed last.
    pub(crate) fn freed(&self, address: IpAddr) -> Freed {
        self.freed.get(&address).copied().unwrap_or(Freed::Never)
    }
}
