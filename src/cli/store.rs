//! The store that a command line means, opened.

use super::Context;
use super::error::Error;
use super::place::Place;
use crate::datastore::etcd::EtcdStore;
use crate::datastore::file::{Access, FileStore, IfAbsent};
use crate::datastore::memory::Memory;
use crate::datastore::{
    self, Affinities, Answer as Read, Batch, Commit, Datastore, Derived, Inspect, Key, OptionOrigin, Visit,
    Want,
};
use crate::ipam::{Ipam, Trial};

impl Context<'_> {
    /// Opens the store to look at it. Where there is none, it holds nothing, and the note says so.
    pub(super) fn open_to_read(&self) -> Result<(Ipam<Store>, Option<String>), Error> {
        self.open(Access::Read, IfAbsent::None)
    }

    /// Opens the store to change what is in it. Where there is none, it holds nothing, and the note says so.
    pub(super) fn open_to_change(&self) -> Result<(Ipam<Store>, Option<String>), Error> {
        self.open(Access::Change, IfAbsent::None)
    }

    /// Gives the journal of a store in files a header back that it lost. The answer says what was done, where it was.
    pub(super) fn salvage(&self) -> Result<Option<String>, Error> {
        match self.place()? {
            Place::File(options) => Ok(FileStore::salvage(&options)?),
            Place::Etcd(_) => Ok(None),
        }
    }

    /// Opens the store to find out what a change would do, without making it.
    pub(super) fn open_to_rehearse(&self) -> Result<(Ipam<Store>, Option<String>), Error> {
        let (ipam, note) = self.open(Access::Read, IfAbsent::None)?;
        Ok((Ipam::new(Store { is_rehearsal: true, ..ipam.into_store() }), note))
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
        let (backend, note) = match self.place()? {
            Place::Etcd(options) => (Backend::Etcd(Box::new(EtcdStore::open(&options)?)), None),
            Place::File(options) => {
                if let Some(store) = FileStore::open(&options, access, if_absent)? {
                    (Backend::File(Box::new(store)), None)
                } else {
                    let place = options.path.display();
                    let note = format!("note: there is no store at {place}: nothing was ever assigned");
                    (Backend::Absent(Memory::new()), Some(note))
                }
            }
        };
        Ok((Ipam::new(Store { backend, is_rehearsal: false }), note))
    }
}

/// The store that a command line means.
#[derive(Debug)]
pub(super) struct Store {
    backend: Backend,
    /// Whether nothing is written that is told to be.
    is_rehearsal: bool,
}

#[derive(Debug)]
enum Backend {
    /// In files.
    File(Box<FileStore>),
    /// In etcd.
    Etcd(Box<EtcdStore>),
    /// There is none: it holds nothing, and nothing is written to it.
    Absent(Memory),
}

/// The same of whichever store it is.
macro_rules! of_store {
    ($self:expr, $store:ident => $what:expr) => {
        match &mut $self.backend {
            Backend::File($store) => $what,
            Backend::Etcd($store) => $what,
            Backend::Absent($store) => $what,
        }
    };
}

impl Store {
    /// Lets others at the store, when everything has been read.
    pub(super) fn unlock(&mut self) {
        match &mut self.backend {
            Backend::File(store) => store.unlock(),
            Backend::Etcd(store) => store.unlock(),
            Backend::Absent(_) => {}
        }
    }
}

impl Datastore for Store {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Read>, datastore::Error> {
        of_store!(self, store => store.read(wants).await)
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, datastore::Error> {
        if self.is_rehearsal {
            return Ok(Commit::Applied);
        }
        of_store!(self, store => store.commit(batch).await)
    }

    async fn settle(&mut self) {
        if !self.is_rehearsal {
            of_store!(self, store => store.settle().await);
        }
    }

    async fn make_durable(&mut self) -> Result<(), datastore::Error> {
        if self.is_rehearsal {
            return Ok(());
        }
        of_store!(self, store => store.make_durable().await)
    }

    async fn back_off(&mut self, attempt: u32) {
        of_store!(self, store => store.back_off(attempt).await);
    }

    fn is_out_of_step(&self, key: &Key) -> bool {
        match &self.backend {
            Backend::File(store) => store.is_out_of_step(key),
            Backend::Etcd(store) => store.is_out_of_step(key),
            Backend::Absent(store) => store.is_out_of_step(key),
        }
    }

    fn is_atomic(&self) -> bool {
        match &self.backend {
            Backend::File(store) => store.is_atomic(),
            Backend::Etcd(store) => store.is_atomic(),
            Backend::Absent(store) => store.is_atomic(),
        }
    }

    fn is_one_machine(&self) -> bool {
        match &self.backend {
            Backend::File(store) => store.is_one_machine(),
            Backend::Etcd(store) => store.is_one_machine(),
            Backend::Absent(store) => store.is_one_machine(),
        }
    }
}

/// A map has no files that could be damaged.
impl Inspect for Memory {}

impl Inspect for Store {
    async fn each_block(&mut self, visit: &mut dyn FnMut(Visit)) -> Result<(), datastore::Error> {
        of_store!(self, store => store.each_block(visit).await)
    }

    async fn all_affinities(&mut self) -> Result<Affinities, datastore::Error> {
        of_store!(self, store => store.all_affinities().await)
    }

    async fn unreadable(&mut self) -> Result<Vec<datastore::Error>, datastore::Error> {
        of_store!(self, store => store.unreadable().await)
    }

    fn counts_handles(&self) -> bool {
        match &self.backend {
            Backend::File(store) => store.counts_handles(),
            Backend::Etcd(store) => store.counts_handles(),
            Backend::Absent(store) => store.counts_handles(),
        }
    }

    async fn derived(&mut self) -> Result<Vec<Derived>, datastore::Error> {
        of_store!(self, store => store.derived().await)
    }

    async fn rebuild(&mut self) -> Result<Vec<String>, datastore::Error> {
        if self.is_rehearsal {
            return Ok(Vec::new());
        }
        of_store!(self, store => store.rebuild().await)
    }

    async fn option_origins(&mut self) -> Result<Vec<OptionOrigin>, datastore::Error> {
        of_store!(self, store => store.option_origins().await)
    }
}
