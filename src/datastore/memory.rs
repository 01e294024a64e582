//! The reference backend: a map. Tests run the engine on it, and simulations interrupt it.

use std::collections::BTreeMap;

use super::{
    Answer, Batch, Change, Commit, Conflict, Datastore, Entry, Error, Guard, Isolation, Key, Object, Op,
    Revision,
};
use super::{Settings, Stored, Want};
use crate::api::calico::{Attribute, IpamBlock};

/// A store in memory, with batches applied all or nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    objects: BTreeMap<Key, (Revision, Object)>,
    writes: u64,
    sequence_floor: u64,
}

impl Memory {
    /// A store with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every object, in the order of the keys.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.objects.iter().map(copied)
    }

    /// Puts an object, whatever stands there: how tests plant state.
    pub fn plant(&mut self, key: Key, object: impl Into<Object>) {
        self.writes += 1;
        self.objects.insert(key, (Revision(self.writes), object.into()));
    }

    /// Answers one want.
    #[must_use]
    pub fn answer(&self, want: &Want) -> Answer {
        match want {
            Want::Object(key) => Answer::Object(self.entry(key)),
            Want::Settings => Answer::Settings(Box::new(self.settings())),
            Want::Held(id) => {
                let handle = self.entry(&Key::Handle(id.clone()));
                let named = match handle.as_ref().map(|entry| &entry.object) {
                    Some(Object::Handle(handle)) => handle.block.keys().copied().collect(),
                    _ => Vec::new(),
                };
                let blocks = named.into_iter().filter_map(|cidr| self.entry(&Key::Block(cidr))).collect();
                Answer::Held(handle, blocks)
            }
            Want::Affinities(owner) => self.all(|key| matches!(key, Key::Affinity(o, _) if o == owner)),
            Want::AffinityCidrs(owner) => {
                let of_owner = |key: &Key| match key {
                    Key::Affinity(named, cidr) if named == owner => Some(*cidr),
                    _ => None,
                };
                Answer::Cidrs(self.objects.keys().filter_map(of_owner).collect())
            }
            Want::All(collection) => self.all(|key| collection.has(key)),
            Want::CarvedCidrs(within) => {
                Answer::Cidrs(self.carved().filter(|cidr| cidr.overlaps(*within)).collect())
            }
            Want::AllAffinities => self.all(|key| matches!(key, Key::Affinity(..))),
            Want::Blocks(within) => self.all(|key| matches!(key, Key::Block(cidr) if cidr.overlaps(*within))),
            Want::AllBlocks => self.all(|key| matches!(key, Key::Block(_))),
            Want::AllHandles => self.all(|key| matches!(key, Key::Handle(_))),
            Want::Nodes => self.all(|key| matches!(key, Key::Node(_))),
            Want::BlockCidrs(within) => Answer::Cidrs(
                self.blocks().map(|block| block.cidr).filter(|cidr| cidr.overlaps(*within)).collect(),
            ),
            Want::Room { of, within, enough } => Answer::Cidrs(
                self.blocks()
                    .filter(|block| may_have_room(block) && super::is_of(of, block.affinity.as_ref()))
                    .map(|block| block.cidr)
                    .filter(|cidr| super::lies_in(within, *cidr))
                    .take(*enough)
                    .collect(),
            ),
        }
    }

    /// Applies a batch all or nothing.
    pub fn apply(&mut self, batch: &Batch) -> Commit {
        let conflicts = self.conflicts(&batch.ops, &batch.guards);
        if !conflicts.is_empty() {
            return Commit::Refused(conflicts);
        }
        for op in &batch.ops {
            self.write(op);
        }
        Commit::Applied
    }

    /// What stands in the way of operations and guards.
    #[must_use]
    pub fn conflicts(&self, ops: &[Op], guards: &[Guard]) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        for op in ops {
            let expected = match &op.change {
                Change::Create(_) => None,
                Change::Update(revision, _) | Change::Delete(revision) => Some(*revision),
            };
            if self.revision(&op.key) != expected {
                conflicts.push(Conflict { key: op.key.clone(), found: self.entry(&op.key) });
            }
        }
        for guard in guards {
            match guard {
                Guard::Unchanged(key, expected) if self.revision(key) != *expected => {
                    conflicts.push(Conflict { key: key.clone(), found: self.entry(key) });
                }
                Guard::NothingNewIn(network, seen) => {
                    let blocks = self.blocks().map(|block| Key::Block(block.cidr));
                    for key in blocks.chain(self.carved().map(Key::Carved)) {
                        let (Key::Block(cidr) | Key::Carved(cidr)) = key else { continue };
                        if cidr.overlaps(*network) && !seen.contains(&cidr) {
                            let found = self.entry(&key);
                            conflicts.push(Conflict { key, found });
                        }
                    }
                }
                Guard::Unchanged(..) => {}
            }
        }
        conflicts
    }

    /// Applies one operation without looking.
    pub fn write(&mut self, op: &Op) {
        self.writes += 1;
        match &op.change {
            Change::Create(object) | Change::Update(_, object) => {
                self.objects.insert(op.key.clone(), (Revision(self.writes), object.clone()));
            }
            Change::Delete(_) => {
                if let Some((_, Object::Block(block))) = self.objects.remove(&op.key) {
                    self.sequence_floor = self.sequence_floor.max(block.sequence_number.saturating_add(1));
                }
            }
        }
    }

    /// The revision at which a key stands.
    #[must_use]
    pub fn revision(&self, key: &Key) -> Option<Revision> {
        self.objects.get(key).map(|(revision, _)| *revision)
    }

    fn entry(&self, key: &Key) -> Option<Entry> {
        let (revision, object) = self.objects.get(key)?;
        Some(Entry { key: key.clone(), revision: *revision, object: object.clone() })
    }

    fn all(&self, wanted: impl Fn(&Key) -> bool) -> Answer {
        Answer::Objects(self.objects.iter().filter(|(key, _)| wanted(key)).map(copied).collect())
    }

    fn carved(&self) -> impl Iterator<Item = crate::net::Cidr> + '_ {
        self.objects.keys().filter_map(|key| match key {
            Key::Carved(cidr) => Some(*cidr),
            _ => None,
        })
    }

    fn blocks(&self) -> impl Iterator<Item = &IpamBlock> {
        self.objects.values().filter_map(|(_, object)| match object {
            Object::Block(block) => Some(&**block),
            _ => None,
        })
    }

    fn settings(&self) -> Settings {
        fn of<T: Stored>(entry: Entry) -> (Revision, T) {
            (entry.revision, entry.into())
        }
        let mut settings = Settings { sequence_floor: self.sequence_floor, ..Settings::default() };
        for stored in &self.objects {
            let entry = || copied(stored);
            match stored.0 {
                Key::Configuration => settings.configuration = Some(of(entry())),
                Key::Pool(_) => settings.pools.push(of(entry())),
                Key::Reservation(_) => settings.reservations.push(of(entry())),
                Key::Import(_) => settings.imports.push(of(entry())),
                _ => {}
            }
        }
        settings
    }
}

fn copied((key, (revision, object)): (&Key, &(Revision, Object))) -> Entry {
    Entry { key: key.clone(), revision: *revision, object: object.clone() }
}

/// Whether a block has a free address, or one that may have cooled down meanwhile.
#[must_use]
pub fn may_have_room(block: &IpamBlock) -> bool {
    !block.unallocated.is_empty() || block.attributes.iter().any(Attribute::may_be_cooling)
}

impl Datastore for Memory {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        Ok(wants.iter().map(|want| self.answer(want)).collect())
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        Ok(self.apply(&batch))
    }

    fn isolation(&self) -> Isolation {
        Isolation::Exclusive
    }

    fn is_one_kernel(&self) -> bool {
        true
    }
}
