//! What one attempt is about to change: objects as they were read, what is to become of them, and the batch of it all.

use std::collections::{BTreeMap, BTreeSet};

use super::affinity::may_go;
use super::block::Block;
use crate::api::calico::{AffinityState, BlockAffinity, IpPool, IpReservation, IpamHandle};
use crate::api::{Affinity, HandleId};
use crate::datastore::{BATCH_MAX, Batch, Change, Guard, Import, Key, Object, Op, Revision, RoomHint};
use crate::net::{AddrSet, Cidr};

/// The changes of one attempt. Pure: it is filled with what was read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    settings: Vec<Op>,
    last: Vec<Op>,
    blocks: BTreeMap<Cidr, BlockDraft>,
    handles: BTreeMap<HandleId, HandleDraft>,
    affinities: BTreeMap<Key, Op>,
    room: Vec<RoomHint>,
    rests_on: BTreeMap<Key, Option<Revision>>,
    /// What pools of new blocks were carved out of their parents as.
    enclosing: BTreeSet<Cidr>,
}

#[derive(Debug)]
pub(super) struct BlockDraft {
    revision: Option<Revision>,
    pub(super) block: Block,
    /// A new block as it was made, before anything was assigned from it.
    made: Option<Block>,
    delete: bool,
}

#[derive(Debug)]
struct HandleDraft {
    revision: Option<Revision>,
    before: u64,
    handle: IpamHandle,
    changed: bool,
}

impl Draft {
    /// Takes in a block as it was read; one that is in already is left as it has become.
    pub(super) fn load_block(&mut self, revision: Revision, block: Block) -> &mut Block {
        let fresh = BlockDraft { revision: Some(revision), block, made: None, delete: false };
        &mut self.blocks.entry(fresh.block.cidr()).or_insert(fresh).block
    }

    /// A block that was taken in, or made, before.
    pub(super) fn block(&mut self, cidr: Cidr) -> Option<&mut Block> {
        self.blocks.get_mut(&cidr).filter(|draft| !draft.delete).map(|draft| &mut draft.block)
    }

    /// Every block taken in or made, to be changed.
    pub(super) fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        self.blocks.values_mut().filter(|draft| !draft.delete).map(|draft| &mut draft.block)
    }

    /// Every block taken in or made.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.values().filter(|draft| !draft.delete).map(|draft| &draft.block)
    }

    /// A block that does not exist yet.
    pub(super) fn create_block(&mut self, block: Block) {
        let made = Some(block.clone());
        self.blocks.insert(block.cidr(), BlockDraft { revision: None, block, made, delete: false });
    }

    /// New blocks may lie in these: their pools were carved out of others as such.
    pub(super) fn lies_in(&mut self, enclosing: &[Cidr]) {
        self.enclosing.extend(enclosing);
    }

    /// Gives a block up altogether.
    pub(super) fn delete_block(&mut self, cidr: Cidr) {
        if let Some(draft) = self.blocks.get_mut(&cidr) {
            draft.delete = true;
        }
    }

    /// Whether a block is given up by this draft.
    pub(super) fn is_given_up(&self, cidr: Cidr) -> bool {
        self.blocks.get(&cidr).is_some_and(|draft| draft.delete)
    }

    /// Takes in a handle as it was read; `None`: there is none.
    pub(super) fn load_handle(&mut self, id: &HandleId, stored: Option<(Revision, IpamHandle)>) {
        let (revision, handle) =
            stored.map_or((None, IpamHandle::default()), |(r, handle)| (Some(r), handle));
        let before = total(&handle);
        self.handles.entry(id.clone()).or_insert(HandleDraft { revision, before, handle, changed: false });
    }

    /// Whether a handle was taken in.
    pub(super) fn knows_handle(&self, id: &HandleId) -> bool {
        self.handles.contains_key(id)
    }

    /// Whether a handle counts more addresses in a block than that has, as far as both were taken in.
    pub(super) fn counts_more(&self, id: &HandleId) -> bool {
        let counts = self.handles.get(id).map(|draft| &draft.handle.block);
        counts.into_iter().flatten().any(|(cidr, count)| {
            let held = self.blocks.get(cidr).map_or(0, |draft| draft.block.held_by(id).count());
            u32::try_from(held).is_ok_and(|held| *count > held)
        })
    }

    /// Makes a handle count no fewer addresses in a block than the block says. It may count more: an attempt that
    /// stopped half-way, or another caller that is about to write the block, has counted already. It is written even
    /// so: whoever read it before, and is about to lower it, must not succeed after this.
    pub(super) fn count_at_least(&mut self, id: &HandleId, block: Cidr) {
        let held = self.blocks.get(&block).map_or(0, |draft| draft.block.held_by(id).count());
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        if let Some(draft) = self.handles.get_mut(id) {
            let count = draft.handle.block.entry(block).or_default();
            *count = held.max(*count);
            draft.changed = true;
        }
    }

    /// Makes a handle's count in a block what the block says. A handle may count too high after a crash.
    pub(super) fn set_count(&mut self, id: &HandleId, block: Cidr, count: u32) {
        let Some(draft) = self.handles.get_mut(id) else {
            return;
        };
        let before = draft.handle.block.get(&block).copied().unwrap_or(0);
        if count == 0 {
            draft.handle.block.remove(&block);
        } else {
            draft.handle.block.insert(block, count);
        }
        draft.changed |= before != count;
    }

    /// Confirms a claim: creates the affinity, or updates the one that stands at a revision.
    pub(super) fn confirm(
        &mut self,
        owner: &Affinity,
        block: Cidr,
        stored: Option<(Revision, BlockAffinity)>,
    ) {
        let key = Key::Affinity(owner.clone(), block);
        let pending = Some(BlockAffinity::new(AffinityState::Pending).into());
        let op = match stored {
            None => Op {
                key: key.clone(),
                change: Change::Create(BlockAffinity::default().into()),
                interim: pending,
            },
            Some((revision, affinity)) => {
                let from = Some(affinity.state);
                let interim = (affinity.state != AffinityState::Pending).then_some(pending).flatten();
                let by = interim.is_some().then_some(AffinityState::Pending);
                debug_assert!(may_go(from, by, Some(AffinityState::Confirmed)), "{from:?} by {by:?}");
                let confirmed = BlockAffinity { state: AffinityState::Confirmed, ..affinity };
                Op { key: key.clone(), change: Change::Update(revision, confirmed.into()), interim }
            }
        };
        self.affinities.insert(key, op);
    }

    /// Gives an affinity up.
    pub(super) fn drop_affinity(&mut self, owner: &Affinity, block: Cidr, revision: Revision) {
        let interim = Some(Object::from(BlockAffinity::new(AffinityState::PendingDeletion)));
        let key = Key::Affinity(owner.clone(), block);
        self.affinities.insert(key.clone(), Op { key, change: Change::Delete(revision), interim });
    }

    /// The draft holds only while something that it does not change stands as it was read; `None`: is absent.
    pub(super) fn rest_on(&mut self, key: Key, revision: Option<Revision>) {
        self.rests_on.insert(key, revision);
    }

    pub(super) fn create_pool(&mut self, pool: &IpPool) {
        self.put(Key::Pool(pool.name().to_owned()), None, pool.clone());
    }

    pub(super) fn put_reservation(&mut self, revision: Option<Revision>, reservation: IpReservation) {
        self.put(Key::Reservation(reservation.name().to_owned()), revision, reservation);
    }

    pub(super) fn put_import(&mut self, revision: Option<Revision>, import: Import) {
        self.put(Key::Import(import.network.clone()), revision, import);
    }

    /// Something that others refer to: where a batch may stop half-way it is there before they are.
    pub(super) fn put_first(&mut self, key: Key, revision: Option<Revision>, object: impl Into<Object>) {
        self.put(key, revision, object);
    }

    /// Something that refers to others: where a batch may stop half-way it says what was so before.
    pub(super) fn put_last(&mut self, key: Key, revision: Revision, object: impl Into<Object>) {
        self.change_last(key, Change::Update(revision, object.into()));
    }

    /// Deletes something that refers to others, after them.
    pub(super) fn delete_last(&mut self, key: Key, revision: Revision) {
        self.change_last(key, Change::Delete(revision));
    }

    fn change_last(&mut self, key: Key, change: Change) {
        self.last.retain(|op| op.key != key);
        self.last.push(Op { key, change, interim: None });
    }

    /// Two changes of one key are one.
    fn put(&mut self, key: Key, revision: Option<Revision>, object: impl Into<Object>) {
        let object = object.into();
        let change =
            revision.map_or_else(|| Change::Create(object.clone()), |at| Change::Update(at, object.clone()));
        self.settings.retain(|op| op.key != key);
        self.settings.push(Op { key, change, interim: None });
    }

    /// Notes what was found out about a block that is not changed.
    pub(super) fn note_room(&mut self, block: &Block, has_room: bool) {
        self.room.retain(|hint| hint.block != block.cidr());
        self.room.push(RoomHint { block: block.cidr(), owner: block.affinity().cloned(), has_room });
    }

    /// Drafts that write blocks as they were read, with the present in place of times ahead of the clock; nothing else.
    pub(super) fn at_present(&self) -> Vec<Draft> {
        let stored =
            self.blocks.values().filter_map(|draft| Some((draft.revision?, draft.block.at_present()?)));
        let stored: Vec<_> = stored.collect();
        let of = |some: &[(Revision, Block)]| {
            let mut draft = Draft::default();
            for (revision, block) in some {
                draft.load_block(*revision, block.clone());
            }
            draft
        };
        stored.chunks(BATCH_MAX / 2).map(of).collect()
    }

    /// How many operations the batch would have by now.
    pub(super) fn len(&self) -> usize {
        let handles = self.handles.values().filter(|draft| draft.changed).count();
        let blocks = self.blocks.values().filter(|draft| draft.delete || draft.block.is_changed()).count();
        self.settings.len() + self.last.len() + handles + blocks + self.affinities.len()
    }

    /// The part of a draft that claims new blocks, as they are before anything is assigned from them. `None`: it
    /// claims none.
    ///
    /// Where a batch may stop half-way it goes first and by itself: then a block that a handle names either exists, and
    /// its revision tells whether anybody wrote it, or will never hold an address of that handle.
    pub(super) fn claims(&self) -> Option<Draft> {
        let first = |(cidr, draft): (&Cidr, &BlockDraft)| {
            let (revision, delete) = (draft.revision, draft.delete);
            let block = match (&draft.made, revision) {
                (Some(made), _) if !delete => made.clone(),
                // An empty block that is left, with the record of its affinity.
                (None, Some(_)) if delete => draft.block.clone(),
                _ => return None,
            };
            Some((*cidr, BlockDraft { revision, block, made: None, delete }))
        };
        let blocks: BTreeMap<_, _> = self.blocks.iter().filter_map(first).collect();
        // What belongs to a block that changes hands goes with that block; void claims may go at once.
        let goes_later = |key: &Key| {
            matches!(key, Key::Affinity(_, cidr) if self.blocks.get(cidr)
                .is_some_and(|draft| draft.made.is_none() && !draft.delete && draft.block.is_changed()))
        };
        let affinities = self.affinities.iter().filter(|(key, _)| !goes_later(key));
        let affinities = affinities.map(|(key, op)| (key.clone(), op.clone())).collect();
        let settings = self.settings.clone();
        let (enclosing, rests_on) = (self.enclosing.clone(), self.rests_on.clone());
        let claims = blocks.values().any(|draft| !draft.delete);
        claims.then(|| Draft { settings, blocks, affinities, rests_on, enclosing, ..Draft::default() })
    }

    /// The batch, in the order that is safe to stop in: what others refer to first; a handle that grows before its
    /// block, one that shrinks after it; affinities last, with their interim values.
    pub(super) fn into_batch(self, reserved: &AddrSet) -> Batch {
        let (growing, shrinking): (Vec<_>, Vec<_>) = self
            .handles
            .into_iter()
            .filter(|(_, draft)| draft.changed)
            .partition(|(_, draft)| total(&draft.handle) >= draft.before);
        let mut batch = Batch { ops: self.settings, room: self.room, ..Batch::default() };
        batch.ops.extend(growing.into_iter().filter_map(handle_op));
        for (cidr, draft) in self.blocks {
            let key = Key::Block(cidr);
            match (draft.revision, draft.delete) {
                (Some(revision), true) => batch.delete(key, revision),
                (None, true) => continue,
                _ if !draft.block.is_changed() => continue,
                (Some(revision), false) => batch.update(key, revision, draft.block.wire().clone()),
                (None, false) => {
                    // A pool may have been replaced meanwhile, and its range cut into blocks of another size.
                    let around = self.enclosing.iter().copied().filter(|outer| outer.contains(cidr));
                    batch.guards.push(Guard::NothingNewIn(cidr, around.collect()));
                    batch.create(key, draft.block.wire().clone());
                }
            }
            let has_room = !draft.delete && draft.block.may_have_room(reserved);
            batch.room.retain(|hint| hint.block != cidr);
            batch.room.push(RoomHint { block: cidr, owner: draft.block.affinity().cloned(), has_room });
        }
        batch.ops.extend(shrinking.into_iter().filter_map(handle_op));
        batch.ops.extend(self.affinities.into_values());
        batch.ops.extend(self.last);
        for (key, revision) in self.rests_on {
            if !batch.ops.iter().any(|op| op.key == key) {
                batch.guards.push(Guard::Unchanged(key, revision));
            }
        }
        batch
    }
}

fn total(handle: &IpamHandle) -> u64 {
    handle.block.values().map(|&count| u64::from(count)).sum()
}

fn handle_op((id, draft): (HandleId, HandleDraft)) -> Option<Op> {
    let change = match (draft.revision, draft.handle.block.is_empty()) {
        (None, true) => return None,
        (Some(revision), true) => Change::Delete(revision),
        (Some(revision), false) => Change::Update(revision, draft.handle.into()),
        (None, false) => Change::Create(draft.handle.into()),
    };
    Some(Op { key: Key::Handle(id), change, interim: None })
}
