//! The stores over which histories happen.

use std::cell::RefCell;
use std::fs;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use host_affine::datastore::file::{Access, FileStore, IfAbsent};
use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Answer, Batch, Commit, Datastore, Error, Isolation, Want};

use super::super::choices::Choices;
use super::super::sim::{Kind, Sim, World};
use super::operation::Between;
use crate::support::store::{Lab, open};

/// A store that a history can happen to.
pub(crate) trait Subject: Datastore {
    /// The process ends, and another opens the store.
    fn reopen(&mut self, _between: Between) -> Lost {
        Lost::Nothing
    }

    /// Whether it notes which blocks have room when it writes them, and may not notice that a reservation is lifted.
    fn notes_room(&self) -> bool {
        false
    }

    /// Whether a call may not learn what became of its own commit, and find only that it is done.
    fn loses_answers(&self) -> bool {
        false
    }

    /// Whether answers may be lost from now on, in a store that loses any.
    fn disturb(&mut self, _on: bool) {}
}

/// What a store no longer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Nothing,
    WhichBlocksHaveRoom,
}

impl Subject for Memory {}

/// A file store in a directory of its own, without a flush per commit: nobody cuts the power.
pub(crate) struct Files {
    lab: Lab,
    store: Option<FileStore>,
}

impl Files {
    pub(crate) fn new() -> Self {
        let mut files = Self { lab: Lab::in_memory(), store: None };
        files.open();
        files
    }

    fn open(&mut self) {
        self.store = open(&self.lab.store(), Access::Change, IfAbsent::Create);
    }

    fn store(&mut self) -> &mut FileStore {
        self.store.as_mut().expect("it is open")
    }
}

impl Datastore for Files {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        self.store().read(wants).await
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        self.store().commit(batch).await
    }

    async fn make_durable(&mut self) -> Result<(), Error> {
        self.store().make_durable().await
    }

    fn isolation(&self) -> Isolation {
        Isolation::Exclusive
    }

    fn is_one_kernel(&self) -> bool {
        true
    }
}

impl Subject for Files {
    fn notes_room(&self) -> bool {
        true
    }

    fn reopen(&mut self, between: Between) -> Lost {
        match between {
            Between::Nothing => {}
            Between::Settled => finish(self.store().settle()),
            Between::WrittenOut | Between::Forgotten => self.store().write_out().expect("written out"),
        }
        // Locks are the process's: the next must not find them.
        self.store = None;
        let forgotten = between == Between::Forgotten;
        if forgotten {
            let path = self.lab.store();
            for derived in ["state", "index"] {
                let _ = fs::remove_file(path.join(derived));
            }
            let _ = fs::remove_dir_all(path.join("ipam/room"));
        }
        self.open();
        if forgotten { Lost::WhichBlocksHaveRoom } else { Lost::Nothing }
    }
}

/// A store that many machines share, as one of them sees it that is alone for now.
pub(crate) struct Shared {
    sim: Sim,
    world: Rc<RefCell<World>>,
    loses_answers: bool,
}

impl Shared {
    pub(crate) fn new(kind: Kind, loses_answers: bool, seed: u64) -> Self {
        let world = World::new(Memory::new(), kind, Choices::seeded(seed), 0);
        let world = Rc::new(RefCell::new(world));
        let mut shared = Self { sim: Sim::new(&world, 0), world, loses_answers };
        shared.disturb(true);
        shared
    }
}

impl Datastore for Shared {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        self.sim.read(wants).await
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        self.sim.commit(batch).await
    }

    fn isolation(&self) -> Isolation {
        self.sim.isolation()
    }

    fn is_one_kernel(&self) -> bool {
        self.sim.is_one_kernel()
    }
}

impl Subject for Shared {
    fn loses_answers(&self) -> bool {
        self.loses_answers
    }

    fn disturb(&mut self, on: bool) {
        self.world.borrow_mut().faults_left = if on && self.loses_answers { usize::MAX } else { 0 };
    }
}

/// Runs a future to its end, however often it suspends: nobody else is there.
pub(crate) fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}
