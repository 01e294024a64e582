//! The store that a command line means, opened.

use super::Context;
use super::error::Error;
use crate::datastore::file::{Access, FileStore, IfAbsent};
use crate::datastore::memory::Memory;
use crate::datastore::{
    self, Affinities, Answer as Read, Batch, Commit, Datastore, Derived, Inspect, Isolation, Key,
    OptionOrigin, Visit, Want,
};
use crate::ipam::{Ipam, Trial};
use crate::store::{self, Place};

impl Context<'_> {
    /// Opens the store to look at it. Where there is none, it holds nothing, and the note says so.
    pub(super) fn open_to_read(&self) -> Result<(Ipam<Store>, Option<String>), Error> {
        self.open(Access::Read, IfAbsent::None)
    }

    /// Opens the store to change what is in it. Where there is none, it holds nothing, and the note says so.
    pub(super) fn open_to_change(&self) -> Result<(Ipam<Store>, Option<String>), Error> {
        self.open(Access::Change, IfAbsent::None)
    }

    /// Repairs the journal of a store in files where it is damaged. The answer says what was done.
    pub(super) fn salvage(&self) -> Result<Option<String>, Error> {
        match self.place()? {
            Place::File(options) => Ok(FileStore::salvage(&options)?),
            Place::Etcd(_) => Ok(None),
        }
    }

    /// The commits that a repair of the journal would drop, a line each.
    pub(super) fn beyond_salvage(&self) -> Result<Vec<String>, Error> {
        match self.place()? {
            Place::File(options) => Ok(FileStore::beyond_salvage(&options)?),
            Place::Etcd(_) => Ok(Vec::new()),
        }
    }

    /// Opens the store to find out what a change would do, without making it.
    pub(super) fn open_to_rehearse(&self) -> Result<(Ipam<Store>, Option<String>), Error> {
        let (ipam, note) = self.open(Access::Read, IfAbsent::None)?;
        Ok((engine(Store { is_rehearsal: true, ..ipam.into_store() }), note))
    }

    /// Opens the store to write something into it, or to find out what that would do. Only who writes makes a store.
    pub(super) fn open_to_write(&self, trial: Trial) -> Result<Ipam<Store>, Error> {
        let (access, if_absent) = match trial {
            Trial::DryRun => (Access::Read, IfAbsent::None),
            Trial::Write => (Access::Change, IfAbsent::Create),
        };
        self.open(access, if_absent).map(|(ipam, _)| ipam)
    }

    fn open(&self, access: Access, if_absent: IfAbsent) -> Result<(Ipam<Store>, Option<String>), Error> {
        let place = self.place()?;
        let (store, note) = if let Some(store) = store::Store::open(&place, access, if_absent)? {
            (store, None)
        } else {
            let note = format!("note: there is no store at {place}: nothing was ever assigned");
            (store::Store::Absent(Memory::new()), Some(note))
        };
        Ok((engine(Store { store, is_rehearsal: false }), note))
    }
}

/// The engine, with a view of this host's namespaces.
fn engine(store: Store) -> Ipam<Store> {
    Ipam::new(store).looking_at(&crate::host::namespaces::ThisHost)
}

/// The store that a command line means.
#[derive(Debug)]
pub(super) struct Store {
    store: store::Store,
    /// Whether nothing is written that is told to be.
    is_rehearsal: bool,
}

impl Store {
    /// Lets others at the store, when everything has been read.
    pub(super) fn unlock(&mut self) {
        self.store.unlock();
    }
}

impl Datastore for Store {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Read>, datastore::Error> {
        self.store.read(wants).await
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, datastore::Error> {
        if self.is_rehearsal {
            return Ok(Commit::Applied);
        }
        self.store.commit(batch).await
    }

    async fn settle(&mut self) {
        if !self.is_rehearsal {
            self.store.settle().await;
        }
    }

    async fn make_durable(&mut self) -> Result<(), datastore::Error> {
        if self.is_rehearsal {
            return Ok(());
        }
        self.store.make_durable().await
    }

    async fn back_off(&mut self, attempt: u32) {
        self.store.back_off(attempt).await;
    }

    fn is_out_of_step(&self, key: &Key) -> bool {
        self.store.is_out_of_step(key)
    }

    fn isolation(&self) -> Isolation {
        self.store.isolation()
    }

    fn is_one_kernel(&self) -> bool {
        self.store.is_one_kernel()
    }
}

impl Inspect for Store {
    async fn each_block(&mut self, visit: &mut dyn FnMut(Visit)) -> Result<(), datastore::Error> {
        self.store.each_block(visit).await
    }

    async fn all_affinities(&mut self) -> Result<Affinities, datastore::Error> {
        self.store.all_affinities().await
    }

    fn pass_over_damage(&mut self) {
        self.store.pass_over_damage();
    }

    fn passed_over(&mut self) -> Vec<datastore::Error> {
        self.store.passed_over()
    }

    async fn unreadable(&mut self) -> Result<Vec<datastore::Error>, datastore::Error> {
        self.store.unreadable().await
    }

    fn counts_handles(&self) -> bool {
        self.store.counts_handles()
    }

    async fn derived(&mut self) -> Result<Vec<Derived>, datastore::Error> {
        self.store.derived().await
    }

    async fn rebuild(&mut self) -> Result<Vec<String>, datastore::Error> {
        if self.is_rehearsal {
            return Ok(Vec::new());
        }
        self.store.rebuild().await
    }

    async fn option_origins(&mut self) -> Result<Vec<OptionOrigin>, datastore::Error> {
        self.store.option_origins().await
    }
}
