mod advice;

use std::fmt;
use std::net::IpAddr;

use super::pools::{ChoiceError, Ineligible};
use crate::api::{Affinity, HandleId, HostName, InvalidName};
use crate::datastore::{self, CarvedFor, Class};
use crate::net::{Cidr, Family};

/// Why the engine did not do what it was asked. Unless a variant says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No pool may serve the request: none exists, or each is refused.
    #[error("no {family} pool may serve host `{host}`{}", pools_note(.refused))]
    NoUsablePool {
        /// The family asked for.
        family: Family,
        /// The host that asked.
        host: HostName,
        /// The pools that were considered, and why each may not.
        refused: Vec<(String, Cidr, Ineligible)>,
    },
    /// No block that this host may use has a free address. Asking again will not help.
    #[error("no free {family} address for host `{host}` in {}", pool_list(.pools))]
    Exhausted {
        /// The family asked for.
        family: Family,
        /// The host that asked.
        host: HostName,
        /// The pools that may serve it, and what was found in each.
        pools: Vec<PoolReport>,
        /// The pools that may not, and why.
        refused: Vec<(String, Cidr, Ineligible)>,
        /// The limit that stood in the way, if one did.
        limit: Option<Limit>,
    },
    /// A pool was asked for that does not exist, or has a selector that does not parse.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// An address was asked for that lies in no pool which may serve it.
    #[error("{address} is in no pool that may serve this request")]
    OutsidePools {
        /// The address.
        address: IpAddr,
        /// The pools that may.
        pools: Vec<(String, Cidr)>,
    },
    /// An address was asked for that somebody has.
    #[error("{address} is taken: it is held by {holder}")]
    Taken {
        /// The address.
        address: IpAddr,
        /// Who has it.
        holder: Box<Holder>,
    },
    /// An address was asked for of which host-local has a record.
    #[error("{address} is taken: host-local has it on record in {directory}")]
    OnRecord {
        /// The address.
        address: IpAddr,
        /// host-local's directory of the network.
        directory: String,
    },
    /// An address was asked for that was released too recently.
    #[error("{address} was released and cools down, for {seconds} s in all")]
    Cooling {
        /// The address.
        address: IpAddr,
        /// The configured cooldown.
        seconds: u64,
    },
    /// An address was asked for that its subnet needs itself.
    #[error(
        "{address} is kept back by IPReservation `{reservation}`: it is a network, broadcast or gateway address"
    )]
    KeptBack {
        /// The address.
        address: IpAddr,
        /// The reservation.
        reservation: String,
    },
    /// An address was asked for in a block that strict affinity keeps for others.
    #[error("{address} lies in block {block}, which is {}, and strict affinity is on", owner_note(.owner.as_ref()))]
    StrictAffinity {
        /// The address.
        address: IpAddr,
        /// Its block.
        block: Cidr,
        /// Whose it is.
        owner: Option<Affinity>,
    },
    /// An address was asked for whose block does not exist, and the host may have no further one.
    #[error("{address} needs the new block {block}, and {limit}")]
    NoNewBlock {
        /// The address.
        address: IpAddr,
        /// The block it lies in.
        block: Cidr,
        /// What forbids it.
        limit: Limit,
    },
    /// An address was asked for whose block cannot be made: some of it was carved out for somebody.
    #[error("{address} cannot be given: {carved} of its block {block} is carved out for {by}")]
    CarvedOut {
        /// The address.
        address: IpAddr,
        /// The block it would lie in.
        block: Cidr,
        /// What was carved out.
        carved: Cidr,
        /// For whom.
        by: Box<CarvedFor>,
    },
    /// The attachment holds another address of the family than the one asked for.
    #[error("{asked} refused: this attachment already holds {held}")]
    HoldsAnother {
        /// The address asked for.
        asked: IpAddr,
        /// The address held.
        held: IpAddr,
    },
    /// A handle has, or would have with the other addresses of the request, as many of a family as it may.
    #[error("{} refused: handle `{handle}` may have {most} of a family, and has {}", asked_text(.asked.as_ref()), list(.held))]
    HandleFull {
        /// The address asked for; `None`: a further one.
        asked: Option<IpAddr>,
        /// The handle.
        handle: HandleId,
        /// What it has of the family.
        held: Vec<IpAddr>,
        /// The most that it may have.
        most: u32,
    },
    /// A virtual machine migrates to the pod, and machines keep no addresses.
    #[error(
        "the migration of virtual machine `{machine}` is not allowed when KubeVirtVMAddressPersistence is disabled"
    )]
    PersistenceDisabled {
        /// The machine, as `namespace/name`.
        machine: String,
    },
    /// A virtual machine migrates to the pod, and has no address.
    #[error("no IP allocated to VM handle `{handle}`: there is nothing that a migration could take over")]
    MachineWithoutAddress {
        /// The machine's handle.
        handle: HandleId,
    },
    /// Another virtual machine has the handle of the one that asks: network, namespace and name join to the same text.
    #[error("virtual machine {asked} cannot have handle `{handle}`: it belongs to virtual machine {holder}")]
    VmHandleTaken {
        /// The handle.
        handle: HandleId,
        /// The virtual machine that asks.
        asked: String,
        /// The virtual machine that has the handle.
        holder: String,
    },
    /// A pool of the network overlaps a stored pool of another CIDR.
    #[error("pool {asked} overlaps pool `{name}` ({cidr})")]
    PoolsOverlap {
        /// The CIDR that the network names.
        asked: Cidr,
        /// The stored pool.
        name: String,
        /// Its CIDR.
        cidr: Cidr,
    },
    /// A pool of the network is stored with another property.
    #[error("pool {cidr} is stored with {property} `{stored}`; the network configuration says `{asked}`")]
    PoolDiffers {
        /// The CIDR of both.
        cidr: Cidr,
        /// What differs.
        property: &'static str,
        /// What is stored.
        stored: String,
        /// What the network says.
        asked: String,
    },
    /// A gateway of the network is an address that a container has.
    #[error("gateway {gateway} is taken: it is held by {holder}")]
    GatewayTaken {
        /// The gateway.
        gateway: IpAddr,
        /// Who has it.
        holder: Box<Holder>,
    },
    /// The swap was lost every time. Safe to start over.
    #[error("gave up after {attempts} attempts: other callers changed the same objects each time{}", applied_note(*.applied))]
    Contended {
        /// How often it was tried since the last batch that was applied.
        attempts: u32,
        /// Batches that were applied before. They stay.
        applied: u32,
    },
    /// A stored block is not well-formed.
    #[error("block {block} is damaged: it {problem}")]
    DamagedBlock {
        /// The block.
        block: Cidr,
        /// What is wrong with it.
        problem: String,
    },
    /// A name cannot stand in the store.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The datastore failed.
    #[error(transparent)]
    Datastore(#[from] datastore::Error),
}

/// Who has an address, as far as is noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The handle.
    pub handle: Option<String>,
    /// The pod, as `namespace/name`.
    pub pod: Option<String>,
    /// The host.
    pub node: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pod) = &self.pod {
            write!(f, "pod {} ", pod.escape_debug())?;
        }
        match &self.handle {
            Some(handle) => write!(f, "handle `{}`", handle.escape_debug())?,
            None => f.write_str("nobody that is noted")?,
        }
        self.node.as_ref().map_or(Ok(()), |node| write!(f, " on host `{}`", node.escape_debug()))
    }
}

/// What was found in a pool that gave nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// Its range.
    pub cidr: Cidr,
    /// How many blocks exist in it.
    pub blocks: usize,
    /// How many blocks it has room for.
    pub blocks_max: u128,
    /// Owners other than this host with blocks that have free addresses: their names, and how many such blocks.
    pub lent_out: Vec<(String, usize)>,
    /// Free addresses in blocks that this host may not use.
    pub free_elsewhere: usize,
    /// Addresses that reservations, or the network's ranges, keep back.
    pub unusable: u128,
    /// Addresses of this host's blocks that cool down.
    pub cooling: usize,
    /// Addresses that were carved out for something other than blocks.
    pub carved: u128,
    /// Why no block can be cut although addresses are free. `None`: one can be, or none is free.
    pub obstacle: Option<String>,
}

/// What keeps a host from a further block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Strict affinity, with no block left that could be claimed.
    Strict,
    /// The most blocks per host, under strict affinity.
    MaxBlocks {
        /// Blocks affine to the host, of this family.
        has: usize,
        /// The limit.
        max: u32,
    },
    /// `autoAllocateBlocks` is off.
    AutoAllocateOff,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Strict => f.write_str("strict affinity is on"),
            Limit::MaxBlocks { has, max } => {
                write!(
                    f,
                    "the host has {has} blocks of this family, the limit maxBlocksPerHost is {max}, and strict affinity is on"
                )
            }
            Limit::AutoAllocateOff => f.write_str("autoAllocateBlocks is off, so that no new block is made"),
        }
    }
}

impl Error {
    /// What the caller may do next.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Contended { .. } => Class::Retry,
            Error::DamagedBlock { .. } => Class::Broken,
            Error::Datastore(error) => error.class(),
            Error::NoUsablePool { .. }
            | Error::Exhausted { .. }
            | Error::Choice(_)
            | Error::OutsidePools { .. }
            | Error::Taken { .. }
            | Error::OnRecord { .. }
            | Error::Cooling { .. }
            | Error::KeptBack { .. }
            | Error::StrictAffinity { .. }
            | Error::NoNewBlock { .. }
            | Error::CarvedOut { .. }
            | Error::HoldsAnother { .. }
            | Error::HandleFull { .. }
            | Error::PersistenceDisabled { .. }
            | Error::MachineWithoutAddress { .. }
            | Error::VmHandleTaken { .. }
            | Error::PoolsOverlap { .. }
            | Error::PoolDiffers { .. }
            | Error::GatewayTaken { .. }
            | Error::Name(_) => Class::Refused,
        }
    }
}

fn applied_note(applied: u32) -> String {
    match applied {
        0 => String::new(),
        1 => "; 1 batch of changes was written before and stays".into(),
        many => format!("; {many} batches of changes were written before and stay"),
    }
}

fn owner_note(owner: Option<&Affinity>) -> String {
    owner.map_or_else(|| "affine to nobody".into(), |owner| format!("affine to `{owner}`"))
}

fn asked_text(asked: Option<&IpAddr>) -> String {
    asked.map_or_else(|| "a further address".into(), ToString::to_string)
}

fn list(addresses: &[IpAddr]) -> String {
    if addresses.is_empty() {
        return "none yet".into();
    }
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn named(pools: &[(String, Cidr)]) -> String {
    let names: Vec<_> = pools.iter().map(|(name, cidr)| format!("`{name}` ({cidr})")).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn pool_list(pools: &[PoolReport]) -> String {
    let names: Vec<_> = pools.iter().map(|pool| format!("`{}` ({})", pool.name, pool.cidr)).collect();
    let plural = if pools.len() == 1 { "pool" } else { "pools" };
    format!("{plural} {}", names.join(", "))
}

fn pools_note(refused: &[(String, Cidr, Ineligible)]) -> String {
    match refused {
        [] => ": there is no pool".into(),
        [(name, cidr, reason)] => format!(": pool `{name}` ({cidr}) {reason}"),
        several => format!(": all {} pools are refused", several.len()),
    }
}
