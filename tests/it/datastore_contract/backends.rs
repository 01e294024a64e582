//! The backends that are held to the contract.

use std::path::Path;
use std::time::Duration;

use host_affine::datastore::Datastore;
use host_affine::datastore::etcd::{EtcdOptions, EtcdStore};
use host_affine::datastore::file::{Access, Durability, FileStore, IfAbsent, Options};
use host_affine::datastore::memory::Memory;

use crate::support::etcd::Server;

/// A store, as a series of sessions.
pub(super) trait Backend {
    type Store: Datastore;

    /// The store, open to be changed.
    fn store(&mut self) -> &mut Self::Store;

    /// A name of a pool such as people seldom choose.
    fn odd_name(&self) -> &'static str {
        "a/b ü"
    }

    /// Ends the session and begins another; what is derived may be written out on the way.
    fn reopen(&mut self);
}

/// The reference.
#[derive(Default)]
pub(super) struct InMemory(pub(super) Memory);

impl Backend for InMemory {
    type Store = Memory;

    fn store(&mut self) -> &mut Memory {
        &mut self.0
    }

    fn reopen(&mut self) {}
}

/// What happens to the files between two sessions.
#[derive(Clone, Copy)]
pub(super) enum Between {
    Nothing,
    /// The journal is written out.
    WriteOut,
}

/// The file store, in a directory of its own.
pub(super) struct InFiles {
    store: Option<FileStore>,
    folder: tempfile::TempDir,
    between: Between,
}

impl InFiles {
    pub(super) fn new(between: Between) -> Self {
        Self { store: None, folder: tempfile::tempdir().expect("a directory for the test"), between }
    }

    pub(super) fn open(&self, access: Access) -> FileStore {
        let options = Options {
            path: self.path().to_owned(),
            // The tests do not cut the power.
            durability: Durability::Process,
            allow_network_file_system: true,
            lock_timeout: Duration::from_secs(30),
            operation: "a test".to_owned(),
        };
        FileStore::open(&options, access, IfAbsent::Create)
            .expect("the store opens")
            .expect("the store exists")
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Backend for InFiles {
    type Store = FileStore;

    fn store(&mut self) -> &mut FileStore {
        if self.store.is_none() {
            self.store = Some(self.open(Access::Change));
        }
        self.store.as_mut().expect("opened above")
    }

    fn reopen(&mut self) {
        if let Between::WriteOut = self.between {
            self.store().write_out().expect("the journal is written out");
        }
        self.store = None;
    }
}

/// A real etcd, which each test has to itself.
pub(super) struct InEtcd {
    server: Server,
    store: Option<EtcdStore>,
}

impl InEtcd {
    pub(super) fn new() -> Self {
        Self { server: Server::start(), store: None }
    }
}

impl Backend for InEtcd {
    type Store = EtcdStore;

    fn store(&mut self) -> &mut EtcdStore {
        let options = EtcdOptions::at(vec![self.server.url()]);
        self.store.get_or_insert_with(|| EtcdStore::open(&options).expect("the store opens"))
    }

    /// Calico's keys escape nothing, so that no name has a `/`.
    fn odd_name(&self) -> &'static str {
        "a.b ü"
    }

    fn reopen(&mut self) {
        self.store = None;
    }
}
