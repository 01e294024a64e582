//! Records of our own, which no other program has: where several stores are shared with Calico they stand apart.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::api::{HandleId, HostName};
use crate::clock::Timestamp;
use crate::net::Cidr;

/// Import of host-local's leases into this store: one record per network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Import {
    /// The network.
    pub network: String,
    /// The directory that each host imported.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<HostName, ImportedDirectory>,
}

/// A directory of host-local whose leases were imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedDirectory {
    /// Its path.
    pub directory: String,
    /// Its inode, which tells it from a copy at the same path.
    pub inode: u64,
    /// The pools of the network's configurations whose leases were imported. Several configurations may share a name.
    pub ranges: BTreeSet<Cidr>,
}

/// That a network was carved out of a pool, so that no block and nothing else may overlap it. Its range is in the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Carved {
    /// The pool's name.
    pub pool: String,
    /// What it was carved for.
    pub owner: CarvedFor,
    /// When. `None`: the record was made again, and nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// What a network is carved out of a pool for, besides blocks, which stand for themselves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CarvedFor {
    /// An `IPAllocation`.
    Allocation(ProjectName),
    /// An `IPClaim`, and the `IPAllocation` that it is bound to, whose name follows from the claim's.
    Claim(ProjectName),
    /// A child pool, by name.
    ChildPool(String),
}

/// The name of something that belongs to a project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectName {
    /// The project.
    pub project: String,
    /// The name, unique among the project's resources of its kind.
    pub name: String,
}

impl std::fmt::Display for ProjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.project == crate::api::DEFAULT_PROJECT {
            return write!(f, "`{}`", self.name.escape_debug());
        }
        write!(f, "`{}` of project `{}`", self.name.escape_debug(), self.project.escape_debug())
    }
}

impl std::fmt::Display for CarvedFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CarvedFor::Allocation(name) => write!(f, "IPAllocation {name}"),
            CarvedFor::Claim(name) => write!(f, "IPClaim {name}"),
            CarvedFor::ChildPool(name) => write!(f, "child pool `{}`", name.escape_debug()),
        }
    }
}

/// A virtual machine on one network: which pods it runs in. Its addresses go by the handle in the key.
///
/// Nothing in a block says so: any note about an owner there would make Calico see one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The network's name.
    pub network: String,
    /// The machine's namespace.
    pub namespace: String,
    /// The machine's name.
    pub name: String,
    /// The attachments of its pods: at most one that is the source; others that it migrates to, or
    /// whose role is not known.
    #[serde(default)]
    pub attachments: Vec<MachineAttachment>,
    /// Since when it has no pod. `None`: it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownerless_since: Option<Timestamp>,
    /// The same moment by the boot clock of the host that saw it, which nobody can set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownerless_boot: Option<BootTime>,
}

/// A moment on the boot clock of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootTime {
    /// The ID of the boot.
    pub id: String,
    /// Seconds since it began, rounded up.
    pub seconds: u64,
}

/// A pod's interface, through which a virtual machine uses its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineAttachment {
    /// The pod's sandbox.
    pub container_id: String,
    /// The interface's name in it.
    pub ifname: String,
    /// What the pod is for.
    pub role: MachineRole,
    /// The pod, if the runtime named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The host.
    pub node: HostName,
    /// Since when.
    pub since: Timestamp,
    /// Boot and network namespaces, under the keys that allocations note them by.
    #[serde(flatten)]
    pub notes: BTreeMap<String, String>,
}

/// What a pod of a virtual machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MachineRole {
    /// The machine runs in it.
    Source,
    /// The machine migrates to it.
    Target,
    /// Not known. The machine may run in any of its pods whose role is not known.
    Unknown,
}

/// The machines that have an attachment under one container's handle: so that a DEL, which knows the container alone,
/// finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachinesOf {
    /// The machines' handles.
    pub machines: BTreeSet<HandleId>,
}
