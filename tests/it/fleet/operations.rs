//! The operations, and how a seed chooses them.

use super::container::Wanted;
use super::model::Kind;
use crate::choices::Choices;

/// Networks whose names join with container IDs to equal handles. Both use one pool.
pub(super) const NETWORKS: [&str; 2] = ["pods", "pods.vmi"];
/// IDs that every host uses. The first are what people choose; two join to the handle of a virtual machine.
const IDS: [&str; 14] = [
    "default-web",
    "default-db",
    "vmi.prod.db",
    "prod.db",
    "c0",
    "c1",
    "c2",
    "c3",
    "c4",
    "c5",
    "c6",
    "c7",
    "c8",
    "c9",
];

/// Order of the end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The namespace goes first, then DEL.
    KillThenDel,
    /// DEL goes first.
    DelThenKill,
    /// Two DELs after the namespace.
    DelTwice,
    /// DEL without `CNI_NETNS`, after the namespace.
    DelWithoutPath,
    /// No DEL.
    KillOnly,
}

/// One step of a run. `node` and `nth` are indexes; `nth` counts living containers of the node, modulo their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// ADD of a new container, or of the living one with that ID. `wish`: asks for this address.
    Add {
        node: usize,
        wanted: Wanted,
        wish: Option<usize>,
    },
    /// ADD of a living container again.
    Again {
        node: usize,
        nth: usize,
    },
    /// End of a container.
    Stop {
        node: usize,
        nth: usize,
        end: End,
    },
    /// DEL of an ID that does not run on the node; other nodes may run it.
    StrayDel {
        node: usize,
        id: String,
        network: String,
    },
    Check {
        node: usize,
        nth: usize,
    },
    /// CNI's GC, with all living containers of the node.
    Collect {
        node: usize,
        network: String,
    },
    /// `ipam gc` on the node.
    Gc {
        node: usize,
    },
    /// `ipam gc` in another mount namespace on the node, with an empty `/run/netns`.
    GcElsewhere {
        node: usize,
    },
    /// `ipam check` on the node.
    Inspect {
        node: usize,
    },
    /// `ipam release` of a living container's address, without `--force`.
    Release {
        node: usize,
        nth: usize,
        by_handle: bool,
    },
    /// ADD that is killed, then repeated or deleted.
    KilledAdd {
        node: usize,
        wanted: Wanted,
        micros: u64,
        deletes: bool,
    },
    /// DEL that is killed, then repeated.
    KilledDel {
        node: usize,
        nth: usize,
        micros: u64,
    },
    /// `ipam gc` that is killed, then repeated.
    KilledGc {
        node: usize,
        micros: u64,
    },
    /// New boot of a kernel: all containers on it die. `renames`: a bit for each node that comes back under another name.
    Reboot {
        kernel: usize,
        renames: usize,
    },
    /// New namespaces for one node on the same kernel, as when a container that plays a node restarts.
    Restart {
        node: usize,
    },
    Rename {
        node: usize,
        name: usize,
    },
    /// `/run/netns` is moved away and a new one is created; containers live on.
    Remake {
        node: usize,
    },
    /// Another boot ID is shown, without a boot.
    Mask,
}

/// Something that happens to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    Reboot,
    Restart,
    Rename,
    Remake,
    Mask,
}

/// Operations that a fleet allows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix {
    pub(super) disturbances: &'static [Disturbance],
    /// A killed commit can reach the store late, so a killed ADD is always repeated.
    pub(super) keeps_killed: bool,
    /// IDs in use on each node.
    pub(super) ids: usize,
    pub(super) nodes: usize,
    /// Kernels that may boot; they come first.
    pub(super) kernels: usize,
}

impl Mix {
    /// Chooses the next operation. It depends on the seed alone.
    pub(super) fn choose(&self, choices: &mut Choices) -> Op {
        let node = choices.pick(self.nodes);
        let nth = choices.pick(64);
        match choices.pick(1000) {
            0..340 => {
                let wish = (choices.pick(8) == 0).then(|| choices.pick(64));
                Op::Add { node, wanted: self.wanted(choices), wish }
            }
            340..390 => Op::Again { node, nth },
            390..610 => Op::Stop { node, nth, end: end(choices) },
            610..680 => Op::StrayDel { node, id: self.id(choices), network: network(choices) },
            680..720 => Op::Check { node, nth },
            720..770 => Op::Collect { node, network: network(choices) },
            820..840 if !self.disturbances.contains(&Disturbance::Mask) => Op::GcElsewhere { node },
            770..840 => Op::Gc { node },
            840..850 => Op::Inspect { node },
            850..880 => Op::Release { node, nth, by_handle: choices.pick(2) == 0 },
            880..915 => {
                let wanted = self.wanted(choices);
                let deletes = choices.pick(2) == 0 && !self.keeps_killed;
                Op::KilledAdd { node, wanted, micros: micros(choices), deletes }
            }
            915..935 => Op::KilledDel { node, nth, micros: micros(choices) },
            935..945 => Op::KilledGc { node, micros: micros(choices) },
            other => self.disturbance(choices, node, other),
        }
    }

    fn disturbance(&self, choices: &mut Choices, node: usize, lot: usize) -> Op {
        let allows = |disturbance| self.disturbances.contains(&disturbance);
        match lot {
            945..955 if allows(Disturbance::Reboot) => {
                Op::Reboot { kernel: choices.pick(self.kernels), renames: choices.pick(1 << self.nodes) }
            }
            955..962 if allows(Disturbance::Restart) => Op::Restart { node },
            962..985 if allows(Disturbance::Rename) => Op::Rename { node, name: choices.pick(3) },
            985..992 if allows(Disturbance::Remake) => Op::Remake { node },
            992..1000 if allows(Disturbance::Mask) => Op::Mask,
            _ => Op::Gc { node },
        }
    }

    fn wanted(&self, choices: &mut Choices) -> Wanted {
        let kind = if choices.pick(3) == 0 { Kind::Process } else { Kind::Pinned };
        Wanted { id: self.id(choices), network: network(choices), kind }
    }

    fn id(&self, choices: &mut Choices) -> String {
        IDS[choices.pick(self.ids.min(IDS.len()))].to_owned()
    }
}

fn network(choices: &mut Choices) -> String {
    NETWORKS[usize::from(choices.pick(3) == 0)].to_owned()
}

fn micros(choices: &mut Choices) -> u64 {
    // From the start of the process to a little after its usual end.
    300 + 50 * u64::try_from(choices.pick(80)).expect("few")
}

fn end(choices: &mut Choices) -> End {
    match choices.pick(10) {
        0..4 => End::KillThenDel,
        4..6 => End::DelThenKill,
        6 => End::DelTwice,
        7 => End::DelWithoutPath,
        _ => End::KillOnly,
    }
}
