//! A store of whichever kind somebody names, opened.

use std::fmt;

use crate::datastore::etcd::{EtcdOptions, EtcdStore};
use crate::datastore::file::{self, Access, FileStore, IfAbsent};
use crate::datastore::memory::Memory;
use crate::datastore::{
    Affinities, Answer, Batch, Commit, Datastore, Derived, Error, Inspect, Isolation, Key, OptionOrigin,
    Visit, Want,
};

/// Where a store is, and how it is reached.
#[derive(Clone, Debug)]
pub enum Place {
    /// A directory.
    File(Box<file::Options>),
    /// A cluster.
    Etcd(Box<EtcdOptions>),
}

impl Place {
    /// Do all hosts of the store run on this very kernel?
    #[must_use]
    pub fn is_one_kernel(&self) -> bool {
        match self {
            Place::File(options) => file::is_one_kernel(options),
            Place::Etcd(_) => false,
        }
    }
}

/// What tells one store from another.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(options) => options.path.display().fmt(f),
            Place::Etcd(options) => {
                let mut endpoints = options.endpoints.clone();
                endpoints.sort();
                write!(f, "etcd at {}", endpoints.join(","))
            }
        }
    }
}

/// A session with a store.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it, and a runtime's call with files allocates nothing for the others"
)]
pub enum Store {
    /// In files.
    File(FileStore),
    /// In etcd.
    Etcd(Box<EtcdStore>),
    /// There is none: it holds nothing, and nothing is to be written to it.
    Absent(Memory),
}

impl Store {
    /// Opens a store. `None`: there is none, and it was not to be made.
    ///
    /// # Errors
    /// As the kind of store says.
    pub fn open(place: &Place, access: Access, if_absent: IfAbsent) -> Result<Option<Self>, Error> {
        match place {
            Place::File(options) => Ok(FileStore::open(options, access, if_absent)?.map(Self::File)),
            Place::Etcd(options) => Ok(Some(Self::Etcd(Box::new(EtcdStore::open(options)?)))),
        }
    }

    /// Lets others at the store, when everything has been read.
    pub fn unlock(&mut self) {
        match self {
            Store::File(store) => store.unlock(),
            Store::Etcd(store) => store.unlock(),
            Store::Absent(_) => {}
        }
    }
}

/// The same of whichever store it is.
macro_rules! of_store {
    ($self:expr, $store:ident => $what:expr) => {
        match $self {
            Store::File($store) => $what,
            Store::Etcd($store) => $what,
            Store::Absent($store) => $what,
        }
    };
}

impl Datastore for Store {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        of_store!(self, store => store.read(wants).await)
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        of_store!(self, store => store.commit(batch).await)
    }

    async fn settle(&mut self) {
        of_store!(self, store => store.settle().await);
    }

    async fn make_durable(&mut self) -> Result<(), Error> {
        of_store!(self, store => store.make_durable().await)
    }

    async fn back_off(&mut self, attempt: u32) {
        of_store!(self, store => store.back_off(attempt).await);
    }

    fn is_out_of_step(&self, key: &Key) -> bool {
        of_store!(self, store => store.is_out_of_step(key))
    }

    fn isolation(&self) -> Isolation {
        of_store!(self, store => store.isolation())
    }

    fn is_one_kernel(&self) -> bool {
        of_store!(self, store => store.is_one_kernel())
    }
}

/// A map has no files that could be damaged.
impl Inspect for Memory {}

impl Inspect for Store {
    async fn each_block(&mut self, visit: &mut dyn FnMut(Visit)) -> Result<(), Error> {
        of_store!(self, store => store.each_block(visit).await)
    }

    async fn all_affinities(&mut self) -> Result<Affinities, Error> {
        of_store!(self, store => store.all_affinities().await)
    }

    fn pass_over_damage(&mut self) {
        of_store!(self, store => store.pass_over_damage());
    }

    fn passed_over(&mut self) -> Vec<Error> {
        of_store!(self, store => store.passed_over())
    }

    async fn unreadable(&mut self) -> Result<Vec<Error>, Error> {
        of_store!(self, store => store.unreadable().await)
    }

    fn counts_handles(&self) -> bool {
        of_store!(self, store => store.counts_handles())
    }

    async fn derived(&mut self) -> Result<Vec<Derived>, Error> {
        of_store!(self, store => store.derived().await)
    }

    async fn rebuild(&mut self) -> Result<Vec<String>, Error> {
        of_store!(self, store => store.rebuild().await)
    }

    async fn option_origins(&mut self) -> Result<Vec<OptionOrigin>, Error> {
        of_store!(self, store => store.option_origins().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_the_same_in_whatever_order_its_members_are_named() {
        let place = |endpoints: &[&str]| {
            let endpoints = endpoints.iter().map(|&one| one.to_owned()).collect();
            Place::Etcd(Box::new(EtcdOptions::at(endpoints))).to_string()
        };
        assert_eq!(place(&["http://b:1", "http://a:1"]), "etcd at http://a:1,http://b:1");
        assert_eq!(place(&["http://a:1", "http://b:1"]), place(&["http://b:1", "http://a:1"]));
    }
}
