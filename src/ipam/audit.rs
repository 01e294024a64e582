//! What does not agree between objects. Findings are facts, not errors: the audit succeeded.

mod carved;

use std::collections::BTreeMap;
use std::net::IpAddr;

use self::carved::Carving;
use super::{Block, owner};
use crate::api::calico::{AffinityState, BlockAffinity, IpamBlock, IpamHandle};
use crate::api::{Affinity, HandleId};
use crate::datastore::{CarvedFor, Object, ProjectName};
use crate::net::Cidr;

/// Something that does not agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Finding {
    /// A block is not well-formed.
    #[error("block {block} is damaged: it {problem}")]
    DamagedBlock {
        /// The block.
        block: Cidr,
        /// What is wrong with it.
        problem: String,
    },
    /// Two blocks share addresses.
    #[error("blocks {one} and {other} overlap")]
    OverlappingBlocks {
        /// The one that starts first.
        one: Cidr,
        /// The other.
        other: Cidr,
    },
    /// A handle does not name a block in which it has addresses: a DEL would not find them.
    #[error("{address} belongs to handle `{handle}`, which does not name block {block}")]
    UnindexedAddress {
        /// The address.
        address: IpAddr,
        /// Its handle.
        handle: String,
        /// Its block.
        block: Cidr,
    },
    /// A handle counts more addresses than it has. Harmless; the next DEL corrects it.
    #[error("handle `{handle}` counts {counted} addresses in block {block}, which has {found} of it")]
    Overcounted {
        /// The handle.
        handle: HandleId,
        /// The block.
        block: Cidr,
        /// What the handle says.
        counted: u32,
        /// What the block says.
        found: u32,
    },
    /// A block is kept for an owner that has no record of it: the owner does not find it.
    #[error("block {block} is affine to `{owner}`, which has no record of it")]
    UnrecordedAffinity {
        /// The block.
        block: Cidr,
        /// Its owner.
        owner: Affinity,
    },
    /// A block is kept for an owner whose record of it is not confirmed: others do not route it there. The owner
    /// confirms it when it next uses the block.
    #[error("block {block} is affine to `{owner}`, whose record of it is {state}")]
    UnconfirmedAffinity {
        /// The block.
        block: Cidr,
        /// Its owner.
        owner: Affinity,
        /// What the record says.
        state: &'static str,
    },
    /// An owner records a block that is not its own, or does not exist. The owner's next claim corrects it.
    #[error("`{owner}` records a {state} affinity to block {block}, which is not its own")]
    StaleAffinity {
        /// The block.
        block: Cidr,
        /// The owner.
        owner: Affinity,
        /// What the record says.
        state: &'static str,
    },
    /// Two networks share addresses, and at least one was carved out for something other than a block.
    #[error("{one} and {other} overlap, and were carved out of a pool both")]
    CarvedTwice {
        /// The one that starts first.
        one: Cidr,
        /// The other.
        other: Cidr,
    },
    /// A network is carved out for something that does not exist, or has another network.
    #[error("{carved} is carved out for {by}, which does not have it")]
    CarvedForNobody {
        /// The network.
        carved: Cidr,
        /// What the record says.
        by: Box<CarvedFor>,
    },
    /// Something has a network that is not recorded as carved out: others may be given it.
    #[error("{owner} has {cidr}, which is not carved out for it in pool `{pool}`")]
    NotCarved {
        /// What has it.
        owner: Box<CarvedFor>,
        /// The network.
        cidr: Cidr,
        /// Its pool.
        pool: String,
    },
    /// A claim has no allocation, or one that says otherwise.
    #[error("IPClaim {claim} is not bound to IPAllocation `{allocation}`, which should record its CIDR")]
    UnboundClaim {
        /// The claim.
        claim: ProjectName,
        /// The allocation's name.
        allocation: String,
    },
}

impl Finding {
    /// Whether a retry, a DEL or the owner's next claim corrects it, as after a crash between two writes of a store
    /// without atomic batches.
    #[must_use]
    pub fn mends_itself(&self) -> bool {
        match self {
            Finding::Overcounted { .. }
            | Finding::StaleAffinity { .. }
            | Finding::UnconfirmedAffinity { .. } => true,
            Finding::UnrecordedAffinity { .. }
            | Finding::DamagedBlock { .. }
            | Finding::OverlappingBlocks { .. }
            | Finding::UnindexedAddress { .. }
            | Finding::CarvedTwice { .. }
            | Finding::CarvedForNobody { .. }
            | Finding::NotCarved { .. }
            | Finding::UnboundClaim { .. } => false,
        }
    }
}

/// Looks through all objects of a store, given in any order.
#[must_use]
pub fn audit(objects: impl IntoIterator<Item = (crate::datastore::Key, Object)>) -> Vec<Finding> {
    let mut blocks = BTreeMap::new();
    let mut handles = BTreeMap::new();
    let mut affinities = BTreeMap::new();
    let mut carving = Carving::default();
    for (key, object) in objects {
        carving.take_in(&key, &object);
        match (key, object) {
            (crate::datastore::Key::Block(cidr), Object::Block(block)) => drop(blocks.insert(cidr, *block)),
            (crate::datastore::Key::Handle(id), Object::Handle(handle)) => drop(handles.insert(id, handle)),
            (crate::datastore::Key::Affinity(owner, cidr), Object::Affinity(record)) => {
                affinities.insert((cidr, owner), record);
            }
            _ => {}
        }
    }
    let mut findings = overlaps(&blocks);
    let mut counts: BTreeMap<(String, Cidr), u32> = BTreeMap::new();
    for (cidr, wire) in &blocks {
        findings.extend(look_at(*cidr, wire, &handles, &affinities, &mut counts));
    }
    for (id, handle) in &handles {
        for (cidr, counted) in &handle.block {
            let found = counts.get(&(id.to_string(), *cidr)).copied().unwrap_or(0);
            if *counted > found {
                findings.push(Finding::Overcounted {
                    handle: id.clone(),
                    block: *cidr,
                    counted: *counted,
                    found,
                });
            }
        }
    }
    for ((block, owner), record) in &affinities {
        if blocks.get(block).and_then(|block| block.affinity.as_ref()) != Some(owner) {
            let state = state_name(record);
            findings.push(Finding::StaleAffinity { block: *block, owner: owner.clone(), state });
        }
    }
    findings.extend(carving.findings(blocks.keys().copied()));
    findings.sort();
    findings
}

fn overlaps(blocks: &BTreeMap<Cidr, IpamBlock>) -> Vec<Finding> {
    // A container of several blocks is followed by them; comparing with the widest so far finds each.
    let mut widest: Option<Cidr> = None;
    let mut found = Vec::new();
    for &cidr in blocks.keys() {
        match widest {
            Some(one) if one.overlaps(cidr) => found.push(Finding::OverlappingBlocks { one, other: cidr }),
            _ => widest = Some(cidr),
        }
    }
    found
}

fn look_at(
    cidr: Cidr,
    wire: &IpamBlock,
    handles: &BTreeMap<HandleId, IpamHandle>,
    affinities: &BTreeMap<(Cidr, Affinity), BlockAffinity>,
    counts: &mut BTreeMap<(String, Cidr), u32>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let block = match Block::from_wire(wire.clone()) {
        Ok(block) => block,
        Err(problem) => return vec![Finding::DamagedBlock { block: cidr, problem }],
    };
    for allocation in block.allocations() {
        let Some(handle) = allocation.fields.handle_id.as_deref().map(owner::sanitised) else {
            continue;
        };
        *counts.entry((handle.to_owned(), cidr)).or_default() += 1;
        // No DEL ever looks for these, so their handle may be stored or not.
        if owner::is_host_reserved(&allocation.fields) {
            continue;
        }
        let named = HandleId::new(handle)
            .ok()
            .and_then(|id| handles.get(&id))
            .is_some_and(|h| h.block.contains_key(&cidr));
        if !named {
            let (address, handle) = (allocation.address, handle.to_owned());
            findings.push(Finding::UnindexedAddress { address, handle, block: cidr });
        }
    }
    if let Some(owner) = block.affinity() {
        let owner = owner.clone();
        match affinities.get(&(cidr, owner.clone())) {
            None => findings.push(Finding::UnrecordedAffinity { block: cidr, owner }),
            Some(record) if record.state != AffinityState::Confirmed => {
                let state = state_name(record);
                findings.push(Finding::UnconfirmedAffinity { block: cidr, owner, state });
            }
            Some(_) => {}
        }
    }
    findings
}

const fn state_name(record: &BlockAffinity) -> &'static str {
    match record.state {
        AffinityState::Pending => "pending",
        AffinityState::Confirmed => "confirmed",
        AffinityState::PendingDeletion => "pendingDeletion",
    }
}
