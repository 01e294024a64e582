//! All that a store holds about addresses at one moment, and what must agree within it and with the moment before.

use std::collections::BTreeMap;
use std::net::IpAddr;

use host_affine::api::calico::IpamBlock;
use host_affine::api::{Affinity, HandleId};
use host_affine::datastore::{Answer, Collection, Datastore, Entry, Key, Object, Revision, Want};
use host_affine::ipam::{Block, audit, noted, owner_key};
use host_affine::net::{AddrSet, Cidr, Family};

use super::super::build::name;
use super::super::reference::{Lease, Reference};
use super::subject::finish;

/// All blocks, handles and affinities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) blocks: BTreeMap<Cidr, (Revision, IpamBlock)>,
    handles: BTreeMap<HandleId, BTreeMap<Cidr, u32>>,
    entries: BTreeMap<Key, (Revision, Object)>,
}

impl Snapshot {
    pub(crate) fn of<D: Datastore>(store: &mut D) -> Self {
        let wants = [
            Want::AllBlocks,
            Want::AllHandles,
            Want::AllAffinities,
            Want::All(Collection::Carved),
            Want::All(Collection::Allocations),
            Want::All(Collection::Claims),
        ];
        let answers = finish(store.read(&wants)).expect("a store that can be read");
        let mut taken = Self::default();
        for Entry { key, revision, object } in answers.into_iter().flat_map(Answer::objects) {
            match (&key, &object) {
                (Key::Block(cidr), Object::Block(block)) => {
                    taken.blocks.insert(*cidr, (revision, (**block).clone()));
                }
                (Key::Handle(id), Object::Handle(handle)) => {
                    taken.handles.insert(id.clone(), handle.block.clone());
                }
                _ => {}
            }
            taken.entries.insert(key, (revision, object));
        }
        taken
    }

    /// The block that an address lies in.
    pub(crate) fn block_of(&self, address: IpAddr) -> Option<&IpamBlock> {
        self.blocks.values().map(|(_, block)| block).find(|block| block.cidr.contains_address(address))
    }

    /// The free addresses of a block.
    pub(crate) fn free_in(block: &IpamBlock) -> impl Iterator<Item = IpAddr> + '_ {
        block.unallocated.iter().filter_map(|ordinal| block.cidr.nth(u128::from(*ordinal)))
    }

    /// The blocks of a family that are affine to a host.
    pub(crate) fn blocks_of(&self, host: &str, family: Family) -> Vec<&IpamBlock> {
        let owner: Affinity = name(host).into();
        let blocks = self.blocks.values().map(|(_, block)| block);
        blocks
            .filter(|block| block.cidr.family() == family && block.affinity.as_ref() == Some(&owner))
            .collect()
    }

    /// Who has which address.
    pub(crate) fn leases(&self) -> BTreeMap<IpAddr, Lease> {
        let mut leases = BTreeMap::new();
        for (_, block) in self.blocks.values() {
            let block = Block::from_wire(block.clone()).expect("a well-formed block");
            for allocation in block.allocations().filter(|a| a.fields.released_at.is_none()) {
                let field = |key| noted(&allocation.fields, key).unwrap_or_default().to_owned();
                let network = field(owner_key::NETWORK);
                let handle = allocation.fields.handle_id.as_deref().unwrap_or_default();
                let id = handle.strip_prefix(&format!("{network}.")).unwrap_or_default().to_owned();
                let attachment = host_affine::ipam::Attachment {
                    network,
                    container_id: id,
                    ifname: field(owner_key::IFNAME),
                };
                let lease = Lease { attachment, node: field(owner_key::NODE), boot: field(owner_key::BOOT) };
                let twice = leases.insert(allocation.address, lease);
                assert_eq!(twice, None, "{} is in two blocks", allocation.address);
            }
        }
        leases
    }

    /// What must hold in any state.
    pub(crate) fn check(&self, reference: &Reference, before: &Self) {
        assert_eq!(self.leases(), reference.leases, "the blocks say otherwise than the reference");
        let objects = self.entries.iter().map(|(key, (_, object))| (key.clone(), object.clone()));
        assert_eq!(audit(objects), []);
        self.check_counts();
        for (key, (revision, object)) in &self.entries {
            if before.entries.get(key).is_none_or(|(before, _)| before != revision) {
                check_json(object);
            }
        }
        for address in reference.cooling.keys().filter(|address| reference.cools(**address)) {
            let free = self.block_of(*address).map(|block| Self::free_in(block).any(|free| free == *address));
            assert_eq!(free, Some(false), "{address} cools, and its block says that it is free");
        }
        self.check_numbers(before);
    }

    /// Handles count exactly what blocks say.
    fn check_counts(&self) {
        let mut counts: BTreeMap<HandleId, BTreeMap<Cidr, u32>> = BTreeMap::new();
        for (cidr, (_, block)) in &self.blocks {
            let block = Block::from_wire(block.clone()).expect("a well-formed block");
            for id in block.allocations().filter_map(|a| a.fields.handle_id) {
                let id = HandleId::new(id.into_owned()).expect("a handle");
                *counts.entry(id).or_default().entry(*cidr).or_default() += 1;
            }
        }
        assert_eq!(self.handles, counts, "handles count otherwise than blocks");
    }

    /// A block that changed has a higher number, and so has one that was made anew.
    fn check_numbers(&self, before: &Self) {
        for (cidr, (revision, block)) in &self.blocks {
            if let Some((old_revision, old)) = before.blocks.get(cidr) {
                let changed = block != old;
                assert!(!changed || old_revision != revision, "{cidr} changed without a new revision");
                assert!(!changed || block.sequence_number > old.sequence_number, "{cidr} changed unnumbered");
            }
            let newest = block.sequence_number_for_allocation.values().max();
            assert!(newest.is_none_or(|newest| *newest < block.sequence_number), "{cidr} numbers the future");
        }
    }

    /// Whether a pool has room for a further block with a usable address.
    pub(crate) fn has_space(&self, pool: Cidr, prefix: u8, usable: impl Fn(IpAddr) -> bool) -> bool {
        let mut taken = AddrSet::new();
        self.blocks.keys().for_each(|cidr| taken.insert_cidr(*cidr));
        (0..pool.subnet_count(prefix))
            .filter_map(|position| pool.nth_subnet(prefix, position))
            .filter(|block| !taken.overlaps(*block))
            .any(|block| addresses_of(block).any(&usable))
    }
}

/// Every address of a small network.
pub(crate) fn addresses_of(cidr: Cidr) -> impl Iterator<Item = IpAddr> {
    (0..cidr.size()).filter_map(move |position| cidr.nth(position))
}

/// An object comes back from its JSON as it was.
fn check_json(object: &Object) {
    fn same<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
        let text = serde_json::to_string(value).expect("JSON");
        assert_eq!(&serde_json::from_str::<T>(&text).expect(&text), value, "{text}");
    }
    match object {
        Object::Configuration(object) => same(object),
        Object::Pool(object) => same(object),
        Object::Reservation(object) => same(object),
        Object::Node(object) => same(object),
        Object::Block(object) => same(object),
        Object::Affinity(object) => same(object),
        Object::Handle(object) => same(object),
        Object::Import(object) => same(object),
        Object::Carved(object) => same(object),
        Object::PoolExtras(object) => same(object),
        Object::Allocation(object) => same(object),
        Object::Claim(object) => same(object),
        Object::Machine(object) => same(object),
        Object::MachinesOf(object) => same(object),
    }
}
