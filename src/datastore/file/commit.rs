//! A commit: what stands in the way, the record that says what changes, and room in the journal for it.

use std::collections::BTreeSet;

use super::change::{SmallChange, small_change, weight};
use super::codec::{compact, encode, stamp};
use super::frame::RECORD_HEAD_BYTES;
use super::layout::{STATE, block_path, path};
use super::record::Body;
use super::room::room_entry;
use super::{Access, FileStore, limits, state};
use crate::api::calico::IpamHandle;
use crate::api::{Affinity, HandleId};
use crate::datastore::{BATCH_MAX, Batch, Change, Commit, Conflict, Error, Guard, Key, Object, Op, Revision};
use crate::net::Cidr;

/// Up to here, in bytes, the journal takes any record. Beyond, only what releases: DEL must work on a full disk.
const ANYTHING_UP_TO: usize = 64 << 10;
/// Up to here, in bytes, the journal takes what releases.
const RELEASES_UP_TO: usize = 120 << 10;

impl FileStore {
    /// Commits a batch, or says what stands in its way.
    pub(super) fn commit_batch(&mut self, batch: Batch) -> Result<Commit, Error> {
        assert!(self.access == Access::Change, "a session that only reads was asked to commit");
        check_form(&batch);
        let conflicts = self.conflicts(&batch)?;
        if !conflicts.is_empty() {
            return Ok(Commit::Refused(conflicts));
        }
        let body = self.body_of(&batch)?;
        if body.is_empty() {
            self.make_durable_now()?;
            return Ok(Commit::Applied);
        }
        limits::check_files(&body)?;
        self.make_space(&body, &batch)?;
        let durability = self.options.durability;
        if let Err(error) = self.journal.append(body, durability) {
            self.seen.forget();
            return Err(error);
        }
        self.remember(batch);
        Ok(Commit::Applied)
    }

    fn conflicts(&mut self, batch: &Batch) -> Result<Vec<Conflict>, Error> {
        let mut conflicts = Vec::new();
        for op in &batch.ops {
            let expected = match &op.change {
                Change::Create(_) => None,
                Change::Update(revision, _) | Change::Delete(revision) => Some(*revision),
            };
            if self.revision(&op.key)? != expected {
                conflicts.push(self.conflict(&op.key)?);
            }
        }
        for guard in &batch.guards {
            match guard {
                Guard::Unchanged(key, expected) => {
                    if self.revision(key)? != *expected {
                        conflicts.push(self.conflict(key)?);
                    }
                }
                Guard::NothingNewIn(network, seen) => {
                    let new = |cidr: &Cidr| cidr.overlaps(*network) && !seen.contains(cidr);
                    for cidr in self.block_cidrs()?.into_iter().filter(new) {
                        conflicts.push(self.conflict(&Key::Block(cidr))?);
                    }
                    for cidr in self.carved_cidrs()?.into_iter().filter(new) {
                        conflicts.push(self.conflict(&Key::Carved(cidr))?);
                    }
                }
            }
        }
        Ok(conflicts)
    }

    fn conflict(&mut self, key: &Key) -> Result<Conflict, Error> {
        Ok(Conflict { key: key.clone(), found: self.entry(key)? })
    }

    fn revision(&mut self, key: &Key) -> Result<Option<Revision>, Error> {
        if let Key::Block(cidr) = key
            && let Some(block) = self.seen.blocks.get(cidr)
        {
            return Ok(Some(Revision(block.sequence_number)));
        }
        if let Some(known) = self.seen.setting_revisions.as_ref().filter(|_| state::holds(key)) {
            return Ok(known.iter().find(|(known, _)| known == key).map(|(_, revision)| *revision));
        }
        Ok(self.entry(key)?.map(|entry| entry.revision))
    }

    /// The record's body. Takes the old states of blocks out of what the session remembers.
    fn body_of(&mut self, batch: &Batch) -> Result<Body, Error> {
        let revision = Revision(self.journal.next_seq());
        let mut body = Body::new(RECORD_HEAD_BYTES);
        let mut settings = None;
        for op in &batch.ops {
            match &op.key {
                Key::Block(cidr) => self.put_block(&mut body, *cidr, op, batch)?,
                Key::Handle(id) => self.put_handle(&mut body, id, op, batch)?,
                key => {
                    let object = stamped(op, revision);
                    let name = path(key).unwrap_or_default();
                    match &object {
                        Some(object) => body.put(&name, &encode(key, object, revision)),
                        None => body.delete(&name, 0),
                    }
                    if state::holds(key) {
                        let settings = match &mut settings {
                            Some(settings) => settings,
                            None => settings.insert(self.settings()?),
                        };
                        state::change(settings, key, object.map(|object| (revision, object)));
                    }
                }
            }
        }
        let changed: BTreeSet<Cidr> = batch
            .ops
            .iter()
            .filter_map(|op| match op.key {
                Key::Block(cidr) => Some(cidr),
                _ => None,
            })
            .collect();
        for hint in batch.room.iter().filter(|hint| !changed.contains(&hint.block)) {
            let listed = self.is_listed(hint.owner.as_ref(), hint.block)?;
            list(&mut body, &room_entry(hint.owner.as_ref(), hint.block), listed, hint.has_room);
        }
        if settings.is_none() && self.state_is_stale && !body.is_empty() {
            settings = Some(self.settings()?);
        }
        if let Some(settings) = settings {
            body.put(STATE, &state::encode(&settings));
        }
        Ok(body)
    }

    fn put_block(&mut self, body: &mut Body, cidr: Cidr, op: &Op, batch: &Batch) -> Result<(), Error> {
        // Known since the look for conflicts.
        let old = self.seen.blocks.remove(&cidr);
        let name = path(&op.key).unwrap_or_default();
        let old_owner = old.as_ref().map(|block| block.affinity.clone());
        let new = match &op.change {
            Change::Create(Object::Block(block)) | Change::Update(_, Object::Block(block)) => Some(block),
            Change::Delete(_) => None,
            change => panic!("{change:?} is no change of {}", op.key),
        };
        if let (None, Some(new)) = (&old, new) {
            self.check_was_absent(cidr, new.affinity.as_ref(), batch)?;
        }
        let Some(new) = new else {
            body.delete(&name, old.map_or(0, |block| block.sequence_number.saturating_add(1)));
            if let Some(owner) = old_owner {
                let listed = self.is_listed(owner.as_ref(), cidr)?;
                list(body, &room_entry(owner.as_ref(), cidr), listed, false);
            }
            return Ok(());
        };
        debug_assert_eq!(new.problem(), None, "{} is ill-formed", op.key);
        let lowest = match &old {
            Some(old) => old.sequence_number.saturating_add(1),
            None => self.journal.floor(),
        };
        assert!(
            new.sequence_number >= lowest && new.cidr == cidr,
            "{} of number {} was to be written as {} of number {}; the lowest is {lowest}",
            op.key,
            old.as_ref().map_or(0, |old| old.sequence_number),
            new.cidr,
            new.sequence_number
        );
        Self::check_block(old.as_ref(), new)?;
        match old.and_then(|old| small_change(old, new)) {
            Some(SmallChange::Set(ordinal)) => {
                let attribute = new.allocations[usize::from(ordinal)]
                    .and_then(|index| new.attributes.get(usize::from(index)))
                    .expect("a change is small only where it has an attribute");
                body.set(cidr, ordinal, new.sequence_number, attribute.as_json());
            }
            Some(SmallChange::Clear(ordinal)) => body.clear(cidr, ordinal, new.sequence_number),
            None => body.put(&name, &compact(&**new)),
        }
        let owner = new.affinity.as_ref();
        if let Some(old_owner) = old_owner.filter(|old_owner| old_owner.as_ref() != owner) {
            let listed = self.is_listed(old_owner.as_ref(), cidr)?;
            list(body, &room_entry(old_owner.as_ref(), cidr), listed, false);
        }
        let hint = batch.room.iter().find(|hint| hint.block == cidr);
        let has_room = hint.map_or(!new.unallocated.is_empty(), |hint| hint.has_room);
        let listed = self.is_listed(owner, cidr)?;
        list(body, &room_entry(owner, cidr), listed, has_room);
        Ok(())
    }

    /// Refuses to create a block that its host has already: its file is lost, and its addresses are in use.
    fn check_was_absent(&self, cidr: Cidr, owner: Option<&Affinity>, batch: &Batch) -> Result<(), Error> {
        let Some(owner) = owner else { return Ok(()) };
        let key = Key::Affinity(owner.clone(), cidr);
        if batch.ops.iter().any(|op| op.key == key && matches!(op.change, Change::Create(_))) {
            return Ok(());
        }
        let name = path(&key).unwrap_or_default();
        if self.content(&name)?.is_none() {
            return Ok(());
        }
        let problem = format!("it is missing, and {owner} has it by `{name}`");
        Err(Error::Damaged { path: self.dir.path_of(&block_path(cidr)), problem })
    }

    fn put_handle(&mut self, body: &mut Body, id: &HandleId, op: &Op, batch: &Batch) -> Result<(), Error> {
        let old = self.handle(id)?.map(|held| held.handle).unwrap_or_default();
        let none = IpamHandle::default();
        let new = match &op.change {
            Change::Create(Object::Handle(handle)) | Change::Update(_, Object::Handle(handle)) => handle,
            Change::Delete(_) => &none,
            change => panic!("{change:?} is no change of {}", op.key),
        };
        debug_assert!(
            new.block.iter().all(|(cidr, count)| counts(batch, *cidr, id, *count)),
            "{} does not say what its blocks say: {new:?}",
            op.key
        );
        for cidr in new.block.keys().filter(|cidr| !old.block.contains_key(cidr)) {
            body.handle_add(id, *cidr);
        }
        for cidr in old.block.keys().filter(|cidr| !new.block.contains_key(cidr)) {
            body.handle_remove(id, *cidr);
        }
        Ok(())
    }

    /// Makes sure that the journal takes a body.
    fn make_space(&mut self, body: &Body, batch: &Batch) -> Result<(), Error> {
        if self.journal.end_with(body) <= ANYTHING_UP_TO {
            return Ok(());
        }
        if let Err(error) = self.cut() {
            if !self.locked {
                return Err(error);
            }
            log::warn!("the journal could not be written out: {error}");
        }
        let end = self.journal.end_with(body);
        if self.journal.is_empty() {
            return self.journal.grow_to(end);
        }
        if end <= RELEASES_UP_TO && self.releases(batch)? {
            return Ok(());
        }
        Err(self.journal.full())
    }

    /// Whether every part of a batch takes something away.
    fn releases(&mut self, batch: &Batch) -> Result<bool, Error> {
        for op in &batch.ops {
            let releases = match (&op.key, &op.change) {
                (_, Change::Delete(_)) => true,
                (Key::Block(cidr), Change::Update(_, Object::Block(new))) => {
                    self.block(*cidr)?.is_some_and(|old| weight(new) < weight(&old))
                }
                (Key::Handle(id), Change::Update(_, Object::Handle(new))) => {
                    let old = self.handle(id)?.map(|held| held.handle).unwrap_or_default();
                    new.block.keys().all(|cidr| old.block.contains_key(cidr))
                }
                _ => false,
            };
            if !releases {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Brings what the session remembers up to date.
    fn remember(&mut self, batch: Batch) {
        self.state_is_stale = false;
        self.seen.settings = None;
        self.seen.setting_revisions = None;
        // What a handle holds follows from the blocks.
        self.seen.handles.clear();
        for op in batch.ops {
            let Key::Block(cidr) = op.key else {
                continue;
            };
            match op.change {
                Change::Create(Object::Block(block)) | Change::Update(_, Object::Block(block)) => {
                    self.seen.blocks.insert(cidr, *block);
                }
                _ => {
                    self.seen.blocks.remove(&cidr);
                }
            }
        }
    }
}

/// Refuses what only our own fault can cause.
fn check_form(batch: &Batch) {
    assert!(
        batch.ops.len() <= BATCH_MAX,
        "a batch has {} operations; {BATCH_MAX} are allowed",
        batch.ops.len()
    );
    let mut keys = BTreeSet::new();
    for op in &batch.ops {
        assert!(keys.insert(&op.key), "a batch changes {} twice", op.key);
    }
}

fn stamped(op: &Op, revision: Revision) -> Option<Object> {
    match &op.change {
        Change::Create(object) | Change::Update(_, object) => {
            let mut object = object.clone();
            stamp(&mut object, revision);
            Some(object)
        }
        Change::Delete(_) => None,
    }
}

/// Lists a block as having room, or not, where that is a change.
fn list(body: &mut Body, entry: &str, listed: bool, has_room: bool) {
    match (listed, has_room) {
        (false, true) => body.put(entry, b""),
        (true, false) => body.delete(entry, 0),
        (true, true) | (false, false) => {}
    }
}

/// Whether a block that a batch writes has so many addresses of a handle. One that it does not write is not looked at.
fn counts(batch: &Batch, cidr: Cidr, id: &HandleId, count: u32) -> bool {
    let written = batch.ops.iter().find(|op| op.key == Key::Block(cidr));
    match written.map(|op| &op.change) {
        Some(Change::Create(Object::Block(block)) | Change::Update(_, Object::Block(block))) => {
            super::handles::count(block, id) == count
        }
        Some(_) => false,
        None => true,
    }
}
