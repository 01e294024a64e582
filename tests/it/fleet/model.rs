//! The model: every allocation that the store should hold, and the rules that say what a call may free.
//!
//! The rules see more than the plugin: they know which containers are alive. They demand a release only where the plugin
//! can prove death, and they forbid the release of any container that is alive.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Number of a container that is alive; each incarnation has its own.
pub(super) type Serial = u64;
/// Stands for an owner that no longer exists.
pub(super) const NOBODY: Serial = 0;

/// Which machines can write to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// One kernel: the store is on a local file system.
    OneKernel,
    /// Many kernels: the store is in etcd.
    Shared,
}

/// Way in which a runtime names a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A bind mount at `/run/netns/ID`.
    Pinned,
    /// `/proc/PID/ns/net` of a process of the container.
    Process,
}

/// One boot of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boot {
    /// Number of the kernel.
    pub(super) kernel: usize,
    /// How often it has booted.
    pub(super) count: u32,
}

/// Identity of a host at one moment. Equal numbers mean the same kernel object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// Name of the node in the store.
    pub(super) node: String,
    pub(super) boot: Boot,
    /// The network namespace that the plugin runs in.
    pub(super) network: u64,
    /// The directory at `/run/netns`.
    pub(super) directory: u64,
    /// The process namespace.
    pub(super) processes: u64,
}

/// One allocated address.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) address: IpAddr,
    pub(super) network: String,
    pub(super) id: String,
    pub(super) kind: Kind,
    /// Value of `CNI_NETNS` at the ADD.
    pub(super) netns: String,
    /// The host at the time of the ADD.
    pub(super) site: Site,
    /// The container that was given the address.
    pub(super) serial: Serial,
}

/// Effect of a call on one allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The call must not free it.
    Stays,
    /// Both answers are right.
    MayGo,
    /// The call must free it.
    Goes,
}

/// A DEL, as far as the rules depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Del<'a> {
    pub(super) network: &'a str,
    pub(super) id: &'a str,
    /// The container whose namespace `CNI_NETNS` names.
    pub(super) names: Option<Serial>,
    /// A namespace exists at the path in `CNI_NETNS`.
    pub(super) path_exists: bool,
}

/// All allocations, and all containers that are alive.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) scope: Scope,
    pub(super) records: Vec<Record>,
    pub(super) living: BTreeSet<Serial>,
    /// Network namespaces of the hosts that run.
    pub(super) networks: BTreeSet<u64>,
    /// The address of the virtual machine, which stays until the machine is deleted.
    pub(super) vm: Option<IpAddr>,
    /// Last allocation of each address that a call had to free, for reports.
    pub(super) freed: BTreeMap<IpAddr, Record>,
}

impl Model {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            scope,
            records: Vec::new(),
            living: BTreeSet::new(),
            networks: BTreeSet::new(),
            vm: None,
            freed: BTreeMap::new(),
        }
    }

    pub(super) fn is_alive(&self, record: &Record) -> bool {
        self.living.contains(&record.serial)
    }

    /// A node name alone decides the owner, except where a second machine uses the name: its kernel is another, and its
    /// allocations are younger than this boot. (No test lets two machines share a name in any other order.)
    pub(super) fn is_own(record: &Record, site: &Site) -> bool {
        record.site.node == site.node && record.site.boot.kernel == site.boot.kernel
    }

    fn is_boot_over(record: &Record, site: &Site) -> bool {
        record.site.boot.kernel == site.boot.kernel && record.site.boot.count < site.boot.count
    }

    /// The noted number may be that of a process outside of the test, which the host cannot look at.
    fn is_unclear(record: &Record, site: &Site) -> bool {
        record.kind == Kind::Process && site.processes == 0 && record.site.processes != 0
    }

    /// The host can see that the namespace is gone. `taken`: another namespace stands at the noted path by now.
    fn is_provable(record: &Record, site: &Site) -> bool {
        match record.kind {
            Kind::Pinned => record.site.directory == site.directory,
            Kind::Process => record.site.processes == site.processes,
        }
    }

    /// Effect of `ipam gc` on a host. `taken` tells whether a living container has a path by now; its namespace may have
    /// the noted inode, since the kernel uses inodes again. `elsewhere`: the command runs in another mount namespace, with
    /// a `/run/netns` of its own.
    pub(super) fn gc(&self, site: &Site, taken: impl Fn(&str) -> bool, elsewhere: bool) -> Vec<Fate> {
        let is_whole_kernel = self.scope == Scope::OneKernel;
        let must_see_boot = |record: &Record| {
            Self::is_boot_over(record, site) && (is_whole_kernel || Self::is_own(record, site))
        };
        let must_see_namespace =
            |record: &Record| Self::is_own(record, site) && !elsewhere && Self::is_provable(record, site);
        let fate = |record: &Record| {
            if self.is_alive(record) || self.is_of_second_machine(record, site) {
                Fate::Stays
            } else if taken(&record.netns) || Self::is_unclear(record, site) {
                Fate::MayGo
            } else if must_see_boot(record) || must_see_namespace(record) {
                Fate::Goes
            } else {
                Fate::MayGo
            }
        };
        self.records.iter().map(fate).collect()
    }

    fn is_of_second_machine(&self, record: &Record, site: &Site) -> bool {
        self.scope == Scope::Shared
            && record.site.node == site.node
            && record.site.boot.kernel != site.boot.kernel
    }

    /// Effect of CNI's GC: only the node name and the list of valid containers count.
    pub(super) fn collect(&self, site: &Site, network: &str, valid: &[String]) -> Vec<Fate> {
        let fate = |record: &Record| {
            let is_listed = record.network != network || valid.contains(&record.id);
            match Self::is_own(record, site) && !is_listed {
                true => Fate::Goes,
                false if self.is_alive(record) || self.is_of_second_machine(record, site) => Fate::Stays,
                false if is_listed => Fate::Stays,
                false => Fate::MayGo,
            }
        };
        self.records.iter().map(fate).collect()
    }

    /// Effect of a DEL.
    pub(super) fn del(&self, site: &Site, del: Del<'_>, taken: impl Fn(&str) -> bool) -> Vec<Fate> {
        let is_named = |record: &Record| record.network == del.network && record.id == del.id;
        let has_own = self.records.iter().any(|record| is_named(record) && Self::is_own(record, site));
        let fate = |record: &Record| {
            if !is_named(record) {
                Fate::Stays
            } else if Self::is_own(record, site) {
                Fate::Goes
            } else if has_own {
                // The DEL has what it looked for; an older name of the host is no longer looked at.
                if self.is_alive(record) { Fate::Stays } else { Fate::MayGo }
            } else {
                self.del_of_another_name(record, site, del, taken(&record.netns))
            }
        };
        self.records.iter().map(fate).collect()
    }

    fn del_of_another_name(&self, record: &Record, site: &Site, del: Del<'_>, taken: bool) -> Fate {
        let is_same_host = record.site.boot == site.boot && record.site.network == site.network;
        if self.scope == Scope::OneKernel && Self::is_boot_over(record, site) {
            if taken || Self::is_unclear(record, site) { Fate::MayGo } else { Fate::Goes }
        } else if !is_same_host {
            // The kernel uses the numbers of a host again once it has ended.
            let has_ended = !self.networks.contains(&record.site.network);
            if has_ended && !self.is_alive(record) { Fate::MayGo } else { Fate::Stays }
        } else if self.is_alive(record) {
            match del.names == Some(record.serial) {
                true if del.path_exists => Fate::Goes,
                // The path is the noted one, but nothing is there to compare.
                true => Fate::MayGo,
                false => Fate::Stays,
            }
        } else if Self::is_provable(record, site) && !taken {
            Fate::Goes
        } else {
            Fate::MayGo
        }
    }

    /// Applies the effect of a call that was answered. What may be gone belongs to nobody from then on.
    pub(super) fn apply(&mut self, fates: &[Fate]) {
        for (record, fate) in self.records.iter_mut().zip(fates) {
            if *fate == Fate::MayGo {
                record.serial = NOBODY;
            }
        }
        let mut fates = fates.iter();
        let gone = self.records.extract_if(.., |_| fates.next() == Some(&Fate::Goes));
        self.freed.extend(gone.map(|record| (record.address, record)));
    }

    /// The addresses that a container holds under the present name of its host.
    pub(super) fn held(&self, serial: Serial, site: &Site) -> Vec<IpAddr> {
        let own = |record: &&Record| record.serial == serial && Self::is_own(record, site);
        self.records.iter().filter(own).map(|record| record.address).collect()
    }

    /// Whether any living container holds an address.
    pub(super) fn living_holder(&self, address: IpAddr) -> Option<&Record> {
        self.records.iter().find(|record| record.address == address && self.is_alive(record))
    }

    /// Takes the answer of an ADD.
    ///
    /// # Errors
    /// When the answer breaks a rule.
    pub(super) fn answered(&mut self, new: &Record, addresses: &[IpAddr]) -> Result<(), String> {
        let before = self.held(new.serial, &new.site);
        if !before.is_empty() && before != addresses {
            return Err(format!("a second ADD answers {addresses:?}; the first one answered {before:?}"));
        }
        let [address] = addresses else { return Err(format!("the ADD answers {addresses:?}")) };
        if self.vm == Some(*address) {
            return Err(format!("{address} is the virtual machine's"));
        }
        if let Some(other) = self.living_holder(*address).filter(|other| other.serial != new.serial) {
            return Err(format!("{address} is held by a container that is alive: {other:?}"));
        }
        self.records.retain(|record| record.address != *address);
        self.records.push(Record { address: *address, ..new.clone() });
        Ok(())
    }
}
