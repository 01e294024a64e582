//! What an operation reads or writes: two neighbouring operations that do not touch each other may change places
//! without anybody noticing, so that one order of the two stands for both.

use std::fmt;

use host_affine::api::calico::IpamHandle;
use host_affine::datastore::lies_in;
use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Batch, Change, Entry, Guard, Key, Object, Op, Want};
use host_affine::net::Cidr;

/// What an operation touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effect {
    reads: Vec<Want>,
    /// Keys written, and whether they come or go.
    writes: Vec<(Key, bool)>,
    guarded: Vec<Guard>,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.reads.is_empty() {
            write!(f, "reads {:?} ", self.reads)?;
        }
        for guard in &self.guarded {
            write!(f, "guards {guard:?} ")?;
        }
        for (key, comes_or_goes) in &self.writes {
            write!(f, "{} {key} ", if *comes_or_goes { "makes or deletes" } else { "changes" })?;
        }
        Ok(())
    }
}

impl Effect {
    /// Of reading.
    pub(crate) fn of_read(wants: &[Want]) -> Self {
        Self { reads: wants.to_vec(), ..Self::default() }
    }

    /// Of looking at guards.
    pub(crate) fn of_guards(guards: &[Guard]) -> Self {
        Self { guarded: guards.to_vec(), ..Self::default() }
    }

    /// Of one operation.
    pub(crate) fn of_op(op: &Op) -> Self {
        let comes_or_goes = !matches!(op.change, Change::Update(..));
        Self { writes: vec![(op.key.clone(), comes_or_goes)], ..Self::default() }
    }

    /// Of a whole batch.
    pub(crate) fn of_batch(batch: &Batch) -> Self {
        let mut all = Self::of_guards(&batch.guards);
        batch.ops.iter().for_each(|op| all.extend(Self::of_op(op)));
        all
    }

    /// Adds another effect.
    pub(crate) fn extend(&mut self, other: Self) {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.guarded.extend(other.guarded);
    }

    /// Whether it changes anything.
    pub(crate) fn writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Whether the order of the two cannot matter.
    pub(crate) fn is_independent_of(&self, other: &Self, state: &Memory) -> bool {
        let apart = |one: &Self, other: &Self| {
            one.writes.iter().all(|(key, comes_or_goes)| {
                other.writes.iter().all(|(written, _)| written != key)
                    && !other.reads.iter().any(|want| sees(want, key, *comes_or_goes, state))
                    && !other.guarded.iter().any(|guard| rests_on(guard, key, *comes_or_goes))
            })
        };
        apart(self, other) && apart(other, self)
    }
}

/// Whether a want can be answered otherwise after a write of `key`.
fn sees(want: &Want, key: &Key, comes_or_goes: bool, state: &Memory) -> bool {
    let block_in = |network: Cidr| matches!(key, Key::Block(cidr) if cidr.overlaps(network));
    match want {
        Want::Object(wanted) => wanted == key,
        // A deleted block raises the number that new blocks start with, which no test here depends on.
        Want::Settings => {
            matches!(key, Key::Configuration | Key::Pool(_) | Key::Reservation(_) | Key::Import(_))
        }
        Want::Held(id) => match key {
            Key::Handle(written) => written == id,
            Key::Block(cidr) => names(state, id, *cidr),
            _ => false,
        },
        Want::Affinities(owner) => matches!(key, Key::Affinity(written, _) if written == owner),
        Want::AffinityCidrs(owner) => {
            comes_or_goes && matches!(key, Key::Affinity(written, _) if written == owner)
        }
        Want::AllAffinities => matches!(key, Key::Affinity(..)),
        Want::BlockCidrs(network) => comes_or_goes && block_in(*network),
        Want::CarvedCidrs(network) => {
            comes_or_goes && matches!(key, Key::Carved(cidr) if cidr.overlaps(*network))
        }
        Want::All(collection) => collection.has(key),
        Want::Blocks(network) => block_in(*network),
        Want::AllBlocks => matches!(key, Key::Block(_)),
        Want::AllHandles => matches!(key, Key::Handle(_)),
        Want::Nodes => matches!(key, Key::Node(_)),
        Want::Room { within, .. } => matches!(key, Key::Block(cidr) if lies_in(within, *cidr)),
    }
}

fn names(state: &Memory, id: &host_affine::api::HandleId, cidr: Cidr) -> bool {
    let handle = state.answer(&Want::Object(Key::Handle(id.clone()))).object();
    handle.map(Entry::into::<IpamHandle>).is_some_and(|handle| handle.block.contains_key(&cidr))
}

fn rests_on(guard: &Guard, key: &Key, comes_or_goes: bool) -> bool {
    match guard {
        Guard::Unchanged(guarded, _) => guarded == key,
        Guard::NothingNewIn(network, _) => {
            comes_or_goes && matches!(key, Key::Block(cidr) | Key::Carved(cidr) if cidr.overlaps(*network))
        }
    }
}

/// One write of a store that applies a batch operation by operation.
#[derive(Clone, Debug)]
pub(crate) struct SingleWrite {
    /// The write.
    pub(crate) op: Op,
    /// Whether it goes by the revision that the interim value of its key got, whatever the batch said.
    pub(crate) follows_interim: bool,
    /// Whether it is an interim value itself.
    pub(crate) is_interim: bool,
}

/// A batch as single writes: interim values, then every operation.
pub(crate) fn single_writes(ops: Vec<Op>) -> Vec<SingleWrite> {
    let mut writes = Vec::new();
    for op in &ops {
        let Some(interim) = op.interim.clone() else {
            continue;
        };
        let change = match &op.change {
            Change::Create(_) => Change::Create(interim),
            Change::Update(revision, _) | Change::Delete(revision) => Change::Update(*revision, interim),
        };
        let op = Op { key: op.key.clone(), change, interim: None };
        writes.push(SingleWrite { op, follows_interim: false, is_interim: true });
    }
    for op in ops {
        let follows_interim = op.interim.is_some();
        writes.push(SingleWrite { op: Op { interim: None, ..op }, follows_interim, is_interim: false });
    }
    writes
}

/// The object that a change puts, if it puts one.
pub(crate) fn object_of(change: &Change) -> Option<&Object> {
    match change {
        Change::Create(object) | Change::Update(_, object) => Some(object),
        Change::Delete(_) => None,
    }
}
