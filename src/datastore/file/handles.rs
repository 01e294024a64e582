//! Handles, which are not stored: what a handle holds is counted in the blocks.
//!
//! Which blocks to look at is told by the journal, else by the index. The blocks are the truth.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::codec::damaged;
use super::index::{self, Lookup};
use super::layout::{block_path, fnv1a, fnv1a_from};
use super::{Access, FileStore};
use crate::api::HandleId;
use crate::api::calico::{Attribute, IpamBlock, IpamHandle};
use crate::datastore::{Entry, Error, Key, Revision};
use crate::net::Cidr;

/// Hashes of handles, and the blocks where they have addresses.
pub(super) type HandleMap = BTreeMap<u64, BTreeSet<Cidr>>;

/// What a handle holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) revision: Revision,
    pub(super) handle: IpamHandle,
}

impl FileStore {
    /// What a handle holds, and the blocks that hold it.
    pub(super) fn held(&mut self, id: &HandleId) -> Result<(Option<Held>, Vec<IpamBlock>), Error> {
        let mut count = Count::of(id.as_str());
        let mut blocks = Vec::new();
        for cidr in self.blocks_of(id)? {
            let Some(block) = self.block(cidr)? else {
                let path = self.dir.path_of(&block_path(cidr));
                return Err(damaged(&path, format!("it is missing, and holds an address of handle `{id}`")));
            };
            if count.add(cidr, &assigned_to(&block, id.as_str())) {
                blocks.push(block);
            } else if !has_one_like(&block, id) {
                let path = self.dir.path_of(&block_path(cidr));
                return Err(damaged(
                    &path,
                    format!("it has no address of handle `{id}`, which has one there"),
                ));
            }
        }
        let held = count.finish();
        if self.access == Access::Change {
            self.seen.handles.insert(id.clone(), held.clone());
        }
        Ok((held, blocks))
    }

    /// What a handle holds.
    pub(super) fn handle(&mut self, id: &HandleId) -> Result<Option<Held>, Error> {
        if let Some(held) = self.seen.handles.get(id) {
            return Ok(held.clone());
        }
        Ok(self.held(id)?.0)
    }

    /// Where a handle has addresses, or another handle of the same hash.
    fn blocks_of(&mut self, id: &HandleId) -> Result<BTreeSet<Cidr>, Error> {
        let mut blocks = self.indexed(fnv1a(id.as_str().as_bytes()))?;
        for (block, gained) in self.journal.overlay.of_handle(id) {
            let Ok(cidr) = block.parse() else {
                return Err(self
                    .journal
                    .damaged(format!("`{}` of handle `{id}` is no block", block.escape_debug())));
            };
            if gained {
                blocks.insert(cidr);
            } else {
                blocks.remove(&cidr);
            }
        }
        Ok(blocks)
    }

    /// Which blocks the files say have a handle of this hash.
    fn indexed(&mut self, hash: u64) -> Result<BTreeSet<Cidr>, Error> {
        if self.seen.handle_map.is_none() {
            match index::lookup(&self.dir, &self.journal, hash)? {
                Lookup::Blocks(blocks) => return Ok(blocks),
                Lookup::TooMany => self.seen.handle_map = Some(self.map_handles()?),
                Lookup::Unusable => {
                    let map = self.map_handles()?;
                    self.repair_index(&map);
                    self.seen.handle_map = Some(map);
                }
            }
        }
        let map = self.seen.handle_map.as_ref();
        Ok(map.and_then(|map| map.get(&hash)).cloned().unwrap_or_default())
    }

    /// Every handle of every block, by looking at all of them.
    pub(super) fn map_handles(&mut self) -> Result<HandleMap, Error> {
        let mut map = HandleMap::new();
        for cidr in self.block_cidrs()? {
            let Some(block) = self.block_uncached(cidr)? else {
                continue;
            };
            for id in owners(&block).into_keys() {
                map.entry(fnv1a(id.as_bytes())).or_default().insert(cidr);
            }
        }
        Ok(map)
    }

    /// Writes the index anew, if this session may. The answer does not depend on it.
    fn repair_index(&mut self, map: &HandleMap) {
        if self.access == Access::Read {
            return;
        }
        log::warn!(
            "{} was missing or is not the one that belongs to the journal; it is made anew from the blocks",
            self.dir.path_of(super::layout::INDEX).display()
        );
        // Else a power cut could leave an index that has what the journal lost.
        let built = self
            .journal
            .make_durable()
            .and_then(|()| index::build(&self.dir, self.journal.header.index, 0, &index::entries(map)));
        if let Err(error) = built {
            log::warn!("{error}; the blocks are looked at instead");
        }
    }

    /// All handles.
    pub(super) fn all_handles(&mut self) -> Result<Vec<Entry>, Error> {
        let blocks = self.walk(Self::block_cidrs, |store, cidr| {
            let block = store.block_uncached(*cidr)?;
            Ok(block.map(|block| (*cidr, owners(&block))))
        })?;
        let mut counts: BTreeMap<HandleId, Count> = BTreeMap::new();
        for (cidr, owners) in blocks {
            for (id, assigned) in owners {
                let Ok(id) = HandleId::new(id) else {
                    continue;
                };
                let count = counts.entry(id).or_insert_with_key(|id| Count::of(id.as_str()));
                count.add(cidr, &assigned);
            }
        }
        let held = counts.into_iter().filter_map(|(id, count)| Some(count.finish()?.into_entry(id)));
        Ok(held.collect())
    }
}

/// What a handle holds, as counted block by block in ascending order.
struct Count {
    hash: u64,
    handle: IpamHandle,
}

impl Count {
    fn of(id: &str) -> Self {
        Self { hash: fnv1a(id.as_bytes()), handle: IpamHandle::default() }
    }

    /// Adds a block in which these ordinals are the handle's. False: there are none.
    ///
    /// The revision is made from the numbers under which they were assigned. A block never repeats a number, so the
    /// revision never comes again either.
    fn add(&mut self, block: Cidr, assigned: &[Assigned]) -> bool {
        for Assigned { ordinal, number } in assigned {
            let line = format!("{block} {ordinal} {number}\n");
            self.hash = fnv1a_from(self.hash, line.as_bytes());
        }
        let count = u32::try_from(assigned.len()).unwrap_or(u32::MAX);
        if count > 0 {
            self.handle.block.insert(block, count);
        }
        count > 0
    }

    /// `None`: the handle holds nothing, so there is none.
    fn finish(self) -> Option<Held> {
        (!self.handle.block.is_empty()).then_some(Held { revision: Revision(self.hash), handle: self.handle })
    }
}

impl Held {
    pub(super) fn into_entry(self, id: HandleId) -> Entry {
        Entry { key: Key::Handle(id), revision: self.revision, object: self.handle.into() }
    }
}

/// An ordinal that a handle owns, and the number under which it was assigned.
struct Assigned {
    ordinal: u16,
    number: u64,
}

impl Assigned {
    fn new(block: &IpamBlock, ordinal: u16) -> Self {
        let number = block.sequence_number_for_allocation.get(&ordinal);
        Self { ordinal, number: number.copied().unwrap_or(0) }
    }
}

/// What a handle owns of a block.
fn assigned_to(block: &IpamBlock, handle: &str) -> Vec<Assigned> {
    let is_owner = |attribute: &Attribute| {
        attribute.may_name(handle) && attribute.fields().handle_id.as_deref() == Some(handle)
    };
    let owned: Vec<bool> = block.attributes.iter().map(is_owner).collect();
    (0..)
        .zip(&block.allocations)
        .filter(|(_, index)| index.is_some_and(|index| owned.get(usize::from(index)) == Some(&true)))
        .map(|(ordinal, _)| Assigned::new(block, ordinal))
        .collect()
}

/// Whether another handle owns something of a block, and has the same hash.
fn has_one_like(block: &IpamBlock, id: &HandleId) -> bool {
    let hash = fnv1a(id.as_str().as_bytes());
    owners(block).keys().any(|other| fnv1a(other.as_bytes()) == hash)
}

/// How many ordinals of a block a handle owns.
pub(super) fn count(block: &IpamBlock, id: &HandleId) -> u32 {
    u32::try_from(assigned_to(block, id.as_str()).len()).unwrap_or(u32::MAX)
}

/// The handles that own something of a block, and what.
fn owners(block: &IpamBlock) -> BTreeMap<String, Vec<Assigned>> {
    let owner = |attribute: &Attribute| attribute.fields().handle_id.map(Cow::into_owned);
    let names: Vec<Option<String>> = block.attributes.iter().map(owner).collect();
    let mut owners: BTreeMap<String, Vec<Assigned>> = BTreeMap::new();
    for (ordinal, index) in (0..).zip(&block.allocations) {
        let name = index.and_then(|index| names.get(usize::from(index))?.as_ref());
        if let Some(name) = name {
            let assigned = owners.entry(name.clone()).or_default();
            assigned.push(Assigned::new(block, ordinal));
        }
    }
    owners
}
