use std::fmt;

use super::own::ProjectName;
use crate::api::{Affinity, HandleId, HostName};
use crate::net::Cidr;

/// What an object is found by. Ordered as lists are: by kind, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The one `IPAMConfiguration`.
    Configuration,
    /// An `IPPool`, by name.
    Pool(String),
    /// An `IPReservation`, by name.
    Reservation(String),
    /// A `Node`, by name.
    Node(HostName),
    /// A block, by its range.
    Block(Cidr),
    /// A block affinity, by owner and block.
    Affinity(Affinity, Cidr),
    /// A handle.
    Handle(HandleId),
    /// The import of host-local's leases for a network, by the network's name.
    Import(String),
    /// A network that was carved out of a pool, by its range.
    Carved(Cidr),
    /// What only `ipam.miloapis.com` knows of a pool, by the pool's name.
    PoolExtras(String),
    /// An `IPAllocation` that people made.
    Allocation(ProjectName),
    /// An `IPClaim`.
    Claim(ProjectName),
    /// A virtual machine on a network, by the handle of its addresses.
    Machine(HandleId),
    /// The machines that have an attachment under a container's handle.
    MachinesOf(HandleId),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Configuration => f.write_str("IPAMConfiguration `default`"),
            Key::Pool(name) => write!(f, "IPPool `{}`", name.escape_debug()),
            Key::Reservation(name) => write!(f, "IPReservation `{}`", name.escape_debug()),
            Key::Node(name) => write!(f, "Node `{name}`"),
            Key::Block(cidr) => write!(f, "block {cidr}"),
            Key::Affinity(owner, cidr) => write!(f, "affinity of `{owner}` to block {cidr}"),
            Key::Handle(id) => write!(f, "handle `{id}`"),
            Key::Carved(cidr) => write!(f, "carved network {cidr}"),
            Key::PoolExtras(name) => write!(f, "IPPool.ipam.miloapis.com `{}`", name.escape_debug()),
            Key::Allocation(name) => write!(f, "IPAllocation {name}"),
            Key::Claim(name) => write!(f, "IPClaim {name}"),
            Key::Machine(id) => write!(f, "virtual machine `{id}`"),
            Key::MachinesOf(id) => write!(f, "virtual machines of `{id}`"),
            Key::Import(network) => write!(f, "import of network `{}`", network.escape_debug()),
        }
    }
}
