//! Operations on nodes: garbage collection, commands of a person, and what happens to hosts.

use super::container::Container;
use super::model::{Fate, Kind};
use super::operations::{NETWORKS, Op};
use super::oracle::{Dead, VM_HANDLE};
use super::runner::{Asked, Fleet};
use super::steps::{Outcome, must_succeed};

/// Owner of the address that must outlive everything: its handle is that of containers on both networks.
const VM_ARGS: &str = "IgnoreUnknown=1;IPAM_VM_NAMESPACE=prod;IPAM_VM_NAME=db;IPAM_VM_ROLE=source";
/// Hides `/run/netns` from one command.
const ELSEWHERE: [&str; 8] = [
    "/usr/bin/unshare",
    "--mount",
    "--propagation",
    "private",
    "/bin/sh",
    "-c",
    "mount -t tmpfs none /run/netns && exec \"$@\"",
    "sh",
];

impl Fleet {
    /// Gives a virtual machine its address.
    pub(super) fn start_vm(&mut self) -> Outcome {
        let args = ["ipam", "configure", "--kubevirt-ip-persistence=Enabled"];
        must_succeed(&self.cli(0, &args, &[]), "ipam configure")?;
        let asked = Asked {
            verb: "ADD",
            network: NETWORKS[0],
            id: "launcher",
            netns: "/run/netns/vm",
            args: VM_ARGS,
        };
        let answer = self.cni(0, asked, None);
        must_succeed(&answer, "ADD of a virtual machine")?;
        self.model.vm = answer.printed_addresses().unwrap_or_default().first().copied();
        Ok(())
    }

    /// CNI's GC, which keeps the living containers of the node.
    pub(super) fn collect_all_but_living(&mut self, node: usize, network: &str) -> Outcome {
        let valid = self.nodes[node].valid(network);
        let fates = self.model.collect(&self.nodes[node].site, network, &valid);
        must_succeed(&self.collect(node, network, &valid), "GC")?;
        self.model.apply(&fates);
        self.audit(Dead::MayBeGone)
    }

    pub(super) fn gc(&mut self, node: usize) -> Outcome {
        let on = &self.nodes[node];
        let fates = self.model.gc(&on.site, |path| on.is_taken(path), false);
        must_succeed(&self.cli(node, &["ipam", "gc", "--yes"], &[]), "ipam gc")?;
        self.model.apply(&fates);
        self.audit(Dead::MayBeGone)
    }

    pub(super) fn gc_elsewhere(&mut self, node: usize) -> Outcome {
        let on = &self.nodes[node];
        let fates = self.model.gc(&on.site, |path| on.is_taken(path), true);
        must_succeed(&self.cli(node, &["ipam", "gc", "--yes"], &ELSEWHERE), "ipam gc")?;
        self.model.apply(&fates);
        self.audit(Dead::MayBeGone)
    }

    /// `ipam check` must not call a living container's address leaked.
    pub(super) fn inspect(&mut self, node: usize) -> Outcome {
        let answer = self.cli(node, &["ipam", "check"], &[]);
        let is_alive = |word: &str| {
            let address = word.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok();
            address.is_some_and(|address| self.model.living_holder(address).is_some())
        };
        let mut leaks = answer.stdout.lines().filter(|line| line.contains("leak"));
        match leaks.find(|line| line.split_whitespace().any(is_alive)) {
            Some(line) => Err(format!("`ipam check` says of a living container: {line}")),
            None => Ok(()),
        }
    }

    /// `ipam release` leaves a living container its address where the host can see it.
    pub(super) fn release(&mut self, node: usize, nth: usize, by_handle: bool) -> Outcome {
        let held = self.held(node, nth);
        let on = &self.nodes[node];
        let container = &on.living[nth];
        let (network, id) = (&container.network, &container.id);
        let handle = format!("{network}.{id}");
        let of_handle = self.model.records.iter();
        let sharers = of_handle.filter(|record| format!("{}.{}", record.network, record.id) == handle);
        let is_alone = sharers.count() == held.len() && handle != VM_HANDLE;
        let is_seen = self
            .model
            .records
            .iter()
            .filter(|record| record.serial == container.serial)
            .all(|record| record.kind == Kind::Process || record.site.directory == on.site.directory);
        let Some(address) = held.first().filter(|_| is_seen) else { return Ok(()) };
        let by_handle = by_handle && is_alone;
        let what = if by_handle { format!("--handle={handle}") } else { format!("--ip={address}") };
        self.cli(node, &["ipam", "release", &what, "--yes"], &[]);
        self.audit(Dead::MayBeGone)
    }

    /// Something happens to hosts.
    pub(super) fn disturb(&mut self, op: &Op) {
        self.note(format!("{op:?}"));
        match op {
            Op::Reboot { kernel, renames } => {
                self.kernels[*kernel].reboot();
                for node in 0..self.nodes.len() {
                    if self.nodes[node].plan.kernel == *kernel {
                        self.restart(node, renames >> node & 1 == 1);
                    }
                }
            }
            Op::Restart { node } => self.restart(*node, false),
            Op::Rename { node, name } => self.nodes[*node].rename(*name),
            Op::Remake { node } => self.nodes[*node].remake(&mut self.numbers),
            Op::Mask => self.kernels[0].mask(),
            _ => {}
        }
    }

    fn restart(&mut self, node: usize, renames: bool) {
        let on = &mut self.nodes[node];
        for container in &on.living {
            self.model.living.remove(&container.serial);
        }
        on.restart(&self.kernels[on.plan.kernel], &self.datastore, &mut self.numbers);
        if renames {
            let names = on.plan.names;
            let now = names.iter().position(|name| *name == on.site.node).unwrap_or_default();
            on.rename(now + 1);
        }
        self.note_networks();
    }

    /// Ends everything. Afterwards the store must be empty and `ipam check` content.
    pub(super) fn end(&mut self) -> Outcome {
        for node in 0..self.nodes.len() {
            while let Some(container) = self.nodes[node].living.pop() {
                let (network, id, netns) =
                    (container.network.clone(), container.id.clone(), container.netns.clone());
                self.model.living.remove(&container.serial);
                end(container, self, node);
                self.del(node, &network, &id, &netns)?;
            }
        }
        self.audit(Dead::MayBeGone)?;
        for node in 0..self.nodes.len() {
            for name in 0..self.nodes[node].plan.names.len() {
                self.nodes[node].rename(name);
                self.gc(node)?;
                for network in NETWORKS {
                    self.collect_all_but_living(node, network)?;
                }
            }
        }
        must_succeed(&self.cli(0, &["ipam", "release", "--vm=prod/db", "--force", "--yes"], &[]), "release")?;
        self.model.vm = None;
        self.model.apply(&vec![Fate::Goes; self.model.records.len()]);
        self.audit(Dead::MayBeGone)?;
        must_succeed(&self.cli(0, &["ipam", "check"], &[]), "ipam check")
    }
}

fn end(container: Container, fleet: &Fleet, node: usize) {
    let on = &fleet.nodes[node];
    container.kill(&on.host, &on.site);
}
