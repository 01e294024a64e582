//! The store that a network's configuration names, opened for one call.

use std::path::PathBuf;
use std::time::Duration;

use super::config::{DatastoreConf, Durability as ConfDurability, FileConf, NetConf};
use super::env::Call;
use super::failure::{Code, Failure};
use super::refusal::store_failure;
use crate::datastore::etcd::{CALL_PATIENCE, EtcdOptions, EtcdStore, Patience};
use crate::datastore::file::{Access, Durability, FileStore, IfAbsent, Options};
use crate::datastore::{Answer, Batch, Commit, Datastore, Error, Key, Want};

/// By whose lock processes of this host take turns where the configuration does not say: Calico's plugin goes by it too.
const TURN_FILE: &str = "/var/run/calico/ipam.lock";
/// Where a host's last blocks are remembered; gone with a boot, as it should be.
const MEMORY: &str = "/run/host-affine/last-blocks";

/// The store of a call.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it, and the file path allocates nothing for the other"
)]
pub(super) enum Store {
    /// In files.
    File(FileStore),
    /// In etcd.
    Etcd(Box<EtcdStore>),
}

impl Store {
    /// Opens it. `None`: there is none, and it was not to be made. The clock of the call starts when its turn has come.
    pub(super) fn open(
        conf: &NetConf,
        call: &Call,
        access: Access,
        if_absent: IfAbsent,
        lock_timeout: Duration,
        patience: Duration,
    ) -> Result<Option<Self>, Failure> {
        let opened = match &conf.datastore {
            DatastoreConf::File(file) => {
                FileStore::open(&file_options(file, call, lock_timeout), access, if_absent)
                    .map(|store| store.map(Store::File))
            }
            DatastoreConf::Etcd(etcd) => {
                let lock_file = conf.lock_file.clone().unwrap_or_else(|| PathBuf::from(TURN_FILE));
                let options = EtcdOptions {
                    patience: Patience::Call(patience),
                    lock_file: (access == Access::Change).then_some(lock_file),
                    lock_timeout,
                    memory: Some(MEMORY.into()),
                    ..EtcdOptions::from(etcd)
                };
                EtcdStore::open(&options).map(|store| Some(Store::Etcd(Box::new(store))))
            }
            DatastoreConf::Kubernetes(_) => {
                let msg = "network config: `ipam.datastore.type` is `kubernetes`, which this version does not serve \
                           yet";
                return Err(
                    Failure::new(Code::UnsupportedField, msg).with_details("hint: use `file` or `etcdv3`")
                );
            }
        };
        opened.map_err(|error| store_failure(&error))
    }

    /// Lets others at the store, when everything has been read.
    pub(super) fn unlock(&mut self) {
        match self {
            Store::File(store) => store.unlock(),
            Store::Etcd(store) => store.unlock(),
        }
    }
}

/// How long a call may take where the store is not this machine's.
pub(super) const PATIENCE: Duration = CALL_PATIENCE;

fn file_options(file: &FileConf, call: &Call, lock_timeout: Duration) -> Options {
    let container = if call.container_id.is_empty() { "" } else { ", container " };
    Options {
        path: file.path.clone(),
        durability: match file.durability {
            ConfDurability::Power => Durability::Power,
            ConfDurability::Process => Durability::Process,
        },
        allow_network_file_system: file.allow_network_filesystem,
        lock_timeout,
        operation: format!("process {} ({}{container}{})", std::process::id(), call.verb, call.container_id),
    }
}

impl Datastore for Store {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        match self {
            Store::File(store) => store.read(wants).await,
            Store::Etcd(store) => store.read(wants).await,
        }
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        match self {
            Store::File(store) => store.commit(batch).await,
            Store::Etcd(store) => store.commit(batch).await,
        }
    }

    async fn settle(&mut self) {
        match self {
            Store::File(store) => store.settle().await,
            Store::Etcd(store) => store.settle().await,
        }
    }

    async fn make_durable(&mut self) -> Result<(), Error> {
        match self {
            Store::File(store) => store.make_durable().await,
            Store::Etcd(store) => store.make_durable().await,
        }
    }

    async fn back_off(&mut self, attempt: u32) {
        match self {
            Store::File(store) => store.back_off(attempt).await,
            Store::Etcd(store) => store.back_off(attempt).await,
        }
    }

    fn is_out_of_step(&self, key: &Key) -> bool {
        match self {
            Store::File(store) => store.is_out_of_step(key),
            Store::Etcd(store) => store.is_out_of_step(key),
        }
    }

    fn is_atomic(&self) -> bool {
        match self {
            Store::File(store) => store.is_atomic(),
            Store::Etcd(store) => store.is_atomic(),
        }
    }

    fn is_one_machine(&self) -> bool {
        match self {
            Store::File(store) => store.is_one_machine(),
            Store::Etcd(store) => store.is_one_machine(),
        }
    }
}
