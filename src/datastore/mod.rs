//! The seam between the engine and wherever state is kept.
//!
//! # Contract
//!
//! - [`Datastore::read`] fetches several things in one step. *Absent* and *could not look* are different answers: the
//!   first is an empty answer, the second an error.
//! - [`Datastore::commit`] applies an ordered list of operations, each with the state that it expects. A batch touches
//!   a key once and has at most [`BATCH_MAX`] operations (the limit of one etcd transaction); longer work is several
//!   batches, each complete in itself.
//! - A commit is *applied*; or *refused*, with nothing changed, because something stood otherwise; or *unknown*, when
//!   the answer was lost: it may or may not have been applied, now or a little later, and only reading tells.
//! - A store that is [atomic](Datastore::is_atomic) applies a batch all or nothing. One that is not applies the
//!   operations in order and stops at the first failure, so every batch is written in an order that is safe to stop
//!   in, with an [interim](Op::interim) value where a state between is needed. Such a store only looks at guards.
//! - Revisions change with every write of a key and are never used again for it. They are compared for equality only.
//!
//! One suite holds every backend to this: `tests/it/datastore_contract.rs`.

mod error;
pub mod etcd;
mod fault;
pub mod file;
mod inspect;
mod key;
pub mod memory;
mod object;
mod own;

use crate::api::{Affinity, HandleId, HostName};
use crate::net::Cidr;

pub use error::{Class, Error, Verb};
pub use fault::Fault;
pub use file::{Access, lock_within};
pub use inspect::{Affinities, Derived, Inspect, OptionOrigin, Visit};
pub use key::Key;
pub use object::{Entry, Object, Settings, Stored};
pub use own::{
    BootTime, Carved, CarvedFor, Import, ImportedDirectory, Machine, MachineAttachment, MachineRole,
    MachinesOf, ProjectName,
};

/// The most operations of one batch: etcd's `--max-txn-ops`.
pub const BATCH_MAX: usize = 128;

/// Where state is kept. See the module for the contract.
pub trait Datastore {
    /// Fetches everything wanted in one step; the answers come in the order of the wants.
    fn read(&mut self, wants: &[Want]) -> impl Future<Output = Result<Vec<Answer>, Error>>;

    /// Applies a batch.
    fn commit(&mut self, batch: Batch) -> impl Future<Output = Result<Commit, Error>>;

    /// Does what may wait until the answer is out. Nothing that was committed depends on it.
    fn settle(&mut self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Makes sure that what was read cannot be lost any more. A call that commits nothing, but whose answer rests on
    /// what it read, asks for this before it answers: the call that wrote it may have died before its own flush.
    fn make_durable(&mut self) -> impl Future<Output = Result<(), Error>> {
        std::future::ready(Ok(()))
    }

    /// Waits before a batch is tried again that others were faster with: longer with each attempt, and not for the same
    /// time as whoever lost too. A store that nobody else can change meanwhile, or that is simulated, does not wait.
    fn back_off(&mut self, attempt: u32) -> impl Future<Output = ()> {
        let _ = attempt;
        std::future::ready(())
    }

    /// Whether an object that is to stay as it was just read must be written all the same: it stands in several places,
    /// for several readers, and these do not agree.
    fn is_out_of_step(&self, key: &Key) -> bool {
        let _ = key;
        false
    }

    /// The protection of a call from other writers.
    fn isolation(&self) -> Isolation;

    /// Do all hosts of this store run on this very kernel? Then an earlier boot left nothing alive, whatever its node was
    /// called.
    fn is_one_kernel(&self) -> bool;

    /// Is a batch applied all or nothing?
    fn is_atomic(&self) -> bool {
        self.isolation() != Isolation::Stepwise
    }

    /// Can nobody else change the store during a call, and is nothing ever half-written?
    fn is_exclusive(&self) -> bool {
        self.isolation() == Isolation::Exclusive
    }
}

/// The protection of a call from other writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// One call at a time: nothing changes between a read and a commit. A batch is applied all or nothing.
    Exclusive,
    /// Calls run at the same time. A batch is applied all or nothing.
    Atomic,
    /// Calls run at the same time. A batch is applied in order, and may stop at any operation.
    Stepwise,
}

/// The datastore's token for one stored state of a key. Opaque: equality only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

/// Something to be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    /// One object.
    Object(Key),
    /// What every call needs: configuration, pools, reservations, imports.
    Settings,
    /// A handle, and every block that it names.
    Held(HandleId),
    /// All affinities of one owner.
    Affinities(Affinity),
    /// The CIDRs of the blocks that an owner records an affinity to, whatever its state. Cheaper than the records.
    AffinityCidrs(Affinity),
    /// All affinities.
    AllAffinities,
    /// The CIDRs of all blocks that overlap a network.
    BlockCidrs(Cidr),
    /// The networks carved out of pools that overlap a network. Blocks are not among them.
    CarvedCidrs(Cidr),
    /// All objects of a collection.
    All(Collection),
    /// All blocks that overlap a network.
    Blocks(Cidr),
    /// All blocks.
    AllBlocks,
    /// All handles.
    AllHandles,
    /// All nodes.
    Nodes,
    /// Blocks that, as far as is known, have an address that may be handed out, now or after its cooldown. May name one that has none, and may
    /// miss one: whoever needs certainty reads the blocks.
    Room {
        /// Whose blocks.
        of: RoomOf,
        /// Only blocks that lie in one of these.
        within: Vec<Cidr>,
        /// How many are enough.
        enough: usize,
    },
}

/// Objects that are listed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// The networks carved out of pools.
    Carved,
    /// What only `ipam.miloapis.com` knows of pools.
    PoolExtras,
    /// The allocations that people made, of all projects.
    Allocations,
    /// The claims, of all projects.
    Claims,
    /// The virtual machines.
    Machines,
}

impl Collection {
    /// All there are.
    pub const ALL: [Self; 5] =
        [Self::Carved, Self::PoolExtras, Self::Allocations, Self::Claims, Self::Machines];

    /// Whether a key belongs to it.
    #[must_use]
    pub fn has(self, key: &Key) -> bool {
        match self {
            Collection::Carved => matches!(key, Key::Carved(_)),
            Collection::PoolExtras => matches!(key, Key::PoolExtras(_)),
            Collection::Allocations => matches!(key, Key::Allocation(_)),
            Collection::Claims => matches!(key, Key::Claim(_)),
            Collection::Machines => matches!(key, Key::Machine(_)),
        }
    }
}

/// Whose blocks are looked through for room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomOf {
    /// Those affine to one owner.
    Owner(Affinity),
    /// Those affine to nobody.
    Nobody,
    /// Those affine to anybody but one owner, and those affine to nobody.
    AllBut(Affinity),
}

/// Whether a block of this owner is among those meant.
#[must_use]
pub fn is_of(of: &RoomOf, owner: Option<&Affinity>) -> bool {
    match of {
        RoomOf::Owner(wanted) => owner == Some(wanted),
        RoomOf::Nobody => owner.is_none(),
        RoomOf::AllBut(left_out) => owner != Some(left_out),
    }
}

/// Whether a block lies in one of some networks.
#[must_use]
pub fn lies_in(networks: &[Cidr], block: Cidr) -> bool {
    networks.iter().any(|network| network.contains(block))
}

/// The answer to a [`Want`], of the variant that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Want::Object`].
    Object(Option<Entry>),
    /// To [`Want::Settings`].
    Settings(Box<Settings>),
    /// To [`Want::Held`]: the handle, and those of its blocks that exist.
    Held(Option<Entry>, Vec<Entry>),
    /// To a want for several objects, in the order of their keys.
    Objects(Vec<Entry>),
    /// To [`Want::BlockCidrs`], [`Want::CarvedCidrs`], [`Want::AffinityCidrs`] and [`Want::Room`].
    Cidrs(Vec<Cidr>),
}

impl Answer {
    /// The object, if it exists.
    ///
    /// # Panics
    /// When another kind of thing was asked for: our own fault.
    #[must_use]
    pub fn object(self) -> Option<Entry> {
        match self {
            Answer::Object(entry) => entry,
            other => panic!("asked for an object, answered with {other:?}"),
        }
    }

    /// The settings.
    ///
    /// # Panics
    /// As [`Answer::object`].
    #[must_use]
    pub fn settings(self) -> Settings {
        match self {
            Answer::Settings(settings) => *settings,
            other => panic!("asked for the settings, answered with {other:?}"),
        }
    }

    /// The handle and its blocks.
    ///
    /// # Panics
    /// As [`Answer::object`].
    #[must_use]
    pub fn held(self) -> (Option<Entry>, Vec<Entry>) {
        match self {
            Answer::Held(handle, blocks) => (handle, blocks),
            other => panic!("asked for a handle, answered with {other:?}"),
        }
    }

    /// The objects.
    ///
    /// # Panics
    /// As [`Answer::object`].
    #[must_use]
    pub fn objects(self) -> Vec<Entry> {
        match self {
            Answer::Objects(entries) => entries,
            other => panic!("asked for objects, answered with {other:?}"),
        }
    }

    /// The CIDRs.
    ///
    /// # Panics
    /// As [`Answer::object`].
    #[must_use]
    pub fn cidrs(self) -> Vec<Cidr> {
        match self {
            Answer::Cidrs(cidrs) => cidrs,
            other => panic!("asked for CIDRs, answered with {other:?}"),
        }
    }
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// What is changed.
    pub key: Key,
    /// How, and what must stand there.
    pub change: Change,
    /// Written first by a store that applies operations one by one: the claim before it is confirmed, the affinity
    /// before its block is given up. Atomic stores skip it.
    pub interim: Option<Object>,
}

/// How a key changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The key must be absent.
    Create(Object),
    /// The key must be at a revision.
    Update(Revision, Object),
    /// The key must be at a revision.
    Delete(Revision),
}

/// A condition of a batch on something that it does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The key is at this revision; `None`: it is absent.
    Unchanged(Key, Option<Revision>),
    /// The blocks and carved networks that overlap this network are those that were seen.
    NothingNewIn(Cidr, Vec<Cidr>),
}

/// A correction of what a store believes about a block's free addresses; see [`Want::Room`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomHint {
    /// The block.
    pub block: Cidr,
    /// Its owner.
    pub owner: Option<Affinity>,
    /// Whether it has an address that may be handed out automatically, now or after its cooldown.
    pub has_room: bool,
}

/// Changes that belong together, in an order that is safe to stop in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The changes. No key twice.
    pub ops: Vec<Op>,
    /// What must hold besides.
    pub guards: Vec<Guard>,
    /// What was found out about blocks. For a block that is changed and not named here, the store looks whether it
    /// has a free ordinal.
    pub room: Vec<RoomHint>,
}

impl Batch {
    /// Whether committing it would change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.room.is_empty()
    }

    /// Adds a creation.
    pub fn create(&mut self, key: Key, object: impl Into<Object>) {
        self.ops.push(Op { key, change: Change::Create(object.into()), interim: None });
    }

    /// Adds an update of what was read at a revision.
    pub fn update(&mut self, key: Key, revision: Revision, object: impl Into<Object>) {
        self.ops.push(Op { key, change: Change::Update(revision, object.into()), interim: None });
    }

    /// Adds a deletion of what was read at a revision.
    pub fn delete(&mut self, key: Key, revision: Revision) {
        self.ops.push(Op { key, change: Change::Delete(revision), interim: None });
    }
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Commit {
    /// It was applied.
    Applied,
    /// Something stood otherwise. Nothing was changed, or, in a store that is not atomic, only operations before the
    /// one that was refused.
    Refused(Vec<Conflict>),
    /// The answer was lost.
    Unknown,
}

/// What stood in the way of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The key.
    pub key: Key,
    /// What stands there now, where the store tells.
    pub found: Option<Entry>,
}

/// Runs a future that never waits for anything: the file store and the HTTP client do their I/O in place.
///
/// # Panics
/// When the future suspends, which only a simulation does.
pub fn run_in_place<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("a datastore suspended outside of a simulation"),
    }
}

/// The owner of a host's blocks.
impl From<HostName> for Affinity {
    fn from(host: HostName) -> Self {
        Affinity::Host(host)
    }
}
