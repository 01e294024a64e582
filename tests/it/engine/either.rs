//! A store in memory, or, where tests are run once more for it, in a real etcd.

use std::process::Command;

use host_affine::datastore::etcd::{EtcdOptions, EtcdStore};
use host_affine::datastore::memory::Memory;
use host_affine::datastore::{
    Answer, Batch, Collection, Commit, Datastore, Entry, Error, Inspect as _, Isolation, Key, Object,
    Revision, Visit, Want, run_in_place,
};

use super::build::Bare;
use super::option;
use crate::support::etcd::{Server, need_etcd};

/// Set for the run on etcd.
const ON_ETCD: &str = "HOST_AFFINE_ENGINE_ON_ETCD";

/// Runs the tests of some modules once more, in a process of its own, with each store in an etcd of its own. So many at
/// least must run, so that names that find nothing do not pass.
pub(super) fn again_on_etcd(modules: &[&str], at_least: usize) {
    need_etcd!();
    let mut again = Command::new(std::env::current_exe().expect("this test"));
    again.env(ON_ETCD, "1").args(["--test-threads=4", "--skip=on_etcd_too"]).args(modules);
    let output = again.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let passed = said.split("test result: ok. ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert!(passed.is_some_and(|passed: usize| passed >= at_least), "{said}");
}

/// One of the two. As for the engine, every host in it is this machine, whichever it is.
pub(super) enum Either {
    Memory(Memory),
    Etcd {
        store: Box<EtcdStore>,
        /// Which runs as long as its store is used.
        _server: Box<Server>,
    },
}

impl Either {
    pub(super) fn new() -> Self {
        if option(ON_ETCD).is_none() {
            return Self::Memory(Memory::new());
        }
        let server = Server::start();
        let store = EtcdStore::open(&EtcdOptions::at(vec![server.url()])).expect("the store opens");
        Self::Etcd { store: Box::new(store), _server: Box::new(server) }
    }

    fn get(&mut self, key: &Key) -> Option<Entry> {
        let answers = run_in_place(self.read(&[Want::Object(key.clone())])).expect("it can be read");
        answers.into_iter().next().and_then(Answer::object)
    }

    /// Applies changes that nothing may stand against.
    pub(super) fn apply(&mut self, batch: Batch) {
        assert_eq!(run_in_place(self.commit(batch)).expect("it can be written"), Commit::Applied);
    }

    /// What the store itself says of blocks that it cannot read.
    pub(super) fn unreadable_blocks(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        let mut visit = |visit: Visit| said.extend(visit.block.err().map(|error| error.to_string()));
        if let Self::Etcd { store, .. } = self {
            run_in_place(store.each_block(&mut visit)).expect("they are come by");
        }
        said
    }

    /// The revision of what stands at a key.
    pub(super) fn revision(&mut self, key: &Key) -> Option<Revision> {
        self.get(key).map(|entry| entry.revision)
    }

    /// Takes away what stands at a key.
    pub(super) fn remove(&mut self, key: &Key) {
        let mut batch = Batch::default();
        batch.delete(key.clone(), self.revision(key).expect("it is there"));
        self.apply(batch);
    }
}

impl Bare for Either {
    fn plant(&mut self, key: Key, object: impl Into<Object>) {
        if let Self::Memory(memory) = self {
            return memory.plant(key, object);
        }
        let mut batch = Batch::default();
        match self.revision(&key) {
            Some(revision) => batch.update(key, revision, object),
            None => batch.create(key, object),
        }
        self.apply(batch);
    }

    fn entries(&mut self) -> Vec<Entry> {
        if let Self::Memory(memory) = self {
            return Bare::entries(memory);
        }
        let mut wants =
            vec![Want::Settings, Want::Nodes, Want::AllBlocks, Want::AllAffinities, Want::AllHandles];
        wants.extend(Collection::ALL.map(Want::All));
        let mut entries = Vec::new();
        for answer in run_in_place(self.read(&wants)).expect("it can be read") {
            match answer {
                Answer::Settings(settings) => {
                    let at = |key: Key, revision: Revision, object: Object| Entry { key, revision, object };
                    entries
                        .extend(settings.configuration.map(|(r, it)| at(Key::Configuration, r, it.into())));
                    let pools = settings.pools.into_iter();
                    entries.extend(pools.map(|(r, it)| at(Key::Pool(it.name().to_owned()), r, it.into())));
                    let kept = settings.reservations.into_iter();
                    entries
                        .extend(kept.map(|(r, it)| at(Key::Reservation(it.name().to_owned()), r, it.into())));
                }
                answer => entries.extend(answer.objects()),
            }
        }
        entries
    }
}

impl Datastore for Either {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        match self {
            Self::Memory(memory) => memory.read(wants).await,
            Self::Etcd { store, .. } => store.read(wants).await,
        }
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        match self {
            Self::Memory(memory) => memory.commit(batch).await,
            Self::Etcd { store, .. } => store.commit(batch).await,
        }
    }

    async fn back_off(&mut self, attempt: u32) {
        match self {
            Self::Memory(memory) => memory.back_off(attempt).await,
            Self::Etcd { store, .. } => store.back_off(attempt).await,
        }
    }

    fn isolation(&self) -> Isolation {
        Isolation::Exclusive
    }

    fn is_one_kernel(&self) -> bool {
        true
    }
}
